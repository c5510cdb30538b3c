"""An event loop in a thread of its own, for callers that wait: coroutines in, results out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from taskqueue.errors import Closed

T = TypeVar("T")


class Background:
    """Runs until ``close``. Any thread may call it; it doesn't survive a fork."""

    def __init__(self) -> None:
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="taskqueue-client", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it, and wait for nothing.

        Raises:
            Closed: nothing is run any more.
        """
        if self._closed:
            coroutine.close()
            raise Closed("the client was closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it, and wait for its result."""
        running = self.start(coroutine)
        try:
            return running.result()
        except BaseException:
            # A Ctrl-C must not leave the call waiting in the thread.
            running.cancel()
            raise

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last coroutine, then nothing any more."""
        if self._closed:
            last.close()
            return
        closing = self.start(last)
        self._closed = True
        closing.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
