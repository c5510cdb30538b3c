"""``taskqueue.robots``: robots.txt and sitemaps, for fetchers; ``pip install 'taskqueue-scheduler[robots]'``.

A module of its own, and not among what ``taskqueue`` itself lists, because it needs a package that nothing else does.
"""

from taskqueue.client.robots.async_robots import AsyncRobots
from taskqueue.client.robots.robots import Robots

__all__ = ["AsyncRobots", "Robots"]
