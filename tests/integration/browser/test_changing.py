"""Actions by mouse or keyboard change the daemon, and the dashboard says so."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.integration.browser.conftest import Reader, Site


def test_a_rate_is_edited_in_place(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    rate = page.get_by_label("rate of recipes")
    rate.fill("7.5")
    rate.press("Enter")
    expect(page.locator("#told")).to_contain_text("rate of recipes is changed")

    assert site.client.projects.get("recipes").settings["rate"] == 7.5


def test_a_rate_that_is_none_is_refused_by_its_name(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    rate = page.get_by_label("rate of news")
    rate.fill("fast")
    rate.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("rate")
    reader.expected("400")


def test_pausing_says_what_will_happen_and_is_done_when_it_is_confirmed(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    row = page.locator('[data-row="news"]')
    row.get_by_label("Actions of news").click()
    row.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause news?")
    expect(dialog).to_contain_text("It dispatches no tasks until it is resumed.")
    dialog.get_by_role("button", name="Leave it").click()
    assert site.client.projects.get("news").state == "running"

    row.get_by_label("Actions of news").click()
    row.get_by_role("button", name="Pause").click()
    dialog.get_by_role("button", name="Pause").click()
    expect(row.locator('[data-cell="state"]')).to_have_text("paused")

    row.get_by_label("Actions of news").click()
    row.get_by_role("button", name="Resume").click()
    expect(row.locator('[data-cell="state"]')).to_have_text("running")


def test_what_failed_is_retried(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    row = page.locator('[data-row="hostile"]')
    failed = row.locator('[data-cell="failed"]')
    expect(failed).not_to_have_text("0")
    row.get_by_label("Actions of hostile").click()
    row.get_by_role("button", name="Retry failed").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()

    expect(failed).to_have_text("0")
    assert site.client.projects.get("hostile").counts.failed == 0


def test_chosen_tasks_are_cancelled(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/news/tasks?state=delayed")
    before = site.client.projects.get("news").counts
    boxes = page.get_by_role("checkbox", name="Choose http")
    boxes.first.check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog", name="Cancel 2 tasks?").get_by_role("button", name="Cancel").click()
    expect(page.locator("#told")).to_contain_text("2 tasks cancelled")

    assert site.client.projects.get("news").counts.cancelled == before.cancelled + 2


def test_all_tasks_that_match_are_counted_first_and_then_given_a_priority(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/news/tasks?state=ready&url=*/11?.html")
    page.get_by_label("Priority to give").fill("7")
    page.get_by_role("button", name="Set priority…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("All that match, on every page.")
    asked = dialog.get_by_role("heading").inner_text()
    dialog.get_by_role("button", name="Reprioritise").click()
    expect(page.locator("#progress-words")).to_contain_text("Reprioritised")

    raised = [row.url for row in site.client.tasks.iter("news", "ready") if row.priority == 7]
    assert asked == ("Reprioritise 1 task?" if len(raised) == 1 else f"Reprioritise {len(raised)} tasks?")
    assert all("/11" in url for url in raised)


def test_a_task_runs_again_with_those_that_depend_on_it_after_these_were_named(reader: Reader, site: Site) -> None:
    task = site.client.tasks.get("shop", url="https://shop.example/")
    page = reader.open(f"/projects/shop/tasks/{task.taskid}")
    expect(page.locator("#standing .state")).to_have_text("success")
    page.get_by_label("And all tasks that depend on it").check()
    page.get_by_role("button", name="Which would run?").click()
    expect(page.locator("#rerun-words")).to_contain_text("tasks would run again")
    assert site.client.tasks.get("shop", task.taskid).state == "success"
    page.get_by_role("button", name="again").click()

    expect(page.locator("#standing .state")).not_to_have_text("success")


def test_a_task_of_a_flow_runs_again_with_what_depends_on_it_after_saying_how_many(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/shop/flows/nightly")
    page.get_by_role("button", name="Run https://shop.example/ again").click()
    page.get_by_label("Which tasks run again with it").select_option("downstream")
    page.locator("#rerun").get_by_role("button").click()
    dialog = page.get_by_role("dialog", name="Run again?")
    tasks = site.client.flows.get("shop", "nightly").tasks
    expect(dialog).to_contain_text(f"{tasks} tasks would run again, in 5 layers.")

    dialog.get_by_role("button", name="Run").click()

    expect(page.locator("#told")).to_contain_text(f"{tasks} tasks will run again")
    expect(page.locator("#figures .said")).to_contain_text(f"0 of {tasks} tasks finished")


def test_a_fetcher_is_drained_and_resumed(reader: Reader, site: Site) -> None:
    page = reader.open("/fetchers?filter=crawler")
    page.get_by_role("button", name="Drain crawler-1@web3").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.locator('[data-cell="state"]')).to_have_text("draining")
    assert site.client.fetchers.get("crawler-1@web3").draining

    page.get_by_role("button", name="Resume crawler-1@web3").click()
    expect(page.get_by_role("button", name="Drain crawler-1@web3")).to_be_visible()
    assert not site.client.fetchers.get("crawler-1@web3").draining


def test_everything_works_without_a_mouse_and_shows_where_one_is(reader: Reader, site: Site) -> None:
    page = reader.open("/?filter=shop")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == "Actions of shop":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Pause"
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Pause shop?")).to_be_visible()
    assert page.evaluate("document.activeElement.value") == "yes"
    page.keyboard.press("Enter")
    expect(page.locator('[data-row="shop"] [data-cell="state"]')).to_have_text("paused")

    site.client.projects.resume("shop")


def test_the_log_says_what_was_changed_by_the_page(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    rate = page.get_by_label("rate of recipes")
    rate.fill("3")
    rate.press("Enter")
    expect(page.locator("#told")).to_contain_text("rate of recipes is changed")
    page = reader.open("/log?project=recipes")

    expect(page.locator("tbody tr").first.locator(".who")).to_contain_text("web@")
    expect(page.locator("tbody tr").first.locator(".what")).to_contain_text("rate")
