"""Reports over HTTP become those of the protocol."""

from __future__ import annotations

import pytest
from msgspec import Raw, ValidationError, convert
from msgspec.msgpack import encode

from taskqueue.protocol.reasons import reason_of
from taskqueue.protocol.values import Again, Fetched
from taskqueue.web.api.lease_objects import NextAttempt, Report, with_reports
from taskqueue.web.api.problems import Problem


def test_a_report_has_all_that_it_said() -> None:
    said = Report(
        "news", "a", "7", ok=False, error="page 3\n<td></td>", retry_after=5.0, retry=False, fetched=Fetched(503),
        kind="HTTP 503",
    )  # fmt: skip

    [report] = with_reports({"tasks": [said]})["tasks"]

    assert (report.project, report.taskid, report.token, report.ok) == ("news", "a", 7, False)
    assert (report.error, report.kind) == ("page 3\n<td></td>", "HTTP 503")
    assert (report.retry_after, report.retry, report.fetched) == (5.0, False, Fetched(503))


def test_a_token_that_can_not_be_is_refused_in_words() -> None:
    with pytest.raises(ValidationError) as refused:
        convert({"project": "news", "taskid": "a", "token": "7a"}, Report)

    assert reason_of(refused.value, kind=Report) == "token: expected 1 to 19 decimal digits"


def test_a_failure_has_its_new_tasks_and_what_differs_in_the_next_attempt() -> None:
    again = NextAttempt(counts=True, body={"proxy": 2}, priority=4)
    said = Report("news", "a", "7", ok=False, new=["http://b/"], again=again)

    [report] = with_reports({"tasks": [said]})["tasks"]

    assert [each.url for each in report.new] == ["http://b/"]
    assert report.again == Again(True, Raw(encode({"proxy": 2})), 4)


def test_a_body_of_the_next_attempt_that_can_not_be_said_is_told_by_its_field() -> None:
    said = Report("news", "a", "7", ok=False, again=NextAttempt(body={"$msgpack": "!"}))

    with pytest.raises(Problem) as told:
        with_reports({"tasks": [said]})
    assert told.value.field == "tasks[0].again.body"
