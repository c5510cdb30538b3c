"""``taskqueue top``: keys, speeds, and what fits on its screen."""

from __future__ import annotations

import io
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from taskqueue.cli.input.top_keys import PROJECT_SORTS, View, keys
from taskqueue.cli.output.top_screen import ALL, Snapshot, SpeedMeter, Speeds, render_screen, rows_that_fit
from taskqueue.display.counts import brief
from taskqueue.protocol.daemon import StatusReply
from taskqueue.protocol.fetchers import Fetcher, FetchersReply, HungPlaces
from taskqueue.protocol.projects import Project
from taskqueue.protocol.values import EventTotals, TaskCounts

# ------------------------------------------------------------------------------------------------ keys


def test_keys_are_told_apart_however_many_come_at_once() -> None:
    assert keys("qs\x1b[A\x1b[6~\r\x7f\x1b") == ["q", "s", "up", "page-down", "enter", "backspace", "escape"]
    assert keys("\x1b[15~é\x1bOB") == ["é", "down"]


def view_of(found: int = 100, seen: int = 10) -> View:
    view = View("selected_5m", "")
    for rows in (view.projects, view.fetchers):
        rows.found, rows.seen = found, seen
    return view


def press(view: View, *pressed: str) -> View:
    for key in pressed:
        view.press(key)
    return view


def test_scrolling_stops_at_both_ends() -> None:
    view = view_of()

    assert [press(view, key).rows.skip for key in ("down", "j", " ", "G", "down", "b", "up", "home", "k")] == [
        1, 2, 12, 90, 90, 80, 79, 0, 0,
    ]  # fmt: skip
    assert press(view_of(found=3), "G", "down").rows.skip == 0


def test_the_order_goes_round_both_ways_and_begins_at_the_first_row() -> None:
    view = press(view_of(), "G", "s")
    assert (view.rows.sort, view.rows.skip) == (PROJECT_SORTS[1], 0)

    assert press(view, "S", "S").rows.sort == "name"
    assert press(View("cancelled", ""), "s").rows.sort == PROJECT_SORTS[0]


def test_a_filter_is_typed_and_its_letters_are_no_commands() -> None:
    view = press(view_of(), "j", "/", "q", "s", "x", "backspace", "enter")
    assert (view.rows.part, view.rows.skip, view.ended, view.typing) == ("qs", 0, False, False)

    assert press(view, "/", "a", "escape").rows.part == ""
    assert press(view, "/", "a", "enter", "escape").rows.part == ""
    assert press(view, "q").ended


def test_fetchers_have_an_order_a_filter_and_a_place_of_their_own() -> None:
    view = press(view_of(), "j", "f", "s", "j", "j", "/", "w", "enter")

    assert (view.fetchers.sort, view.fetchers.part, view.projects.part, view.projects.skip) == ("silent", "w", "", 1)
    assert press(view, "f").rows is view.projects


# ------------------------------------------------------------------------------------------------ speeds


def test_a_speed_is_what_was_gained_since_the_last_look() -> None:
    watch = SpeedMeter()

    assert watch.look(10.0, {"a": EventTotals(new=5)}) == {}
    assert watch.look(12.0, {"a": EventTotals(new=9, failed=1), "b": EventTotals()}) == {"a": Speeds(2.0, 0, 0, 0, 0.5)}
    assert watch.look(12.1, {"a": EventTotals(new=99)})["a"].new == 2.0
    assert watch.look(13.0, {"a": EventTotals(new=4)})["a"].new == 0.0


def test_a_speed_is_known_again_after_a_look_at_others() -> None:
    watch = SpeedMeter()
    watch.look(1.0, {"a": EventTotals(new=5)})
    watch.look(2.0, {"b": EventTotals()})

    assert watch.look(3.0, {"a": EventTotals(new=9)})["a"].new == 2.0


# ------------------------------------------------------------------------------------------------ the screen


def project(name: str, **more: Any) -> Project:
    busy = TaskCounts(ready=12_345_678, delayed=123_456, processing=9_999, failed=3)
    view = Project(name, "checking", busy, EventTotals(), {"rate": 0.123456, "burst": 10.0}, {})
    return replace(view, **more)


def fetcher(name: str) -> Fetcher:
    return Fetcher("5f0c", name, 100_000, 99_999, 86_400.0, None, "255.255.255.255", 86_400.0, 10**8, 10**8)


def screen(projects: list[Project], fetchers: list[Fetcher], view: View, width: int, height: int) -> list[str]:
    """Draw the screen; return its lines, with as many projects and fetchers as fit."""
    rows = rows_that_fit(height)
    view.projects.found, view.projects.seen = len(projects), rows
    view.fetchers.found, view.fetchers.seen = len(fetchers), rows
    counts = TaskCounts(ready=10**9, delayed=10**9, processing=10**5)
    status = StatusReply(
        n=1, epoch=17_592, version="0.1.0", uptime_seconds=1e6, counts=counts, totals=EventTotals(),
        projects=projects[:rows], more=False, fetchers=[], found=len(projects),
    )  # fmt: skip
    those = FetchersReply(n=1, fetchers=fetchers[:rows], more=False, found=len(fetchers), capacity=10**6, holds=10**6)
    speeds = Speeds(12_345.6, 12_345.6, 12_345.6, 12_345.6, 12_345.6)
    seen = Snapshot(status, those, {ALL: speeds} | {each.name: speeds for each in projects})
    file = io.StringIO()
    Console(file=file, width=width, height=height, color_system=None).print(
        render_screen("tcp://127.0.0.1:7400", seen, view, width, height)
    )
    return file.getvalue().splitlines()


SIZES = [(80, 24), (200, 50), (40, 10)]
LONG = "a-project-with-a-name-of-sixty-four-characters-which-is-the-most"


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("fetchers_seen", [False, True])
@pytest.mark.parametrize("many", [0, 1, 3, 3000])
def test_the_screen_is_full_and_nothing_is_beyond_it(width: int, height: int, fetchers_seen: bool, many: int) -> None:
    view = View("selected_5m", "shop")
    view.fetchers_seen = fetchers_seen
    projects = [project(LONG, reason="10 failures in a row, " * 5) for _ in range(many)]

    lines = screen(projects, [fetcher("crawler-17.example.org:31337") for _ in range(many)], view, width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_of_three_projects_all_is_seen_and_the_fetchers_below() -> None:
    view = View("name", "")

    lines = screen([project("news"), project("shop"), project("blog")], [fetcher("web1:1")], view, 80, 24)
    assert [line.split()[0] for line in lines[4:8]] == ["project", "news", "shop", "blog"]
    assert lines[4].split()[1:] == ["state", "ready", "processing", "selected/s", "retried/s", "failed/s"]
    assert [line.split()[0] for line in lines[9:11]] == ["fetcher", "web1:1"]
    assert lines[-1].startswith("1-3 of 3 by name  q quit")


def test_a_fetcher_that_drains_is_seen_to_with_what_it_holds() -> None:
    view = View("name", "")
    view.fetchers_seen = True
    draining = Fetcher("5f0c", "web1", 20, 3, 1.0, None, "10.0.0.7", draining=True)

    lines = screen([], [draining, replace(draining, name="web2", draining=False)], view, 80, 24)
    assert [line.split()[:3] for line in lines[4:7]] == [
        ["fetcher", "state", "holds"],
        ["web1", "draining", "3/20"],
        ["web2", "3/20", "0"],
    ]


def test_places_that_hang_are_seen_beside_what_is_held() -> None:
    view = View("name", "")
    view.fetchers_seen = True
    hung = Fetcher("5f0c", "web1", 16, 0, 1.0, slots=16, hung=HungPlaces(16, 540.0, "news", "a", "http://a/"))

    lines = screen([], [hung], view, 80, 24)
    assert [line.split()[:6] for line in lines[4:6]] == [
        ["fetcher", "state", "holds", "hung", "slow", "oldest"],
        ["web1", "0/16", "16", "for", "9", "min"],
    ]


def test_of_three_thousand_projects_as_many_are_seen_as_fit() -> None:
    lines = screen([project(f"p{n}") for n in range(3000)], [fetcher("web1:1")], View("ready", ""), 80, 24)

    assert [line.split()[0] for line in lines[5:22]] == [f"p{n}" for n in range(17)]
    assert "1-17 of 3,000 by ready" in lines[-1]


def test_the_column_that_is_sorted_by_is_seen_on_the_narrowest_screen() -> None:
    assert "delayed" in screen([project(LONG)], [], View("delayed", ""), 40, 10)[4]


def test_there_is_a_word_where_there_is_no_row() -> None:
    assert "No projects yet." in screen([], [], View("name", ""), 80, 24)
    assert "No project is named so." in screen([], [], View("name", "x"), 80, 24)


def test_large_counts_are_short() -> None:
    assert [brief(number) for number in (9_999_999, 12_345_678, 98_765_432_109)] == ["9,999,999", "12.3 M", "98.8 G"]
