"""The dashboard's page of the daemon itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskqueue import Client
from taskqueue.display.daemon import HISTORY_COLUMNS, facts, minute_sentence, slowest_minutes
from taskqueue.protocol.daemon import DaemonShow
from tests.integration.conftest import Daemon, DaemonFactory
from tests.integration.web_pages import Pages, pages_of, words
from tests.postgres import drop_schema, new_target, postgres_url


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a daemon that has done a little."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        with Client(daemon.url) as it:
            it.push_many("news", [f"http://news/{number}" for number in range(100)])
            for task in it.select(5):
                it.done(task)
            yield it
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def pages(client: Client) -> Iterator[Pages]:
    with pages_of(client.daemon_address) as it:
        yield it


def test_the_page_of_the_daemon_has_the_words_of_the_command_line(client: Client, pages: Pages) -> None:
    told = facts(client._ask(DaemonShow()))

    page = pages.page("/daemon")

    lines = page.get_element_by_id("facts")
    assert [words(each) for each in lines.iter("dt")] == [fact.head for fact in told]
    # Except the uptime, which goes on.
    assert words(next(lines.iter("dd"))).partition(", ")[2] == told[0].text.partition(", ")[2]


def test_of_a_store_in_a_database_the_page_and_the_command_line_say_which_one(daemon: DaemonFactory) -> None:
    target = new_target()
    it = daemon(url=postgres_url(), schema=target.schema)

    with Client(it.url) as client, pages_of(it.url) as pages:
        told = dict(facts(client._ask(DaemonShow())))
        page = pages.page("/daemon")

    assert told["store"] == target.where
    figures = page.get_element_by_id("figures")
    shown = dict(zip(map(words, figures.iter("dt")), map(words, figures.iter("dd")), strict=True))
    assert shown["store"] == target.where
    assert "disk" not in shown
    assert "in a database" in words(page.get_element_by_id("store"))
    it.stop()
    drop_schema(target)


def test_what_has_happened_since_the_start_is_drawn(pages: Pages) -> None:
    page = pages.page("/daemon")

    drawn = [words(each) for each in page.xpath("//figure//strong")]
    assert drawn[:4] == ["turns", "commits", "syncs", "tasks a turn"]
    assert all("p50" in each and "p99" in each for each in page.xpath("//figure/*[@role='img']/@aria-label"))


def test_the_minutes_of_the_last_day_are_told_as_at_the_command_line(daemon: DaemonFactory) -> None:
    it = daemon()
    with Client(it.url) as client:
        client.push("news", "http://site/")
    it.stop()
    it.start()

    with Client(it.url) as client, pages_of(it.url) as pages:
        before = list(client.daemon.history())
        day = pages.page("/daemon").get_element_by_id("day")
        after = list(client.daemon.history())

    assert any(
        minute_sentence(slowest_minutes(told)[0]) in words(day) for told in (before, after)
    )  # a minute may have ended
    assert day.xpath(".//*[@role='img']")
    assert [words(each) for each in day.iter("th")][:8] == [column.head for column in HISTORY_COLUMNS]
    assert any("turns" in title and "syncs" in title for title in day.xpath(".//title/text()"))


def test_what_the_daemon_tells_is_sent_while_somebody_looks(pages: Pages) -> None:
    change = pages.first_change("/daemon")

    assert set(change["blocks"]) == {"figures", "trends", "day", "histograms", "facts", "store"}
    assert "p99" in change["blocks"]["histograms"]
