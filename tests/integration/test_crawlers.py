"""The crawlers of README, examples and documents, unchanged, on a site that judges them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.politeness.crawlers import MOST_MEMORY, crawl, crawlers
from tests.politeness.judging_site import JudgingSite, Visit, complaints


@pytest.mark.parametrize("name", sorted(crawlers()))
def test_a_crawler_that_people_copy_gives_a_site_no_reason_to_complain(name: str, tmp_path: Path) -> None:
    crawled = crawl(crawlers()[name], tmp_path)

    assert crawled.complaints == []
    assert crawled.peak_bytes <= MOST_MEMORY


def visit(path: str, arrived_at: float = 0.0, *, status: int = 200, sent: int = 0, agent: str = "examplebot") -> Visit:
    return Visit(path, agent, arrived_at, arrived_at, status, sent)


@pytest.fixture
def site() -> Iterator[JudgingSite]:
    """Site of one page."""
    it = JudgingSite(front=("/page/3",), robots=True)
    try:
        yield it
    finally:
        it.close()


GOOD = (visit("/robots.txt"), visit("/"), visit("/page/3", 1.0))


@pytest.mark.parametrize(
    ("visits", "said"),
    [
        ((visit("/page/3", 5.0),), "/page/3: asked for 2 times"),
        ((visit("/gone/0", 5.0, agent="urllib"),), "/gone/0: by 'urllib'"),
        ((visit("/mends", 5.0, status=503), visit("/news", 5.9)), "/news: 0.900 s after the 503 of /mends"),
        ((visit("/huge", 5.0, sent=300 << 20),), "/huge: 314,572,800 bytes were taken"),
        ((visit("/caf%EF%BF%BD", 5.0),), "/caf%EF%BF%BD: no such link"),
        ((visit("/private/x", 5.0),), "/private/x: not to be fetched"),
        (tuple(visit(f"/spiral/{n}", 5.0 + n) for n in range(21)), "/spiral: 21 pages of a trap"),
        ((visit("/news", 1.0), visit("/sport", 1.0)), "4 pages in 1.000 s, in spite of Crawl-delay: 1"),
    ],
)
def test_the_site_complains_when_it_has_to(site: JudgingSite, visits: tuple[Visit, ...], said: str) -> None:
    site.visits += GOOD
    assert complaints(site, keeps_to_robots=True) == []

    site.visits += visits

    assert complaints(site, keeps_to_robots=True) == [said]


def test_the_site_complains_of_what_nobody_asked_for(site: JudgingSite) -> None:
    site.visits += GOOD[:2]

    assert complaints(site, keeps_to_robots=True) == ["/page/3: not asked for"]
