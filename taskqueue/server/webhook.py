"""Post events to a URL, in a helper thread, so that the loop never waits for it.

    loop     tell ──► queue, at most WAITING_MOST ──┐
    thread                                          └──► delivery: post, pause, post ... ──► sent | failed

Rules:
1. ``tell`` only enqueues. When the queue is full, the oldest event is dropped: the latest ones matter most.
2. Events are sent one after the other, in order. Each attempt uses the current settings, and a change of them ends the
   pause before it: a corrected URL is used at once.
3. Nothing is stored. Queued events are lost when the process is killed; ``close`` waits GRACE_SECONDS for them, and
   logs those that it drops then. An event may arrive twice, if its answer was lost.
4. Without a URL nothing is queued. The thread starts with the first event, and only then loads urllib3: 10 MB and 50 ms
   that a daemon without a webhook does not spend.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from taskqueue.core.model.events import Event
from taskqueue.server.config import WebhookSection
from taskqueue.server.log import quoted

if TYPE_CHECKING:
    from taskqueue.server.webhook_delivery import Delivery


log = logging.getLogger("taskqueue")

WAITING_MOST: Final = 1000
PAUSE_SECONDS: Final = 1.0
"""Unit of the pauses between attempts: none, 2, 4, 8 ... of them."""
GRACE_SECONDS: Final = 5.0


class Webhook:
    """Webhook of the daemon; only the loop's thread calls its methods."""

    def __init__(
        self,
        settings: WebhookSection,
        version: str,
        *,
        waiting_most: int = WAITING_MOST,
        pause_seconds: float = PAUSE_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._settings = settings
        self._user_agent = f"taskqueue/{version}" if version else "taskqueue"
        self._waiting_most = waiting_most
        self._pause_seconds = pause_seconds
        self._grace_seconds = grace_seconds
        self._waiting: deque[Event] = deque()
        self._under_way: Event | None = None
        self._is_overflowing = False
        self._is_closing = False
        self._has_given_up = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def tell(self, events: Iterable[Event]) -> None:
        """Enqueue the events whose kinds the settings name; return at once. Not to be called after ``close``."""
        settings = self._settings
        if wanted := [event for event in events if settings.url and event.kind in settings.events]:
            with self._changed:
                for event in wanted:
                    self._put(event)
                self._changed.notify()
            self._start()

    def reconfigure(self, settings: WebhookSection) -> None:
        """Use other settings from now on; without a URL queued events are dropped."""
        with self._changed:
            self._settings = settings
            dropped = [] if settings.url else self._take_all()
            self._changed.notify()
        _log_dropped(dropped, "reload")

    def close(self) -> None:
        """Wait at most GRACE_SECONDS for queued events; then drop and log them."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(self._grace_seconds)
        with self._changed:
            self._has_given_up = True
            dropped = self._take_all()
            if self._under_way is not None:
                dropped.insert(0, self._under_way)
                self._under_way = None
            self._changed.notify()
        _log_dropped(dropped, "stop")

    def _put(self, event: Event) -> None:
        if len(self._waiting) == self._waiting_most:
            self._waiting.popleft()
            if not self._is_overflowing:
                self._is_overflowing = True
                log.warning("webhook-full waiting=%d; dropping the oldest until it is empty", self._waiting_most)
        self._waiting.append(event)

    def _take_all(self) -> list[Event]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
            self._thread.start()

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        from urllib3 import PoolManager

        from taskqueue.server.webhook_delivery import Delivery

        with PoolManager() as pool:
            while event := self._next():
                attempts = self._settings.attempts
                self._deliver(Delivery(event, pool, self._user_agent, attempts, self._pause_seconds))

    def _next(self) -> Event | None:
        """Wait for an event; None if the webhook is closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._under_way = self._waiting.popleft() if self._waiting else None
            self._is_overflowing = self._is_overflowing and bool(self._waiting)
            return self._under_way

    def _deliver(self, delivery: Delivery) -> None:
        settings = self._settings
        pause: float | None = 0.0
        while pause is not None and self._wait(pause, settings):
            settings = self._settings
            pause = delivery.attempt(settings)
            if pause is not None:
                log.debug("webhook-again %s pause=%s", _outcome(delivery, settings.url), pause)
        if not self._finish():
            return
        if pause is None:
            _log_end(delivery, settings.url)
        else:
            _log_dropped([delivery.event], "reload")

    def _wait(self, seconds: float, settings: WebhookSection) -> bool:
        """Wait ``seconds``, or until the settings change; return False if another attempt is pointless."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_given_up or self._settings != settings, seconds)
            return self._settings.url != "" and not self._has_given_up

    def _finish(self) -> bool:
        """Finish the current event; return False if ``close`` has given it up and logged it."""
        with self._changed:
            was_given_up = self._under_way is None
            self._under_way = None
            return not was_given_up


def _log_end(delivery: Delivery, url: str) -> None:
    if delivery.error:
        log.error("webhook-failed %s", _outcome(delivery, url))
    else:
        log.info("webhook-sent %s", _outcome(delivery, url))


def _outcome(delivery: Delivery, url: str) -> str:
    error = f" error={quoted(delivery.error)}" if delivery.error else ""
    return f"{_about(delivery.event)} attempts={delivery.attempts} url={_shown_url(url)}{error}"


def _log_dropped(events: Iterable[Event], reason: str) -> None:
    for event in events:
        log.warning("webhook-dropped %s reason=%s", _about(event), reason)


def _about(event: Event) -> str:
    return f"event={event.kind} project={quoted(event.project)}"


def _shown_url(url: str) -> str:
    """Shorten a URL to ``https://host``: the rest may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"
