"""Every page, as it is opened: nothing in it fails, whatever it has to show, however wide and in which colours."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page

from tests.integration.browser.conftest import Open, Reader

PAGES: Final = (
    "/",
    "/projects/news",
    "/projects/hostile",
    "/projects/news/tasks",
    "/projects/news/tasks?state=failed",
    "/projects/hostile/tasks",
    "/projects/hostile/tasks?state=processing",
    "/projects/shop/flows",
    "/projects/shop/flows/nightly",
    "/flows",
    "/fetchers",
    "/failures",
    "/failures?by=host",
    "/operations",
    "/log",
    "/daemon",
)

WIDEST: Final = """() => {
  const edge = document.documentElement.clientWidth;
  const wide = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > edge + 1
    && !one.closest("svg, .scroll, .unseen, pre, .packed, dialog, nav, [hidden]"));
  return [document.documentElement.scrollWidth - edge, wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 120))];
}"""
"""How much wider than the window the page is, and what of it is."""

NAMED: Final = frozenset(
    ("button", "checkbox", "combobox", "DisclosureTriangle", "image", "link", "navigation", "progressbar", "radio")
) | frozenset(("region", "searchbox", "slider", "spinbutton", "textbox"))
"""Roles of the accessibility tree of which nobody can tell without a name what they are for."""


def nameless(page: Page) -> list[str]:
    """What a screen reader could only call a button, or an image."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    roles = [(node["role"]["value"], node["name"]["value"]) for node in tree["nodes"] if not node["ignored"]]
    return [role for role, name in roles if role in NAMED and not name.strip()]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_as_wide_as_a_phone(reads: Open, path: str) -> None:
    page = reads(390, 844, has_touch=True, is_mobile=True).open(path)

    assert page.evaluate(WIDEST) == [0, []]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_without_an_error_and_all_that_it_has_has_a_name(reader: Reader, path: str) -> None:
    page = reader.open(path)

    assert page.locator("h1").count() == 1
    assert page.title().endswith(" · taskqueue")
    assert nameless(page) == []
