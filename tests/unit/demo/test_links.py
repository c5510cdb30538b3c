"""Links: what leads where, and that one page has one url."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.demo.links import canonical, leads_to
from taskqueue.demo.page import Page

HERE = "http://site/a/b.html"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://site", "http://site/"),
        ("HTTP://SITE/A", "http://site/A"),
        ("http://site/a#part", "http://site/a"),
        ("http://site/a?", "http://site/a"),
        ("http://site/a?y=2&x=1", "http://site/a?x=1&y=2"),
        ("http://site/a?x=1&utm_source=mail&utm_medium=web", "http://site/a?x=1"),
        ("http://site/a?empty=", "http://site/a?empty="),
        ("http://site/a b/é", "http://site/a%20b/%C3%A9"),
        ("http://site/a%20b", "http://site/a%20b"),
    ],
)
def test_a_page_has_one_url(written: str, meant: str) -> None:
    assert canonical(written) == meant


@given(st.text(max_size=30), st.text(max_size=30))
def test_writing_a_url_in_its_one_way_twice_changes_nothing(path: str, query: str) -> None:
    try:
        once = canonical(f"http://site/{path}?{query}")
    except ValueError:
        return

    assert canonical(once) == once


def test_a_page_leads_to_the_pages_of_its_host_each_once_in_order() -> None:
    html = b"""<a href="c.html">1</a> <A HREF=/d?b=2&amp;a=1>2</A> <a href="/d?a=1&utm_source=x&b=2">3</a>
               <a href="http://other/"> <a href="mailto:a@site"> <a href="">"""

    assert leads_to(Page(200, html), HERE) == ["http://site/a/c.html", "http://site/d?a=1&b=2"]


def test_a_redirect_leads_to_its_location_whatever_its_text_says() -> None:
    page = Page(302, b'<a href="/elsewhere">', location="../there?b=1&a=2#x")

    assert leads_to(page, HERE) == ["http://site/there?a=2&b=1"]


def test_a_redirect_to_another_host_leads_nowhere() -> None:
    assert leads_to(Page(301, location="https://other/"), HERE) == []


@pytest.mark.parametrize("page", [Page(404, b'<a href="x">'), Page(200, b'<a href="x">', "text/plain")])
def test_errors_and_other_kinds_of_files_lead_nowhere(page: Page) -> None:
    assert leads_to(page, HERE) == []
