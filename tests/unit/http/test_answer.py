"""Requests for a task, and outcomes by their answers; no sockets here."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from taskqueue import Drop, Retry, Task
from taskqueue.http import Http
from taskqueue.http.answer import Limits, Requests, Visit
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment

AGENT = "examplebot/1.0 (+https://example.com/bot)"
URL = "http://site.example/a?b=1"


def task(url: str = URL, **fetch: Any) -> Task:
    body = Raw(msgspec.msgpack.encode({"fetch": fetch}))
    handed = Assignment("p", "t", url, Token(1), 60.0, body, etag='"v1"', last_modified="")
    return Task(handed)


def visit(of: Task, max_bytes: int = 1000) -> Visit:
    return Visit(of, Requests(AGENT, None).for_task(of, None, False), Limits(5.0, max_bytes))


def decided(status: int, **headers: str) -> Drop | Retry:
    """Return the exception that an answer with this status raises."""
    with pytest.raises((Drop, Retry)) as raised:
        visit(task()).answered(status, {name.replace("_", "-"): value for name, value in headers.items()})
    assert isinstance(raised.value, Drop | Retry)
    return raised.value


# ---------------------------------------------------------------------------------------------- what is asked


def test_a_request_says_who_crawls_and_what_can_be_unpacked() -> None:
    asked = Requests(AGENT, {"Accept-Language": "de"}).for_task(task(), None, False)

    assert asked.url == URL
    assert asked.method == "GET"
    assert asked.data is None
    assert asked.headers == {
        "user-agent": AGENT,
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
        "accept-language": "de",
    }


def test_the_more_particular_header_wins_however_it_is_written() -> None:
    requests = Requests(AGENT, {"accept": "text/html", "x-of": "all"})

    headers = requests.for_task(task(headers={"ACCEPT": "text/plain", "X-Of": 1}), {"x-of": "call"}, False).headers

    assert (headers["accept"], headers["x-of"]) == ("text/plain", "call")


@pytest.mark.parametrize(("data", "sent"), [("é=1", b"\xc3\xa9=1"), (b"\0", b"\0"), ({"a": [1, 2], "b": "c d"}, None)])
def test_what_a_task_says_of_method_and_data_is_sent(data: Any, sent: bytes | None) -> None:
    asked = Requests(AGENT, None).for_task(task(method="post", data=data), None, False)

    assert asked.method == "POST"
    assert asked.data == (sent or b"a=1&a=2&b=c+d")
    assert asked.headers.get("content-type") == (None if sent else "application/x-www-form-urlencoded")


def test_a_conditional_request_asks_for_what_has_changed() -> None:
    requests = Requests(AGENT, None)

    assert requests.for_task(task(), None, True).headers["if-none-match"] == '"v1"'
    assert "if-none-match" not in requests.for_task(task(), None, False).headers


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://site.example/", "data:,x", "http://", "site.example"])
def test_what_is_no_url_of_http_fails_for_good(url: str) -> None:
    with pytest.raises(Drop, match="not a URL of http or https"):
        visit(task(url))


def test_user_and_fragment_of_a_url_are_not_sent() -> None:
    asked = Requests(AGENT, None).for_task(task("http://ann:secret@site.example/x#part"), None, False)

    assert asked.url == "http://site.example/x"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"agent": " "}, "agent: name your crawler"),
        ({"timeout": 0}, "timeout: expected a finite number of seconds above 0"),
        ({"timeout": float("inf")}, "timeout: expected a finite number of seconds above 0"),
        ({"max_bytes": 0}, "max_bytes: expected at least 1"),
    ],
)
def test_arguments_that_cant_be_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Http(**{"agent": AGENT} | arguments)


# ---------------------------------------------------------------------------------------------- what the answer means


@pytest.mark.parametrize("status", [404, 410, 400, 401, 403, 451, 418])
def test_a_status_that_would_be_the_same_again_fails_for_good(status: int) -> None:
    assert isinstance(decision := decided(status), Drop)
    assert str(decision).startswith(str(status))


@pytest.mark.parametrize("status", [429, 503, 500, 502, 504, 408, 425, 599, 999])
def test_a_status_that_may_be_another_one_later_is_retried_by_the_table(status: int) -> None:
    assert isinstance(decision := decided(status), Retry)
    assert (decision.after, decision.status_code) == (None, status)


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ("5", 5.0),
        ("0", 1.0),
        ("999999999", 86_400.0),
        ("Fri, 27 Nov 2026 10:01:30 GMT", 90.0),
        ("Fri, 27 Nov 2020 10:00:00 GMT", 1.0),
        ("soon", None),
        ("-5", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 500])
def test_retry_after_is_obeyed_within_bounds(status: int, said: str, after: float | None) -> None:
    decision = decided(status, retry_after=said, date="Fri, 27 Nov 2026 10:00:00 GMT")

    assert isinstance(decision, Retry)
    assert decision.after == after


def test_the_status_is_said_with_its_name_and_not_in_the_words_of_a_stranger() -> None:
    assert str(decided(404)) == "404 Not Found"
    assert str(decided(503)) == "503 Service Unavailable"
    assert str(decided(999)) == "999"


@pytest.mark.parametrize("status", [200, 204, 206, 301, 304, 399])
def test_how_a_fetch_went_is_reported_whatever_came_of_it(status: int) -> None:
    it = task()

    visit(it).answered(status, {"etag": '"v2"'})

    assert it.how_fetched is not None
    assert (it.how_fetched.status_code, it.how_fetched.error_kind) == (status, None)
    assert it.how_fetched.etag == '"v2"'


def test_a_refusal_is_reported_as_one_of_http() -> None:
    it = task()

    with pytest.raises(Drop):
        visit(it).answered(404, {})

    assert it.how_fetched is not None
    assert (it.how_fetched.status_code, it.how_fetched.error_kind) == (404, "http")


def test_a_redirect_is_not_followed_and_its_target_is_a_link_if_it_is_of_the_site() -> None:
    def leads_to(location: str) -> list[str]:
        one = visit(task())
        assert one.answered(302, {"location": location, "content-encoding": "br"}) is None
        return one.page(b"").links()

    assert leads_to("/moved#x") == ["http://site.example/moved"]
    assert leads_to("http://other.example/") == leads_to("file:///etc/passwd") == []


def test_a_page_that_says_that_it_is_too_large_is_not_read() -> None:
    from taskqueue.http.body import TooLarge

    one = visit(task(), max_bytes=1000)

    assert one.answered(200, {"content-length": "1000"}) is not None
    with pytest.raises(TooLarge) as error:
        one.answered(200, {"content-length": "300000000"})
    assert str(one.failure(error.value)) == "too large: 300,000,000 bytes, and max_bytes is 1,000"


@pytest.mark.parametrize("said", ["", "-1", "9" * 5000, "²", "1e9", "0x10"])
def test_a_length_that_is_none_says_nothing(said: str) -> None:
    assert visit(task()).answered(200, {"content-length": said}) is not None


def test_nobody_there_is_retried_by_the_table_and_has_the_slot_left_alone() -> None:
    it = task()

    decision = visit(it).failure(ConnectionRefusedError(111, "Connection refused"))

    assert isinstance(decision, Retry)
    assert decision.after is None
    assert str(decision) == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert it.how_fetched is not None
    assert it.how_fetched.error_kind == "connection"


def test_what_breaks_off_in_its_body_is_no_dead_host() -> None:
    it = task()
    one = visit(it)
    one.answered(200, {})

    one.failure(ConnectionResetError("reset"))

    assert it.how_fetched is not None
    assert (it.how_fetched.status_code, it.how_fetched.error_kind) == (200, "other")


def test_what_does_not_come_in_time_says_so() -> None:
    it = task()

    assert str(visit(it).failure(TimeoutError("whatever"))) == "timed out: 5 s for all of it"
    assert it.how_fetched is not None
    assert it.how_fetched.error_kind == "timeout"


# ---------------------------------------------------------------------------------------------- the page


def test_a_page_is_read_as_browsers_read_it() -> None:
    def text(body: bytes, kind: str = "text/html") -> str:
        one = visit(task())
        one.answered(200, {"content-type": kind})
        return one.page(body).text

    assert text("café".encode("cp1252")) == text("café".encode()) == "café"
    assert text("да".encode("koi8-r"), "text/plain; charset=koi8-r") == "да"
    assert text("да".encode("utf-16"), "text/html; charset=koi8-r") == "да"
    assert text('<meta charset="windows-1251">да'.encode("cp1251")).endswith("да")


def test_a_page_takes_the_options_of_links() -> None:
    one = visit(task())
    one.answered(200, {"content-type": "text/html"})

    page = one.page(b'<a href="/1" rel="nofollow"><a href="http://other.example/2"><a href="3">')

    assert page.links(nofollow=True, same="any") == ["http://other.example/2", "http://site.example/3"]
    assert page.links(exclude="3$") == ["http://site.example/1"]
