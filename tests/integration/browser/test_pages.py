"""Every page of the dashboard opens without a fault, for any content, width and colours."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.integration.browser.conftest import Open, assert_tame

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
    "/projects/shop/cron/night",
    "/projects/shop/cron/front",
    "/flows",
    "/fetchers",
    "/failures",
    "/failures?by=host",
    "/operations",
    "/log",
    "/daemon",
)

PHONE: Final = ViewportSize(width=390, height=844)
LAPTOP: Final = ViewportSize(width=1280, height=900)

WIDEST: Final = """() => {
  const edge = document.documentElement.clientWidth;
  const wide = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > edge + 1
    && !one.closest("svg, .scroll, .unseen, pre, .packed, dialog, nav, [hidden]"));
  return [document.documentElement.scrollWidth - edge, wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 120))];
}"""
"""Script that returns how much wider than the window the page is, and its widest element."""

NAMED: Final = frozenset(
    ("button", "checkbox", "combobox", "DisclosureTriangle", "image", "link", "navigation", "progressbar", "radio")
) | frozenset(("region", "searchbox", "slider", "spinbutton", "textbox"))
"""Roles of the accessibility tree that are useless without a name."""


def nameless(page: Page) -> list[str]:
    """List elements that a screen reader can only call a button or an image."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    roles = [(node["role"]["value"], node["name"]["value"]) for node in tree["nodes"] if not node["ignored"]]
    return [role for role, name in roles if role in NAMED and not name.strip()]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_without_an_error_fits_a_phone_and_names_all_that_it_has(reads: Open, path: str) -> None:
    page = reads(**PHONE, has_touch=True, is_mobile=True).open(path)

    wider = page.evaluate(WIDEST)
    page.set_viewport_size(LAPTOP)  # a phone shows less
    unnamed = nameless(page)
    page.set_viewport_size(PHONE)
    assert wider == [0, []]
    assert unnamed == []
    assert page.locator("h1").count() == 1
    assert page.title().endswith(" · taskqueue")
    assert_tame(page)
