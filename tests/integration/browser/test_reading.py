"""Reading the dashboard in a real browser, without changing anything."""

from __future__ import annotations

import re

from playwright.sync_api import Page, ViewportSize, expect

from tests.integration.browser.conftest import Open, Reader, Site


def test_the_projects_are_listed_with_their_states_and_counts(reader: Reader) -> None:
    page = reader.open("/")

    row = page.locator('[data-row="recipes"]')
    expect(row.locator('[data-cell="state"]')).to_have_text("paused")
    expect(row.locator('[data-cell="ready"]')).to_have_text("30")
    expect(page.locator("#summary")).to_contain_text("4")


def test_what_is_pushed_is_seen_without_loading_the_page_again(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    page.evaluate("window.sameLoad = true")

    site.client.push("recipes", "https://recipes.example/one-more", taskid="one-more")
    expect(page.locator('[data-row="recipes"] [data-cell="ready"]')).to_have_text("31")
    site.client.tasks.cancel("recipes", ["one-more"])
    expect(page.locator('[data-row="recipes"] [data-cell="ready"]')).to_have_text("30")

    assert page.evaluate("window.sameLoad")


def test_a_project_that_is_new_gets_a_row_of_its_own(reader: Reader, site: Site) -> None:
    page = reader.open("/")

    site.client.push("newcomer", "http://new.example/")
    expect(page.locator('[data-row="newcomer"] [data-cell="ready"]')).to_have_text("1")
    site.client.projects.delete("newcomer")
    expect(page.locator('[data-row="newcomer"]')).to_have_count(0)


def test_projects_are_searched_by_their_names(reader: Reader) -> None:
    page = reader.open("/")
    page.get_by_label("Only projects whose names contain").fill("ec")
    page.keyboard.press("Enter")

    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.get_by_role("link", name="recipes").first).to_be_visible()


def test_tasks_are_searched_by_url_and_error(reader: Reader) -> None:
    page = reader.open("/projects/news/tasks?state=failed")
    page.get_by_label("Error").fill("*503*attempt 46*")
    page.keyboard.press("Enter")
    expect(page.locator("td.what")).to_have_count(1)
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("td.what")).to_have_count(6)
    page.locator("td.what a").first.click()

    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()


def test_a_flow_is_drawn_and_its_tasks_change_colour_when_they_end(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/shop/flows/nightly")
    shapes = page.locator("#drawing g.shape")
    expect(shapes).not_to_have_count(0)
    assert page.locator("#drawing path.edges").get_attribute("d")
    succeeded = page.locator('#drawing g.shape[data-state="success"]')
    before = succeeded.count()

    for task in site.client.select(1, projects=["shop"]):
        site.client.done(task)

    expect(succeeded).to_have_count(before + 1)


def brightness(page: Page) -> int:
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_a_page_is_dark_where_the_system_is_and_as_its_reader_likes(reads: Open) -> None:
    assert brightness(reads(color_scheme="light").open("/")) > 600
    page = reads(color_scheme="dark").open("/")
    assert brightness(page) < 200

    page.get_by_role("button", name="Dark or light").click()
    assert brightness(page) > 600
    page.reload()
    assert brightness(page) > 600


def test_the_next_test_finds_a_window_as_if_it_were_new(reads: Open, site: Site) -> None:
    reader = reads(color_scheme="dark")
    page = reader.open("/")
    page.get_by_role("button", name="Dark or light").click()
    assert brightness(page) > 600
    page.set_viewport_size(ViewportSize(width=390, height=844))
    page.context.add_cookies([{"name": "of-this-test", "value": "1", "url": site.address}])

    assert reader.leave() == []

    assert brightness(reader.open("/")) < 200
    assert page.viewport_size == ViewportSize(width=1280, height=900)
    assert page.context.cookies() == []


def test_times_are_those_of_the_reader_and_utc_on_hover(reader: Reader) -> None:
    page = reader.open("/log")
    time = page.locator("time").first

    instant = time.evaluate("(one) => Number(one.dataset.unix)")
    here, utc = time.inner_text(), time.get_attribute("title") or ""

    hour, minute = int(instant // 3600 % 24), int(instant // 60 % 60)
    assert f"{hour:02d}:{minute:02d}" in utc
    assert "UTC" in utc
    assert f"{(hour + 9) % 24:02d}:{minute:02d}" in here
