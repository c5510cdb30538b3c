"""Table of requests: one row per type, with everything that depends on the type."""

from __future__ import annotations

from taskqueue.core.request_rule import SLOW_MS
from taskqueue.core.request_rules import ROWS, RULES, slow_ms
from taskqueue.protocol.daemon import StatusShow, Verify, WhoIs
from taskqueue.protocol.messages import REQUESTS
from taskqueue.protocol.tasks import TaskShow


def test_each_type_of_request_has_one_row() -> None:
    answered_elsewhere = {WhoIs}  # by the access file

    assert sorted(rule.kind.__name__ for rule in ROWS) == sorted(
        kind.__name__ for kind in REQUESTS if kind not in answered_elsewhere
    )


def test_what_only_reads_is_refused_by_no_disk() -> None:
    assert [rule.kind for rule in ROWS if rule.grows and not rule.keeps] == []


def test_no_request_takes_more_than_a_turn_has_for_slow_ones() -> None:
    assert max(rule.slow_ms for rule in ROWS) == slow_ms(Verify(session="person", n=1)) == SLOW_MS


def test_an_order_that_looks_at_all_projects_makes_a_status_slow() -> None:
    by_name, by_failures = (StatusShow(session="person", n=1, sort=sort) for sort in ("name", "failed_5m"))

    assert slow_ms(by_name) == RULES[TaskShow].slow_ms < slow_ms(by_failures) == SLOW_MS
