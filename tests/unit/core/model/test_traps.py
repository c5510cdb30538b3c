"""Detection of traps: five of five kinds of traps are found, and no ordinary site is, however large."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.core.model.traps import (
    ALL_SLOTS_MOST,
    SAMPLES,
    SLOTS_MOST,
    Finding,
    Sampling,
    TrapTable,
    TrapWindows,
    shape_of,
)
from tests.unit.core.model.growing_sites import ORDINARY, TRAPS, Site, crawl, years

GROWING = 10_000

TASKS = 5 * GROWING // 2


def findings(site: Site, tasks: int = TASKS) -> list[Finding]:
    """Return the findings in a crawl of the site of ``tasks`` tasks."""
    windows, sampling, made = TrapWindows(), Sampling(GROWING), []
    for count, found in enumerate(crawl(site, tasks), 1):
        if count >= sampling.at:
            sampling.go_on(count)
            made.append(windows.look(*found))
    return [finding for finding in made if finding is not None]


@pytest.mark.parametrize("site", ORDINARY, ids=lambda site: site.__name__)
def test_an_ordinary_site_is_none(site: Site) -> None:
    assert findings(site) == []


@pytest.mark.parametrize("site", TRAPS, ids=lambda site: site.__name__)
def test_a_trap_is_one(site: Site) -> None:
    assert [finding.kind for finding in findings(site)][:1] == [TRAPS[site]]


def test_a_window_may_be_short() -> None:
    windows = TrapWindows(100)

    found = [windows.look(*each) for each in crawl(years, 200)]

    assert [finding.looked_at for finding in found if finding is not None] == [100]


def test_numbers_and_ids_say_nothing_of_a_shape() -> None:
    uuid = "5f0c1d2e-8a7b-4c3d-9e8f-001122334455"
    local = f"/item/12/internationalization/{uuid}?page=3&key=abcdef0123456789"

    assert shape_of(local) == "/item/N/internationalization/X?page=N&key=X"


@pytest.mark.parametrize(
    "url", ["", "data:,report", "no url at all", "http://host", "http://[", "x" * 10_000, "/" * 9999]
)
def test_any_url_can_be_looked_at(url: str) -> None:
    windows = TrapWindows()

    assert [windows.look(url, 40, url, url) for _ in range(10)] == [None] * 10


def looked_at(sampling: Sampling, tasks: int) -> list[int]:
    """Return the numbers of the tasks that are sampled, of ``tasks``."""
    looked = []
    for count in range(1, tasks + 1):
        if count >= sampling.at:
            sampling.go_on(count)
            looked.append(count)
    return looked


def test_of_a_window_of_new_tasks_a_bounded_number_is_looked_at() -> None:
    assert len(looked_at(Sampling(GROWING), 10 * GROWING)) == pytest.approx(10 * SAMPLES, rel=0.03)


def test_pages_with_as_many_links_as_are_passed_over_are_looked_at_in_all_places() -> None:
    places = {count % 31 for count in looked_at(Sampling(31 * SAMPLES), 31 * 31 * 10)}

    assert len(places) == 31


@pytest.mark.parametrize("growing", [100, SAMPLES])
def test_where_few_are_judged_together_each_is_looked_at(growing: float) -> None:
    assert looked_at(Sampling(growing), 13) == list(range(1, 14))


def test_where_none_are_judged_none_is_looked_at() -> None:
    assert looked_at(Sampling(inf), 100_000) == []


def test_a_project_has_a_bounded_number_of_slots_that_are_watched() -> None:
    table = TrapTable()
    busy = table.of(1, "busy", SAMPLES)

    for n in range(10 * SLOTS_MOST):
        table.of(1, f"slot {n}", SAMPLES)
        assert table.of(1, "busy", SAMPLES) is busy
    quiet = table.of(1, "slot 0", SAMPLES)

    assert len(table) == SLOTS_MOST
    assert table.of(1, "slot 0", SAMPLES) is quiet


def test_all_projects_together_have_a_bounded_number_of_them() -> None:
    table = TrapTable()

    for n in range(2 * ALL_SLOTS_MOST):
        table.of(n, "", SAMPLES)

    assert len(table) == ALL_SLOTS_MOST


def test_windows_of_another_size_begin_anew() -> None:
    table = TrapTable()
    former = table.of(1, "", SAMPLES)

    assert table.of(1, "", 100).size == 100
    assert table.of(1, "", 100) is not former
    assert len(table) == 1
