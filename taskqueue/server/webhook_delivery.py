"""The delivery of one event to the webhook's URL; ``webhook`` loads this module, and urllib3, with the first event.

    post ──2xx──────────────────────► sent
     ▲ │──any other answer──────────► failed
     │ └──429, 5xx, no answer──┬────► failed, after the last attempt
     └────────pause────────────┘

Rules:
1. The pauses are those of urllib3's Retry: none, then 2, 4, 8 ... times the first one up to PAUSE_MOST_SECONDS; a
   Retry-After of the answer replaces them, up to the same bound, so that one answer can't block the queue.
   Retry only computes them and never sleeps, so that a waiting thread can be stopped.
2. Redirects are not followed: the event, and the credentials of the URL, go only to the host that the config names; and
   most redirects would turn the POST into a GET without the event.
3. The answer's body is not read: it is irrelevant, and may be endless.
4. Errors contain the URL's host only. The rest may be a secret.
"""

from __future__ import annotations

from base64 import b64encode
from http.client import HTTPException
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
from urllib3 import BaseHTTPResponse, PoolManager, Retry, Timeout
from urllib3.exceptions import HTTPError, MaxRetryError

from taskqueue.core.model.events import Event
from taskqueue.server.config import WebhookSection

PAUSE_MOST_SECONDS: Final = 120.0
AGAIN: Final = frozenset({429, *range(500, 600)})
"""Statuses that are retried."""
NO_ANSWER: Final = (HTTPError, HTTPException, OSError, ValueError)
"""Errors of urllib3 without an answer; ValueError means that the host's name is invalid."""
ERROR_CHARACTERS: Final = 200


class Delivery:
    """Delivery of one event.

    Attributes:
        event: event to send.
        attempts: attempts made so far.
        error: reason why the last attempt failed; empty after a success.
    """

    def __init__(self, event: Event, pool: PoolManager, user_agent: str, attempts: int, pause_seconds: float) -> None:
        self.event = event
        self.attempts = 0
        self.error = ""
        self._pool = pool
        self._user_agent = user_agent
        self._retry = Retry(
            total=attempts - 1,
            allowed_methods=None,  # any method: two deliveries of one event do less harm than none
            status_forcelist=AGAIN,
            backoff_factor=pause_seconds,
            backoff_max=PAUSE_MOST_SECONDS,
        )

    def attempt(self, settings: WebhookSection) -> float | None:
        """Post the event once, to the URL in ``settings``.

        Returns:
            Seconds to wait before the next attempt; None after the last one, with the result in ``error``.
        """
        self.attempts += 1
        try:
            answer = self._post(settings)
        except NO_ANSWER as error:
            self.error = str(error)[:ERROR_CHARACTERS] or type(error).__name__
            return self._pause(error=error)
        try:
            return self._result(answer)
        finally:
            answer.close()

    def _post(self, settings: WebhookSection) -> BaseHTTPResponse:
        return self._pool.request(
            "POST",
            _without_credentials(settings.url),
            body=_body(self.event),
            headers={"User-Agent": self._user_agent, "Content-Type": "application/json"} | _authorization(settings.url),
            timeout=Timeout(total=settings.timeout),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _result(self, answer: BaseHTTPResponse) -> float | None:
        if 200 <= answer.status < 300:
            self.error = ""
            return None
        self.error = f"status {answer.status}"
        return self._pause(answer=answer) if answer.status in AGAIN else None

    def _pause(self, *, answer: BaseHTTPResponse | None = None, error: Exception | None = None) -> float | None:
        try:
            self._retry = self._retry.increment("POST", response=answer, error=error)
        except MaxRetryError:
            return None
        return self._asked_pause(answer) or self._retry.get_backoff_time()

    def _asked_pause(self, answer: BaseHTTPResponse | None) -> float:
        """Return the seconds in the answer's Retry-After, bounded; 0 if it is absent or invalid."""
        try:
            asked = self._retry.get_retry_after(answer) if answer else None
        except (HTTPError, ValueError, OverflowError):
            return 0.0
        return min(asked or 0.0, PAUSE_MOST_SECONDS)


def _body(event: Event) -> bytes:
    said = {"event": event.kind, "project": event.project, "at": event.at, "reason": event.reason}
    return msgspec.json.encode(said)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _authorization(url: str) -> dict[str, str]:
    """Make the header for ``user:password@`` (RFC 7617), which urllib3 itself ignores."""
    credentials, said, _ = urlsplit(url).netloc.rpartition("@")
    return {"Authorization": f"Basic {b64encode(unquote_to_bytes(credentials)).decode()}"} if said else {}
