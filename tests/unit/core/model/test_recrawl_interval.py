"""Recrawl intervals by themselves: where an interval settles, and its bounds."""

from __future__ import annotations

from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.model.recrawl_interval import after_success, as_replaced, has_changed, recurs_after
from taskqueue.protocol.values import Fetched, PageFacts, Recrawl, Schedule

DAY = 86_400.0
BOUNDS = Recrawl(60, 365 * DAY)
FACT = st.sampled_from(["", "1", "2"])
FETCHED = st.builds(
    Fetched, changed=st.sampled_from([None, True, False]), content_hash=FACT, etag=FACT, last_modified=FACT
)


@pytest.mark.parametrize("days", [0.1, 1, 30])
def test_it_comes_to_rest_near_the_mean_time_between_changes(days: float) -> None:
    dice = Random(4)
    page = PageFacts(BOUNDS.min)
    visited = []
    for _ in range(3000):
        changed = dice.random() > exp(-page.interval / (days * DAY))
        page = after_success(page, BOUNDS, Fetched(changed=changed))
        visited.append(page.interval)

    assert sorted(visited[500:])[1250] == pytest.approx(days * DAY, rel=0.25)


def test_a_page_that_never_changes_is_seldom_visited_soon_and_one_that_always_does_often() -> None:
    page = PageFacts(3600.0)
    for _ in range(20):
        page = after_success(page, Recrawl(60, 30 * DAY), Fetched(changed=False))
    assert page.interval == 30 * DAY

    for _ in range(60):
        page = after_success(page, Recrawl(60, 30 * DAY), Fetched(changed=True))
    assert page.interval == 60


@given(st.lists(FETCHED, max_size=8), st.floats(1, 1e9))
def test_it_never_leaves_its_bounds_and_only_tells_what_was_said(reports: list[Fetched], first: float) -> None:
    page = PageFacts(first)
    for said in reports:
        known, changed = page, has_changed(page, said)
        page = after_success(known, BOUNDS, said)

        assert BOUNDS.min <= page.interval <= BOUNDS.max
        if BOUNDS.min < known.interval < BOUNDS.max:
            assert changed is None or (page.interval < known.interval) == changed
        for fact in ("etag", "last_modified", "content_hash"):
            was, heard, now = (getattr(each, fact) for each in (known, said, page))
            assert now == heard or (now == was and not heard and not changed)


def test_a_schedule_alone_tells_whether_a_task_recurs_and_after_how_long() -> None:
    bounds = Recrawl(60, 600)

    assert recurs_after(Schedule()) is None
    assert recurs_after(Schedule(age=9)) is None
    assert recurs_after(Schedule(auto_recrawl=True)) is None
    assert recurs_after(Schedule(auto_recrawl=True, age=9)) == 9
    assert recurs_after(Schedule(recrawl=bounds)) == 60
    assert [recurs_after(Schedule(recrawl=bounds, age=age)) for age in (9, 99, 999)] == [60, 99, 600]
    assert recurs_after(Schedule(recrawl=bounds, age=99), PageFacts(77)) == 77


def test_of_a_page_that_is_not_crawled_again_nothing_is_known() -> None:
    assert as_replaced(Schedule(), PageFacts(99.0)) is None
    assert as_replaced(Schedule(recrawl=BOUNDS), None) is None
    assert as_replaced(Schedule(recrawl=BOUNDS), PageFacts(99.0, "1", "2", "3")) == PageFacts(99.0)
