"""Lines of the daemon log: events of tasks, and the summary of a minute."""

from __future__ import annotations

import logging
from math import inf

import msgspec
import pytest

from taskqueue.core.model.events import Event
from taskqueue.core.model.records import KeptAttempt, ProjectRecord, WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import DELAYED, FAILED, PROCESSING, READY, SUCCESS, Task
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.fields import NIL, Peer
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.values import Attempt, EventTotals, Schedule
from taskqueue.server.log import SUMMARY_SECONDS, Summary, event_level, event_line, turn_lines
from taskqueue.server.meters import Meters


def lines(old: int, new: int, *, timed_out: bool = False, error: str = "", url: str = "http://site/a") -> list[str]:
    task = Task(7, "a", new, key=1, seq=1, timed_out=timed_out, spec=Spec(url, Schedule(), NIL))
    attempts = [KeptAttempt(7, "a", 0, Attempt(1.0, "failed", error=error))] if error else []
    kept = WriteSet(moves=[(task, old, 1, 1, False, False)], attempts=attempts)
    return list(turn_lines([], kept, {7: "news"}, str))


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (0, READY, ["new"]),
        (0, DELAYED, ["new"]),
        (0, PROCESSING, ["new", "select"]),
        (READY, PROCESSING, ["select"]),
        (READY, READY, ["changed"]),
        (DELAYED, READY, ["due"]),
        (PROCESSING, SUCCESS, ["done"]),
        (PROCESSING, FAILED, ["failed"]),
        (PROCESSING, DELAYED, ["retry"]),
        (PROCESSING, READY, ["ready"]),
        (SUCCESS, READY, ["restarted"]),
    ],
)
def test_every_change_of_a_task_has_its_event(old: int, new: int, events: list[str]) -> None:
    assert lines(old, new) == [f"{event} project=news taskid=a url=http://site/a" for event in events]


def test_a_timeout_is_told_with_what_came_of_it() -> None:
    assert [line.split()[0] for line in lines(PROCESSING, DELAYED, timed_out=True)] == ["timeout", "retry"]


def test_a_failure_is_told_with_its_error() -> None:
    assert lines(PROCESSING, FAILED, error="404 not found")[0].endswith('error="404 not found"')


def test_a_traceback_is_told_by_the_line_that_says_what_went_wrong() -> None:
    error = 'Traceback (most recent call last):\n  File "shop.py", line 7, in handle\nValueError: no price\n'

    assert lines(PROCESSING, FAILED, error=error)[0].endswith('error="ValueError: no price"')


def test_what_a_client_sends_stays_on_one_line() -> None:
    (line,) = lines(0, READY, url="http://site/\nnew project=fake")

    assert "\n" not in line
    assert line.endswith(r'url="http://site/\nnew project=fake"')


def test_a_request_is_told_with_its_number_and_the_pseudonym_of_its_session() -> None:
    incoming = Incoming(Peer(b"p"), Hello(session="s1", n=4))

    assert list(turn_lines([incoming], WriteSet(), {}, "pseudonym of {}".format)) == [
        "request type=hello session=pseudonym of s1 n=4"
    ]


# ---------------------------------------------------------------------------------------- summary


def record(number: int, **totals: int) -> ProjectRecord:
    return ProjectRecord(number, f"p{number}", totals=EventTotals(**totals))


def test_the_summary_tells_what_happened_since_the_last_one() -> None:
    summary = Summary(Meters(turns=3, frames_in=4))
    summary.begin([record(1, new=100, success=50)])
    summary.note([record(1, new=103, success=51), record(2, new=1)], 10.0)
    first = summary.line()
    summary.note([record(1, new=104, success=51)], 90.0)

    assert first == (
        "summary turns=3 requests=4 new=4 selected=0 success=1 failed=0 retried=0 timeout=0 busiest=p1:4,p2:1"
    )
    assert summary.line() == (
        "summary turns=0 requests=0 new=1 selected=0 success=0 failed=0 retried=0 timeout=0 busiest=p1:1"
    )


def test_the_summary_names_the_five_busiest_projects() -> None:
    summary = Summary(Meters())
    summary.note([record(number, new=number) for number in range(1, 8)], 0.0)

    line = summary.line()

    assert line is not None
    assert line.endswith("busiest=p7:7,p6:6,p5:5,p4:4,p3:3")


def test_the_summary_forgets_projects_that_are_no_more() -> None:
    summary = Summary(Meters())
    summary.note([record(1, new=5), record(2, new=1)], 0.0)
    summary.forget([1])

    line = summary.line()

    assert line is not None
    assert line.endswith("busiest=p2:1")
    assert summary.names == {2: "p2"}


def test_a_summary_is_due_a_minute_after_the_first_change_and_never_if_there_is_none() -> None:
    summary = Summary(Meters())
    idle = summary.due_at
    summary.note([record(1, new=1)], 10.0)
    summary.note([record(1, new=2)], 50.0)
    busy = summary.due_at

    summary.line()

    assert (idle, busy, summary.due_at) == (inf, 10.0 + SUMMARY_SECONDS, inf)


def test_changes_without_an_event_make_no_line() -> None:
    summary = Summary(Meters())
    summary.begin([record(1, new=5)])
    summary.note([msgspec.structs.replace(record(1, new=5), state="paused")], 0.0)

    assert summary.line() is None


def test_a_slot_that_grows_without_end_is_a_warning_and_other_events_are_not() -> None:
    trap = Event("growing", "news", 1.0, 'slot "a" seems to grow without end')

    assert event_line(trap) == 'growing project=news reason="slot \\"a\\" seems to grow without end"'
    assert event_level(trap) == logging.WARNING
    assert event_level(Event("finished", "news", 1.0)) == logging.INFO
