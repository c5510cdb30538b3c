"""Facts that a worker adds to a task's fetch by itself, and from exceptions of common libraries."""

from __future__ import annotations

import errno
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from email.message import Message
from http.client import RemoteDisconnected
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from freezegun import freeze_time

from taskqueue import Drop, Middleware, Retry, Task
from taskqueue.client.tasks.fetched import ErrorFacts, facts_of
from taskqueue.protocol.values import Fetched, TaskReport
from tests.unit.client.conftest import Daemon
from tests.unit.client.worker.test_worker import outcome_of

OF_A_SLOT = {"start_within": 100.0}


def report_of(daemon: Daemon, handler: Callable[[Task], Any], **options: Any) -> TaskReport:
    """Return the report of a task of a slot."""
    return outcome_of(daemon, handler, handed=OF_A_SLOT, **options)


def raising(error: BaseException) -> Callable[[Task], None]:
    def handler(task: Task) -> None:
        raise error

    return handler


def without_seconds(report: TaskReport) -> Fetched:
    """Return the facts of the fetch without its duration, which must be there."""
    how = report.fetched
    assert how is not None
    assert how.seconds is not None
    return Fetched(how.status_code, None, how.error_kind, how.changed, how.content_hash, how.etag, how.last_modified)


# ---------------------------------------------------------------------------------------- facts of a worker


def test_the_seconds_of_a_handler_are_measured_for_a_task_of_a_slot(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        threading.Event().wait(0.05)

    report = report_of(daemon, handler)

    assert report.fetched is not None
    assert report.fetched.seconds is not None
    assert 0.05 <= report.fetched.seconds < 20


def test_they_are_those_of_the_handler_not_of_what_is_called_before_it(daemon: Daemon) -> None:
    with freeze_time(real_asyncio=True) as frozen:

        class Slow(Middleware):
            def before(self, task: Task) -> None:
                frozen.tick(0.5)

        async def handler(task: Task) -> None:
            frozen.tick(3)

        report = report_of(daemon, handler, middleware=[Slow()])

    assert report.fetched is not None
    assert report.fetched.seconds == pytest.approx(3)


def test_they_begin_with_the_request_if_the_handler_says_when_that_was(daemon: Daemon) -> None:
    with freeze_time(real_asyncio=True) as frozen:

        async def handler(task: Task) -> None:
            frozen.tick(3)
            task.fetch_began_at = time.monotonic()
            frozen.tick(2)

        report = report_of(daemon, handler)

    assert report.fetched is not None
    assert report.fetched.seconds == pytest.approx(2)


@pytest.mark.parametrize("handler", [lambda task: None, raising(HTTPError("u", 429, "", Message(), io.BytesIO()))])
def test_nothing_is_said_of_the_fetch_of_a_task_without_a_slot(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    report = outcome_of(daemon, handler)

    assert (report.fetched, report.retry_after) == (None, None)


def test_what_a_handler_says_is_reported_of_any_task(daemon: Daemon) -> None:
    async def handler(task: Task) -> None:
        task.fetched(200, {"ETag": '"v1"'}, changed=True)

    assert outcome_of(daemon, handler).fetched == Fetched(200, changed=True, etag='"v1"')


def test_what_a_handler_has_said_stands(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        task.fetched(error_kind="other", seconds=7.0)
        raise ConnectionResetError

    assert report_of(daemon, handler).fetched == Fetched(None, 7.0, "other")


def test_what_goes_wrong_after_a_good_answer_is_not_the_fetch(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        task.fetched(200)
        raise ConnectionError("the handler's database")

    assert without_seconds(report_of(daemon, handler)) == Fetched(200)


def test_a_status_that_a_handler_has_said_before_it_failed_is_why(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        task.fetched(503, {"Retry-After": "30"})
        raise RuntimeError("503")

    report = report_of(daemon, handler)

    assert without_seconds(report) == Fetched(503, error_kind="http")
    assert report.retry_after == 30.0


def test_an_error_with_an_answer_tells_its_status_and_its_retry_after(daemon: Daemon) -> None:
    headers = Message()
    headers["Retry-After"] = "120"

    report = report_of(daemon, raising(HTTPError("http://a/", 429, "Too Many Requests", headers, io.BytesIO())))

    assert without_seconds(report) == Fetched(429, error_kind="http")
    assert (report.ok, report.retry, report.retry_after) == (False, True, 120.0)


def test_an_error_that_tells_nothing_is_another_one(daemon: Daemon) -> None:
    assert without_seconds(report_of(daemon, raising(KeyError("title")))) == Fetched(error_kind="other")


def test_a_retry_may_say_the_status(daemon: Daemon) -> None:
    report = report_of(daemon, raising(Retry(60.0, status_code=429)))

    assert without_seconds(report) == Fetched(429, error_kind="http")
    assert report.retry_after == 60.0
    with pytest.raises(ValueError, match="status_code must be 100 to 999, not 42"):
        Retry(status_code=42)


def test_what_a_decision_was_made_of_tells_why(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        try:
            raise ConnectionRefusedError
        except OSError as error:
            raise Retry(5.0) from error

    assert without_seconds(report_of(daemon, handler)) == Fetched(error_kind="connection")
    assert without_seconds(report_of(daemon, raising(Drop("404")))) == Fetched()


def test_nothing_was_fetched_of_a_task_that_middleware_drops(daemon: Daemon) -> None:
    class Robots(Middleware):
        def before(self, task: Task) -> None:
            raise Drop("robots.txt")

    report = report_of(daemon, lambda task: None, middleware=[Robots()])

    assert (report.ok, report.retry, report.fetched) == (False, False, None)


def test_an_exception_whose_answer_can_not_be_read_is_a_failure_like_any_other(daemon: Daemon) -> None:
    class Odd(Exception):
        @property
        def response(self) -> Any:
            raise RuntimeError("no")

    assert without_seconds(report_of(daemon, raising(Odd()))) == Fetched(error_kind="other")


# ---------------------------------------------------------------------------------------- facts of an exception


def of_library(module: str, *names: str) -> BaseException:
    """Make an exception of the last of these classes, each derived from the one before; no library is needed."""
    kind: type[BaseException] = Exception
    for name in names:
        kind = type(name, (kind,), {"__module__": module})
    return kind()


AIOHTTP = ("aiohttp.client_exceptions", "ClientError", "ClientConnectionError", "ServerConnectionError")
HTTPX = ("httpx", "HTTPError", "RequestError", "TransportError")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError(), "connection"),
        (RemoteDisconnected(""), "connection"),
        (socket.gaierror(), "connection"),
        (ssl.SSLCertVerificationError(), "connection"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "connection"),
        (TimeoutError(errno.ETIMEDOUT, "of the kernel"), "connection"),
        (URLError(ConnectionRefusedError()), "connection"),
        (URLError(TimeoutError("timed out")), "connection"),
        (URLError("unknown url type: gopher"), None),
        (TimeoutError("timed out"), "timeout"),
        (FileNotFoundError(), None),
        (KeyError("title"), None),
        (of_library("requests.exceptions", "RequestException", "ConnectionError"), "connection"),
        (of_library("requests.exceptions", "RequestException", "ConnectionError", "ConnectTimeout"), "connection"),
        (of_library("requests.exceptions", "RequestException", "Timeout", "ReadTimeout"), "timeout"),
        (of_library("urllib3.exceptions", "HTTPError", "NewConnectionError"), "connection"),
        (of_library("urllib3.exceptions", "HTTPError", "TimeoutError", "ReadTimeoutError"), "timeout"),
        (of_library(*HTTPX, "NetworkError", "ConnectError"), "connection"),
        (of_library(*HTTPX, "TimeoutException", "ConnectTimeout"), "connection"),
        (of_library(*HTTPX, "TimeoutException", "ReadTimeout"), "timeout"),
        (of_library(*HTTPX, "ProtocolError", "RemoteProtocolError"), "connection"),
        (of_library(*AIOHTTP, "ServerDisconnectedError"), "connection"),
        (of_library(*AIOHTTP, "ServerTimeoutError"), "timeout"),
        (of_library(*AIOHTTP, "ServerTimeoutError", "ConnectionTimeoutError"), "connection"),
        (of_library("redis.exceptions", "RedisError", "ConnectionError"), None),
    ],
    ids=repr,
)
def test_an_exception_tells_why_there_was_no_answer(error: BaseException, kind: str | None) -> None:
    assert facts_of(error) == ErrorFacts(kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "carried",
    [
        {"response": SimpleNamespace(status_code=503, headers={"Retry-After": "5"})},
        {"status": 503, "headers": {"Retry-After": "5"}},
        {"code": 503, "headers": {"Retry-After": "5"}},
    ],
    ids=["requests, httpx", "aiohttp", "urllib"],
)
def test_an_exception_that_carries_an_answer_tells_it(carried: dict[str, Any]) -> None:
    error = ValueError()
    vars(error).update(carried)

    assert facts_of(error) == ErrorFacts("http", 503, {"Retry-After": "5"})


@pytest.mark.parametrize("carried", [{"response": {"Error": {}}}, {"code": 503}, {"status": 5, "headers": {}}])
def test_what_only_looks_like_an_answer_is_none(carried: dict[str, Any]) -> None:
    error = ValueError()
    vars(error).update(carried)

    assert facts_of(error) == ErrorFacts(None)


def wrapped(error: BaseException, *, suppress: bool = False) -> BaseException:
    try:
        try:
            raise error
        except BaseException as inner:
            if suppress:
                raise RuntimeError from None
            raise RuntimeError from inner
    except RuntimeError as outer:
        return outer


def test_what_led_to_an_exception_tells_for_it() -> None:
    assert facts_of(wrapped(ConnectionResetError())) == ErrorFacts("connection")
    assert facts_of(wrapped(wrapped(TimeoutError()))) == ErrorFacts("timeout")
    assert facts_of(wrapped(ConnectionResetError(), suppress=True)) == ErrorFacts(None)


def test_an_answer_that_led_to_an_exception_tells_more_than_the_exception() -> None:
    error = ConnectionError()
    error.__cause__ = HTTPError("http://a/", 502, "", Message(), io.BytesIO())

    assert facts_of(error).status_code == 502


def test_a_chain_that_leads_back_to_itself_is_looked_at_to_an_end() -> None:
    first, second = KeyError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert facts_of(first) == ErrorFacts(None)
