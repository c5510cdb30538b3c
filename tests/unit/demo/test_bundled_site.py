"""The bundled site: has what makes real sites hard, and its list of pages is right."""

from __future__ import annotations

from collections import Counter

from taskqueue.demo.bundled_site import BundledSite
from taskqueue.demo.folder_site import ANYWHERE, walk

SITE = BundledSite()


def hrefs() -> str:
    """Every link of the site, as written."""
    return "".join(SITE.page(target).body.decode() for target in SITE.expected())


def test_it_has_at_least_500_pages_of_every_kind() -> None:
    statuses = Counter(SITE.expected().values())

    assert sum(statuses.values()) == 557
    assert statuses[404] == 12
    assert {status for status in statuses if 300 <= status < 400} == {301, 302, 303, 307, 308}
    assert statuses[200] == 513


def test_following_its_links_finds_exactly_the_listed_pages() -> None:
    assert walk(SITE) == SITE.expected()


def test_it_is_the_same_each_time() -> None:
    again = BundledSite()

    assert [again.page(target) for target in SITE.expected()] == [SITE.page(target) for target in SITE.expected()]


def test_duplicates_are_written_in_several_ways_and_answered_alike() -> None:
    assert "?utm_source=" in hrefs()
    assert "#comments" in hrefs()
    assert "/search?page=1&amp;lang=en" in hrefs()
    assert SITE.page("/search?page=3&lang=en&utm_source=x") == SITE.page("/search?lang=en&page=3")


def test_a_few_pages_take_half_a_second_to_one_second() -> None:
    delays = sorted(page.delay_seconds for page in map(SITE.page, SITE.expected()) if page.delay_seconds)

    assert len(delays) == 8
    assert (delays[0], delays[-1]) == (0.5, 1.0)


def test_two_redirects_lead_to_each_other() -> None:
    assert (SITE.page("/moved/0").location, SITE.page("/moved/1").location) == ("/moved/1", "/moved/0")


def test_what_is_not_listed_is_a_404() -> None:
    assert SITE.page("/article/440").status == 404
    assert SITE.page("/search?lang=en&page=3&size=9").status == 404
    assert ANYWHERE not in "".join(SITE.expected())
