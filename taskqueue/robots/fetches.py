"""Fetches of robots.txt, one at a time per site: in an event loop for AsyncRobots, by threads for Robots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from taskqueue.robots.robots_txt import Copy


class AsyncFetches:
    """Fetches in an event loop; all callers for one origin await the same task."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Copy]] = {}

    async def once(self, origin: str, fetch: Callable[[], Coroutine[Any, Any, Copy]]) -> Copy:
        """Fetch, or await the running fetch of this origin; it continues if one of its callers is cancelled."""
        fetching = self._running.get(origin)
        if fetching is None:
            fetching = self._running[origin] = asyncio.create_task(fetch())
            fetching.add_done_callback(lambda _: self._running.pop(origin))
        return await asyncio.shield(fetching)


class Fetches:
    """Fetches by threads; callers for one origin take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, threading.Event] = {}

    def once(self, origin: str, fetch: Callable[[], Copy]) -> Copy:
        """Wait until no other fetch of this origin runs, then fetch; ``fetch`` checks the cache first."""
        while True:
            with self._lock:
                others = self._running.get(origin)
                if others is None:
                    mine = self._running[origin] = threading.Event()
                    break
            others.wait()
        try:
            return fetch()
        finally:
            with self._lock:
                del self._running[origin]
            mine.set()
