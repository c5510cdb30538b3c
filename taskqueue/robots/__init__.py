"""``taskqueue.robots``: robots.txt and sitemaps, for fetchers; ``pip install 'taskqueue-scheduler[robots]'``.

What a site asks of crawlers, in robots.txt, and what it offers them, in sitemaps. Here may live what reads both, and
what keeps them. Whatever has to be fetched, a function of the user's fetches. ``Robots`` waits, ``AsyncRobots`` is
async. A package of its own, and not among what ``taskqueue`` itself lists, because it needs one that nothing else does.
"""

from taskqueue.robots.asynchronous import AsyncRobots
from taskqueue.robots.blocking import Robots

__all__ = ["AsyncRobots", "Robots"]
