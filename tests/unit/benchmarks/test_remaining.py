"""The daemon's forecasts of the end of six crawls, in simulated time."""

from __future__ import annotations

from math import inf

from benchmarks.remaining import CRAWLS, simulate


def test_half_way_most_ranges_contain_the_end_and_no_growing_crawl_is_called_finite() -> None:
    told = {name: simulate(crawl) for name, crawl in CRAWLS.items()}

    finite = {name: each for name, each in told.items() if CRAWLS[name].ends}
    true = [name for name, each in finite.items() if each.is_true(each.half_way)]
    assert len(true) >= len(finite) / 2, true
    (growing,) = [each for name, each in told.items() if not CRAWLS[name].ends]
    assert growing.end == inf
    assert not [look for look in growing.looks if not look.told.reason]


def test_the_same_chances_give_the_same_table() -> None:
    crawl = CRAWLS["shrinking"]._replace(seeds=200, links=lambda chance: [])

    assert simulate(crawl, 3) == simulate(crawl, 3)
