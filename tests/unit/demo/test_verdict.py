"""The verdict: true of a good crawl, and each thing that can go wrong is seen and named."""

from __future__ import annotations

import pytest

from taskqueue.demo.pace_check import Window
from taskqueue.demo.verdict import Evidence, check_claims
from taskqueue.protocol.views import Counts

EXPECTED = {"/": 200, "/a": 200, "/old": 301, "/gone": 404}
GOOD = Evidence(
    expected=EXPECTED,
    fetched=dict.fromkeys(EXPECTED, 1),
    was_interrupted=False,
    counts=Counts(success=3, failed=1),
    ended={"/gone": ("failed", "404 Not Found")},
    window=Window(1.0, 60, 50.0, 10.0),
    problems=[],
)


def broken(evidence: Evidence) -> list[tuple[str, str]]:
    """Name and text of the claims that don't hold."""
    return [(claim.name, claim.text) for claim in check_claims(evidence) if not claim.holds]


def test_a_good_crawl_has_only_claims_that_hold() -> None:
    assert broken(GOOD) == []


def test_the_kinds_of_pages_are_counted() -> None:
    text = check_claims(GOOD)[0].text

    assert text == "all 4 fetched, each exactly once: 2 × 200, 1 × 404, 1 redirect"


@pytest.mark.parametrize(
    ("fetched", "says"),
    [
        ({"/": 1, "/a": 1, "/old": 1}, "1 never fetched: /gone"),
        (dict.fromkeys(EXPECTED, 1) | {"/a": 2}, "1 fetched more than once: /a"),
        (dict.fromkeys(EXPECTED, 1) | {"/a?utm_source=x": 1}, "1 fetched that are none: /a?utm_source=x"),
        ({}, "4 never fetched: /, /a, /old, …"),
    ],
)
def test_a_page_that_is_lost_repeated_or_invented_is_named(fetched: dict[str, int], says: str) -> None:
    assert broken(GOOD._replace(fetched=fetched)) == [("pages", says)]


def test_after_an_interruption_a_page_may_have_been_fetched_again_but_not_be_lost() -> None:
    interrupted = GOOD._replace(was_interrupted=True)

    again = interrupted._replace(fetched=dict.fromkeys(EXPECTED, 1) | {"/a": 2})
    assert broken(again) == []
    assert "each at least once, 1 again since it was interrupted" in check_claims(again)[0].text
    assert "each exactly once, although it was interrupted" in check_claims(interrupted)[0].text
    assert broken(interrupted._replace(fetched={"/": 1}))[0][0] == "pages"


@pytest.mark.parametrize(
    "counts",
    [
        Counts(success=4),
        Counts(success=2, failed=1),
        Counts(success=3, failed=1, delayed=1),
        Counts(success=3, failed=2),
    ],
)
def test_tasks_that_do_not_add_up_are_seen(counts: Counts) -> None:
    assert [name for name, _ in broken(GOOD._replace(counts=counts))] == ["tasks"]


@pytest.mark.parametrize(
    "ended", [("success", ""), ("failed", ""), ("failed", "timeout"), ("delayed", "404 Not Found")]
)
def test_a_missing_page_must_be_failed_with_its_reason(ended: tuple[str, str]) -> None:
    assert [name for name, _ in broken(GOOD._replace(ended={"/gone": ended}))] == ["404s"]


def test_a_pace_above_the_allowed_is_seen() -> None:
    too_fast = GOOD._replace(window=Window(1.0, 61, 50.0, 10.0))

    assert broken(too_fast) == [
        ("pace", "fastest window: 61 tasks in 1.00 s, too many: allowed are 10 + 50/s × 1.00 s = 60.0")
    ]


def test_what_the_scheduler_finds_wrong_with_itself_is_told() -> None:
    assert broken(GOOD._replace(problems=["two places"])) == [("scheduler", "1 invariants broken: two places")]
