"""``taskqueue.robots``: robots.txt and sitemaps, for fetchers; ``pip install 'taskqueue-scheduler[robots]'``.

robots.txt says what a site asks of crawlers, sitemaps what it offers them. Here may live what parses and caches both; a
function of the user fetches. ``Robots`` blocks, ``AsyncRobots`` is async. This is a package of its own, because it
alone needs the extra [robots].
"""

from taskqueue.robots.asynchronous import AsyncRobots
from taskqueue.robots.blocking import Robots

__all__ = ["AsyncRobots", "Robots"]
