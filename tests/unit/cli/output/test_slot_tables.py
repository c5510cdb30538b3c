"""Slots as tables and sentences for readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from freezegun import freeze_time
from rich.console import Console
from rich.table import Table

from taskqueue.cli.output.slot_tables import fields_of, of_division, of_next, of_slots
from taskqueue.protocol.choices import SlotPlace
from taskqueue.protocol.slots import Slot, SlotDivision, SlotReply
from taskqueue.protocol.tasks import TaskRow

NOW = 1.7e9

SOURCES = {"delay": "*.org", "burst": "project", "max_processing": "person"}


@pytest.fixture(autouse=True)
def now() -> Iterator[None]:
    with freeze_time(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW))):
        yield


def printed(table: Table) -> list[str]:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def slot(name: str = "a.org", place: SlotPlace = "waiting", **fields: Any) -> Slot:
    return Slot(name, place, 7, **fields)


def fields(**of_slot: Any) -> dict[str, str]:
    return fields_of(SlotReply(n=1, slot=slot(**of_slot), chosen={"max_processing": 2.0}, sources=SOURCES, tasks=[]))


def test_a_slot_is_a_row_with_its_place_its_backlog_and_until_when_it_waits() -> None:
    lines = printed(of_slots([slot(ready=1200, more=True, errors=3, delay=0.25, until=NOW + 2)]))

    assert lines[0].split() == ["slot", "place", "ready", "processing", "errors", "delay", "until"]
    assert lines[1].split() == ["a.org", "waiting", "1,200+", "0", "3", "0.25", "s", "in", "2", "s"]


def test_how_many_tasks_a_slot_has_had_is_told_where_that_is_limited() -> None:
    lines = printed(of_slots([slot(taken=1200, max_tasks=5000.0), slot("b.org", taken=7)]))

    assert lines[0].split()[5:] == ["delay", "tasks", "until"]
    assert lines[1].split()[6:] == ["s", "1,200", "of", "5,000"]
    assert lines[2].split()[7:] == ["7"]
    assert fields(taken=7, max_tasks=10.0)["tasks so far"] == "7 of 10"
    assert "tasks so far" not in fields(taken=7)


def test_a_block_and_a_back_off_are_told_as_what_they_are() -> None:
    lines = printed(
        of_slots([slot(blocked_until=inf, until=inf), slot(backoff=2, backoff_until=NOW + 120, until=NOW + 120)])
    )

    assert "blocked until it is unset" in lines[1]
    assert "backs off in 2 min" in lines[2]


def test_the_slot_without_a_name_is_told_as_that() -> None:
    assert printed(of_slots([slot("", "ready")]))[1].startswith("(no host) ready")


def test_all_that_is_known_of_a_slot_is_said_with_who_says_it() -> None:
    said = fields(delay=30.0, max_processing=2.0, processing=1, until=NOW + 30)

    assert said["delay"] == '30 s (as "*.org" in the setting slots says)'
    assert said["processing"] == "1 of 2 (set by a person)"
    assert said["may go on"] == "in 30 s"
    assert said["a person set"] == "max_processing 2.0"
    assert "blocked" not in said
    assert "burst" not in said


def test_a_long_wait_comes_with_its_end() -> None:
    assert fields(blocked_until=NOW + 3600)["blocked"].startswith("in 1 h (")
    assert fields(backoff=3, backoff_until=NOW + 480)["backs off"].endswith("), for 3 in a row")


def test_a_delay_that_follows_the_answers_is_marked() -> None:
    assert fields(delay=1.5, auto=True)["delay"].startswith("1.5 s (auto)")


def test_the_next_tasks_of_a_slot_are_a_table() -> None:
    assert printed(of_next([TaskRow("t1", "http://a.org/1", 5)]))[1].split() == ["t1", "5", "http://a.org/1"]


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (SlotDivision("host", 34, 1200, 3), "by host: 34 ready, 1,200 waiting, 3 parked"),
        (SlotDivision("host", waiting=1, stored=True), "by host: 1 waiting, more in the store"),
        (SlotDivision("domain", moving=True), "by domain: none in memory; ready tasks are still being moved to them"),
        (SlotDivision("none", moving=True), "none any more; ready tasks are still being moved"),
        (SlotDivision("none"), ""),
    ],
)
def test_a_project_says_how_it_is_divided_and_what_is_still_to_be_moved(view: SlotDivision, said: str) -> None:
    assert of_division(view) == said
