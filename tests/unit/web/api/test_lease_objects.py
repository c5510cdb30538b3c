"""Reports as HTTP has them become those of the protocol."""

from __future__ import annotations

from taskqueue.protocol.fields import Fetched
from taskqueue.web.api.lease_objects import Report, with_reports


def test_a_report_has_all_that_it_said() -> None:
    said = Report(
        "news", "a", "7", ok=False, error="page 3\n<td></td>", retry_after=5.0, retry=False, fetched=Fetched(503),
        kind="HTTP 503",
    )  # fmt: skip

    [report] = with_reports({"tasks": [said]})["tasks"]

    assert (report.project, report.taskid, report.token, report.ok) == ("news", "a", 7, False)
    assert (report.error, report.kind) == ("page 3\n<td></td>", "HTTP 503")
    assert (report.retry_after, report.retry, report.fetched) == (5.0, False, Fetched(503))
