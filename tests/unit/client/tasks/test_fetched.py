"""Facts of a fetch: from its fetcher, from an answer's headers, and in a report."""

from __future__ import annotations

import asyncio
from email.message import Message
from http import HTTPStatus
from typing import Any

import pytest

from taskqueue import AsyncClient, Client, Task
from taskqueue.client.tasks.fetched import retry_after
from taskqueue.client.tasks.reports import failure_of, success_with
from taskqueue.protocol.fields import NIL, Token
from taskqueue.protocol.tasks import Done
from taskqueue.protocol.values import Assignment, Fetched, TaskReport
from tests.unit.client.conftest import Daemon

OF_A_SLOT: dict[str, Any] = {"start_within": 1.0}


def given(**fields: Any) -> Task:
    return Task(Assignment("p", "t", "http://a/", Token(1), 60.0, **fields))


def message(**headers: str) -> Message:
    made = Message()
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    return made


@pytest.mark.parametrize(
    "headers",
    [
        {"ETag": '"v1"', "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT", "Server": "x"},
        [("etag", '"v1"'), ("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT"), ("set-cookie", "a")],
        {b"ETag": [b'"v1"'], b"Last-Modified": [b"Tue, 14 Nov 2023 22:13:20 GMT"], b"Empty": []},
        message(ETag=' "v1" ', Last_Modified="Tue, 14 Nov 2023 22:13:20 GMT"),
    ],
    ids=["a map", "pairs", "Scrapy's", "urllib's"],
)
def test_one_call_with_status_and_headers_says_what_the_next_request_needs(headers: Any) -> None:
    task = given()

    task.fetched(200, headers)

    assert task.how_fetched == Fetched(200, etag='"v1"', last_modified="Tue, 14 Nov 2023 22:13:20 GMT")


def test_what_is_said_again_wins_and_the_rest_stays() -> None:
    task = given()

    task.fetched(HTTPStatus.FOUND, {"ETag": '"old"'}, content_hash="aa")
    task.fetched(200, {"ETag": '"new"'}, changed=True, error_kind=None, content_hash="", seconds=2)

    assert task.how_fetched == Fetched(200, 2.0, None, True, "aa", '"new"')


def test_a_page_that_is_not_modified_is_what_it_was_known_to_be() -> None:
    task = given(etag='"v1"', last_modified="then", content_hash="aa")

    task.fetched(304, {"ETag": 'W/"v1"'})

    assert task.how_fetched == Fetched(304, changed=False, content_hash="aa", etag='W/"v1"', last_modified="then")


def test_an_etag_that_is_too_long_to_be_kept_is_left_out() -> None:
    task = given()

    task.fetched(200, {"ETag": "x" * 257})

    assert task.how_fetched == Fetched(200)


@pytest.mark.parametrize(
    ("facts", "error", "reason"),
    [
        ({"status_code": 99}, ValueError, "status_code: expected int >= 100"),
        ({"status_code": "200"}, ValueError, "status_code: expected int | null, got str"),
        ({"error_kind": "tired"}, ValueError, "error_kind: 'tired' is none of connection, http, other, timeout"),
        ({"etag": "x" * 257}, ValueError, "etag: expected str of length <= 256"),
        ({"seconds": -1}, ValueError, "seconds: expected float >= 0"),
        ({"etga": "x"}, TypeError, "etga: unknown; a fetch has changed, content_hash, error_kind, etag, headers,"),
    ],
)
def test_a_fact_that_can_not_be_is_told_where_it_is_said(facts: dict[str, Any], error: type, reason: str) -> None:
    task = given()

    with pytest.raises(error) as caught:
        task.fetched(**facts)

    assert str(caught.value).startswith(reason)
    assert task.how_fetched is None


NOW = 1_700_000_000.0
"""Tue, 14 Nov 2023 22:13:20 GMT."""


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": "0"}, 1.0),
        ({"retry-after": "9999999"}, 86_400.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tuesday, 14-Nov-23 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 -0000"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 21:00:00 GMT"}, 1.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT", "date": "Tue, 14 Nov 2023 22:14:10 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT", "date": "?"}, 60.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_from_a_second_to_a_day(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


def test_a_redirect_asks_for_no_pause() -> None:
    task = given()

    task.fetched(301, {"Retry-After": "5"})
    assert task.retry_after is None
    task.fetched(503, {"Retry-After": "5"})
    assert task.retry_after == 5.0


@pytest.mark.parametrize("retry", [True, False])
def test_the_answer_s_retry_after_is_reported_of_a_task_of_a_slot(retry: bool) -> None:
    task = given(**OF_A_SLOT)

    task.fetched(429, {"Retry-After": "120"})

    assert failure_of(task, "429", None, retry=retry).retry_after == 120.0
    assert failure_of(task, "429", 5.0, retry=retry).retry_after == 5.0
    assert success_with(task, [], NIL).retry_after == 120.0


def test_nothing_limits_how_often_a_task_without_a_slot_is_put_off_so_only_its_handler_may() -> None:
    task = given()

    task.fetched(429, {"Retry-After": "120"})

    assert failure_of(task, "429", None, retry=True).retry_after is None
    assert failure_of(task, "429", task.retry_after, retry=True).retry_after == 120.0


def test_what_was_said_of_a_fetch_travels_with_its_task() -> None:
    task = given(**OF_A_SLOT)
    task.fetched(503, {"Retry-After": "5"}, seconds=0.5)

    there = Task.from_bytes(task.to_bytes())

    assert failure_of(there, "503", None, retry=True) == failure_of(task, "503", None, retry=True)
    assert (there.how_fetched, there.retry_after) == (Fetched(503, 0.5), 5.0)


def test_a_task_of_which_nothing_was_said_is_reported_as_ever() -> None:
    assert success_with(given(), [], NIL) == TaskReport("p", "t", Token(1))
    assert failure_of(given(), "why", None, retry=True) == TaskReport("p", "t", Token(1), ok=False, error="why")


def test_done_and_failed_take_the_facts_of_the_fetch(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            await client.done(given(), status_code=200, headers={"ETag": '"v1"'}, changed=False)
            await client.failed(given(), "429", retry_after=60, status_code=429, error_kind="http")
            with pytest.raises(ValueError, match="status_code: expected int >= 100"):
                await client.failed(given(), status_code=42)

    asyncio.run(main())
    with Client(daemon.url) as client:
        client.done(given(), content_hash="aa")

    reports = [daemon.hear(Done).tasks[0] for _ in range(3)]
    assert [report.fetched for report in reports if report] == [
        Fetched(200, changed=False, etag='"v1"'),
        Fetched(429, error_kind="http"),
        Fetched(content_hash="aa"),
    ]
    assert reports[1] is not None
    assert reports[1].retry_after == 60.0
