"""The webhook: the events that its url gets, the number of attempts, and that nothing ever waits for it."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from logging.handlers import QueueHandler
from queue import Empty, SimpleQueue

import msgspec
import pytest
from urllib3 import PoolManager

from taskqueue.core.model.events import EVENT_KINDS, Event, EventKind
from taskqueue.server.config import WebhookSection
from taskqueue.server.webhook import PAUSE_SECONDS, Webhook
from taskqueue.server.webhook_delivery import Delivery

WAIT_SECONDS = 30
LONG_SECONDS = 1e6
"""Seconds of a pause or a grace that a test must not wait for."""

Answer = tuple[int, dict[str, str]]
Request = tuple[str, dict[str, str], bytes]


class Url:
    """Server that receives events; it answers 200 by default.

    Attributes:
        answers: status and headers of the next answers.
        gate: semaphore of which each answer takes a permit; there are many at first.
    """

    def __init__(self) -> None:
        self.answers: SimpleQueue[Answer] = SimpleQueue()
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.gate = threading.Semaphore(10_000)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def settings(self, *, path: str = "/hook", credentials: str = "", attempts: int = 5) -> WebhookSection:
        port = self._server.server_address[1]
        return WebhookSection(url=f"http://{credentials}127.0.0.1:{port}{path}", attempts=attempts)

    def shut_gate(self) -> None:
        self.gate = threading.Semaphore(0)

    def request(self) -> Request:
        return self.requests.get(timeout=WAIT_SECONDS)

    def projects(self, count: int) -> list[str]:
        """Return the projects of the first requests, in the order in which they came."""
        return [json.loads(self.request()[2])["project"] for _ in range(count)]

    def close(self) -> None:
        self.gate.release(10_000)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(url: Url) -> type[BaseHTTPRequestHandler]:  # the handlers have their own self
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._note()

            def do_POST(self) -> None:
                self._note()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing on stderr."""

            def _note(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                gate = url.gate
                url.requests.put((f"{self.command} {self.path}", dict(self.headers), body))
                assert gate.acquire(timeout=WAIT_SECONDS)
                self._answer(*url.answer())

            def _answer(self, status: int, headers: dict[str, str]) -> None:
                try:
                    self.send_response(status)
                    for name, value in ({"Content-Length": "0"} | headers).items():
                        self.send_header(name, value)
                    self.end_headers()
                except ConnectionError:  # the client has disconnected
                    self.close_connection = True

        return Handler

    def answer(self) -> Answer:
        try:
            return self.answers.get_nowait()
        except Empty:
            return 200, {}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Check that no thread is left after a test, once its url has released waiting requests."""
    yield
    for thread in webhook_threads():
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def webhook_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "webhook"]


@pytest.fixture
def url() -> Iterator[Url]:
    url = Url()
    yield url
    url.close()


class Lines:
    """Lines of the daemon log."""

    def __init__(self) -> None:
        self._records: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self.handler = QueueHandler(self._records)

    def next(self) -> str:
        return self._records.get(timeout=WAIT_SECONDS).getMessage()

    def rest(self) -> list[str]:
        return [self._records.get_nowait().getMessage() for _ in range(self._records.qsize())]


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines, log = Lines(), logging.getLogger("taskqueue")
    level = log.level
    log.addHandler(lines.handler)
    log.setLevel(logging.INFO)
    yield lines
    log.setLevel(level)
    log.removeHandler(lines.handler)


Open = Callable[..., Webhook]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Yield a function that makes webhooks without pauses between attempts, which wait for the rest when closed."""
    webhooks: list[Webhook] = []

    def opened(settings: WebhookSection, **bounds: float) -> Webhook:
        chosen = {"pause_seconds": 0.0, "grace_seconds": WAIT_SECONDS, **bounds}
        webhooks.append(Webhook(settings, "1.2", **chosen))  # type: ignore[arg-type]
        return webhooks[-1]

    yield opened
    for webhook in webhooks:
        webhook.close()


@pytest.fixture
def dead_url() -> str:
    """Return a url without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/hook"


def event(project: str = "news", kind: EventKind = "paused") -> Event:
    return Event(kind, project, at=1_700_000_000.5, reason="10 failures in a row")


# ---------------------------------------------------------------------------------------- what is sent


def test_an_event_is_posted_as_a_json_object(url: Url, opened: Open) -> None:
    opened(url.settings()).tell([event()])

    asked, headers, body = url.request()
    assert asked == "POST /hook"
    assert (headers["Content-Type"], headers["User-Agent"]) == ("application/json", "taskqueue/1.2")
    assert json.loads(body) == {
        "event": "paused",
        "project": "news",
        "at": 1_700_000_000.5,
        "reason": "10 failures in a row",
    }


def test_events_are_sent_in_their_order(url: Url, opened: Open) -> None:
    opened(url.settings()).tell([event("a"), event("b"), event("c")])

    assert url.projects(3) == ["a", "b", "c"]


def test_only_the_kinds_that_the_settings_name_are_sent(url: Url, opened: Open) -> None:
    settings = msgspec.structs.replace(url.settings(), events=("finished", "resumed"))

    opened(settings).tell([event(kind, kind) for kind in EVENT_KINDS])  # type: ignore[arg-type]

    assert url.projects(2) == ["resumed", "finished"]


def test_user_and_password_of_the_url_are_sent_as_basic_authentication(url: Url, opened: Open) -> None:
    opened(url.settings(credentials="ann:p%40ss@", path="/hook?token=1")).tell([event()])

    asked, headers, _ = url.request()
    assert (asked, headers["Authorization"]) == ("POST /hook?token=1", "Basic YW5uOnBAc3M=")


def test_what_is_sent_is_logged_without_the_secrets_of_the_url(url: Url, opened: Open, lines: Lines) -> None:
    opened(url.settings(credentials="ann:secret@", path="/secret?token=secret")).tell([event("my=news")])

    assert lines.next() == 'webhook-sent event=paused project="my=news" attempts=1 url=http://127.0.0.1'


def test_a_webhook_that_is_not_used_starts_no_thread(opened: Open, url: Url) -> None:
    opened(WebhookSection()).tell([event()])
    opened(url.settings()).tell([event(kind="resumed")])
    opened(url.settings()).tell([])

    assert webhook_threads() == []


# ---------------------------------------------------------------------------------------- further attempts


@pytest.mark.parametrize("status", [429, 500, 503, 599])
def test_an_answer_that_may_be_better_the_next_time_is_asked_for_again(
    url: Url, opened: Open, lines: Lines, status: int
) -> None:
    for _ in range(2):
        url.answers.put((status, {}))

    opened(url.settings()).tell([event()])

    assert lines.next() == "webhook-sent event=paused project=news attempts=3 url=http://127.0.0.1"
    assert url.projects(3) == ["news"] * 3


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410])
def test_an_answer_that_stays_the_same_is_the_end(url: Url, opened: Open, lines: Lines, status: int) -> None:
    url.answers.put((status, {}))

    opened(url.settings()).tell([event()])

    assert lines.next() == (
        f'webhook-failed event=paused project=news attempts=1 url=http://127.0.0.1 error="status {status}"'
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_webhook_follows_no_redirect(url: Url, opened: Open, lines: Lines, status: int) -> None:
    url.answers.put((status, {"Location": "/elsewhere"}))

    opened(url.settings()).tell([event("a"), event("b")])

    assert lines.next().startswith("webhook-failed event=paused project=a attempts=1")
    assert url.projects(2) == ["a", "b"]


def test_after_the_last_attempt_it_goes_on_with_the_next_event(url: Url, opened: Open, lines: Lines) -> None:
    for _ in range(3):
        url.answers.put((500, {}))

    opened(url.settings(attempts=3)).tell([event("a"), event("b")])

    assert "project=a attempts=3" in lines.next()
    assert "webhook-sent event=paused project=b attempts=1" in lines.next()
    assert url.projects(4) == ["a", "a", "a", "b"]


def test_a_url_that_refuses_connections_is_tried_as_often_and_logged(dead_url: str, opened: Open, lines: Lines) -> None:
    opened(WebhookSection(url=dead_url, attempts=2)).tell([event()])

    line = lines.next()
    assert line.startswith("webhook-failed event=paused project=news attempts=2 url=http://127.0.0.1 error=")
    assert "Connection refused" in line


def test_a_host_that_cannot_be_looked_up_is_a_failure_like_others(opened: Open, lines: Lines) -> None:
    opened(WebhookSection(url="http://user:secret@a..b/secret", attempts=1)).tell([event()])

    line = lines.next()
    assert line.startswith("webhook-failed event=paused project=news attempts=1 url=http://a..b error=")
    assert "secret" not in line


def test_an_answer_that_does_not_come_in_time_is_tried_again(url: Url, opened: Open, lines: Lines) -> None:
    url.shut_gate()
    settings = msgspec.structs.replace(url.settings(attempts=2), timeout=0.05)

    opened(settings).tell([event()])

    line = lines.next()
    assert "webhook-failed event=paused project=news attempts=2" in line
    assert "timed out" in line


@pytest.mark.parametrize("pause", ["0", "soon", "9" * 5000, "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_retry_after_that_asks_for_nothing_changes_nothing(url: Url, opened: Open, lines: Lines, pause: str) -> None:
    url.answers.put((503, {"Retry-After": pause}))

    opened(url.settings()).tell([event()])

    assert lines.next().startswith("webhook-sent event=paused project=news attempts=2")


def pauses(url: Url, attempts: int) -> list[float | None]:
    """Return the pauses after each attempt."""
    settings = url.settings(attempts=attempts)
    with PoolManager() as pool:
        delivery = Delivery(event(), pool, "taskqueue", attempts, PAUSE_SECONDS)
        return [delivery.attempt(settings) for _ in range(attempts)]


def test_the_pauses_between_attempts_grow_up_to_two_minutes(url: Url) -> None:
    for _ in range(10):
        url.answers.put((503, {}))

    assert pauses(url, 10) == [0, 2, 4, 8, 16, 32, 64, 120, 120, None]


def test_a_retry_after_counts_instead_of_the_own_pause_up_to_two_minutes(url: Url) -> None:
    for seconds in (7, 1_000_000):
        url.answers.put((429, {"Retry-After": str(seconds)}))

    assert pauses(url, 3) == [7, 120, None]


def test_an_answer_without_an_end_is_not_read(url: Url, opened: Open, lines: Lines) -> None:
    url.answers.put((200, {"Content-Length": "1000000000"}))

    opened(url.settings()).tell([event("a"), event("b")])

    assert "webhook-sent event=paused project=a attempts=1" in lines.next()
    assert "webhook-sent event=paused project=b attempts=1" in lines.next()


def test_a_pause_is_waited_for(url: Url, opened: Open, lines: Lines) -> None:
    url.answers.put((503, {"Retry-After": "100"}))

    webhook = opened(url.settings(), grace_seconds=0.1)
    webhook.tell([event()])
    url.request()
    webhook.close()

    assert lines.rest() == ["webhook-dropped event=paused project=news reason=stop"]
    assert url.requests.empty()


# ---------------------------------------------------------------------------------------- the queue


def test_telling_does_not_wait_for_an_answer(url: Url, opened: Open) -> None:
    url.shut_gate()
    webhook = opened(url.settings())

    for number in range(100):
        webhook.tell([event(f"p{number}")])

    assert url.projects(1) == ["p0"]
    url.gate.release(1000)
    assert url.projects(99) == [f"p{number}" for number in range(1, 100)]


def test_a_full_queue_drops_the_oldest_and_logs_it_once(url: Url, opened: Open, lines: Lines) -> None:
    url.shut_gate()
    webhook = opened(url.settings(), waiting_most=3)
    webhook.tell([event("first")])
    under_way = url.projects(1)

    webhook.tell([event(name) for name in "abcdef"])
    url.gate.release(1000)

    assert under_way + url.projects(3) == ["first", "d", "e", "f"]
    webhook.close()
    assert [line for line in lines.rest() if "full" in line] == [
        "webhook-full waiting=3; dropping the oldest until it is empty"
    ]


def test_a_queue_that_is_full_again_later_is_logged_again(url: Url, opened: Open, lines: Lines) -> None:
    webhook = opened(url.settings(), waiting_most=1)

    for _ in range(2):
        url.shut_gate()
        webhook.tell([event("first")])
        url.request()
        webhook.tell([event("a"), event("b")])
        assert "webhook-full" in lines.next()
        url.gate.release(1000)
        assert "project=first" in lines.next()
        assert "project=b" in lines.next()
        url.request()


# ---------------------------------------------------------------------------------------- other settings


def test_other_settings_end_the_pause_and_hold_for_what_waits(url: Url, opened: Open, lines: Lines) -> None:
    logging.getLogger("taskqueue").setLevel(logging.DEBUG)
    url.answers.put((503, {"Retry-After": "100"}))
    webhook = opened(url.settings())
    webhook.tell([event("a"), event("b")])
    url.request()
    assert lines.next() == (
        'webhook-again event=paused project=a attempts=1 url=http://127.0.0.1 error="status 503" pause=100'
    )

    webhook.reconfigure(url.settings(path="/other"))

    for project in "ab":
        asked, _, body = url.request()
        assert (asked, json.loads(body)["project"]) == ("POST /other", project)


def test_without_a_url_what_waits_is_dropped(url: Url, opened: Open, lines: Lines) -> None:
    url.answers.put((503, {"Retry-After": "100"}))
    webhook = opened(url.settings())
    webhook.tell([event("a"), event("b")])
    url.request()

    webhook.reconfigure(WebhookSection())
    webhook.tell([event("c")])
    webhook.close()

    assert sorted(lines.rest()) == [
        "webhook-dropped event=paused project=a reason=reload",
        "webhook-dropped event=paused project=b reason=reload",
    ]


def test_a_url_that_comes_with_a_reload_is_used(url: Url, opened: Open) -> None:
    webhook = opened(WebhookSection())
    webhook.tell([event("before")])

    webhook.reconfigure(url.settings())
    webhook.tell([event("after")])

    assert url.projects(1) == ["after"]


# ---------------------------------------------------------------------------------------- the end


def test_what_waits_at_the_end_is_still_sent(url: Url, opened: Open, lines: Lines) -> None:
    webhook = opened(url.settings())
    webhook.tell([event(name) for name in "abc"])

    webhook.close()

    assert url.projects(3) == ["a", "b", "c"]
    assert [line.split()[0] for line in lines.rest()] == ["webhook-sent"] * 3


def test_what_cannot_be_sent_within_the_grace_is_dropped_and_logged(dead_url: str, opened: Open, lines: Lines) -> None:
    webhook = opened(WebhookSection(url=dead_url, attempts=100), pause_seconds=LONG_SECONDS, grace_seconds=0.1)
    webhook.tell([event("a"), event("b")])

    webhook.close()

    assert lines.rest() == [
        "webhook-dropped event=paused project=a reason=stop",
        "webhook-dropped event=paused project=b reason=stop",
    ]


def test_an_answer_that_never_comes_does_not_hold_up_the_end(url: Url, opened: Open, lines: Lines) -> None:
    url.shut_gate()
    webhook = opened(url.settings(), grace_seconds=0.1)
    webhook.tell([event()])
    url.request()

    webhook.close()
    url.gate.release()
    for thread in webhook_threads():
        thread.join(WAIT_SECONDS)

    assert lines.rest() == ["webhook-dropped event=paused project=news reason=stop"]


def test_it_can_be_closed_unused_and_twice(opened: Open) -> None:
    webhook = opened(WebhookSection())

    webhook.close()
    webhook.close()
