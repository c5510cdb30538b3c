"""Times as they are written and shown on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf

import click
import pytest
from freezegun import freeze_time

from taskqueue.cli.input.times import clock, future, future_or_never, local, moment, past, seconds

NOON = 1_700_042_400.0
"""Wednesday 2023-11-15, 11:00 in Berlin."""


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Time zone of a machine in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def frozen() -> Iterator[None]:
    """Clock that stands at NOON."""
    with freeze_time(datetime.fromtimestamp(NOON, UTC), tz_offset=1):
        yield


@pytest.mark.parametrize(
    ("written", "meant"),
    [("90s", 90), ("5m", 300), ("12h", 43_200), ("2d", 172_800), ("30", 30), ("1.5h", 5400), ("0", 0)],
)
def test_a_duration_is_written_as_in_the_config(written: str, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize("written", ["", "m", "5w", "-5m", "5 m", "1h30m", "inf", "nan", "٣m"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration"):
        seconds(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1700000000", 1_700_000_000),
        ("1700000000.5", 1_700_000_000.5),
        ("2023-11-14T22:13:20+00:00", 1_700_000_000),
        ("2023-11-14 23:13:20", 1_700_000_000),
        ("2023-11-15", 1_700_002_800),
        ("2023-11-14 22:13:20 UTC", 1_700_000_000),
        ("2023-11-14 23:13:20 CET", 1_700_000_000),
        ("2023-10-29 02:30:00 CEST", 1_698_539_400),
        ("2023-10-29 02:30:00 CET", 1_698_543_000),
        ("2023-11-14 19:13:20 -03", 1_700_000_000),
    ],
)
def test_a_moment_is_unix_seconds_or_a_date_in_the_zone_of_the_machine_or_one_that_is_named(
    written: str, meant: float
) -> None:
    assert moment(written) == past(written) == meant


@pytest.mark.parametrize("at", [1_690_000_020, 1_698_539_400, 1_698_543_000, 1_700_000_000])
def test_what_tables_print_is_read_as_the_same_time(at: float) -> None:
    assert past(local(at)) == moment(local(at)) == at


@pytest.mark.usefixtures("frozen")
def test_what_the_history_prints_is_read_as_the_last_such_time() -> None:
    for hours in (0, 1, 20, 167):
        at = NOON - 3600 * hours
        assert past(clock(at)) == at


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("written", "last", "following"),
    [
        ("10:59", NOON - 60, NOON + 86_340),
        ("18:00", NOON - 17 * 3600, NOON + 7 * 3600),
        ("11:00", NOON, NOON + 86_400),
        ("9:30:15", NOON - 5385, NOON + 81_015),
        ("tue 11:00", NOON - 86_400, NOON + 6 * 86_400),
        ("now", NOON, NOON),
        ("yesterday", NOON - 35 * 3600, NOON - 35 * 3600),
    ],
)
def test_a_time_of_day_is_the_last_one_in_the_past_and_the_next_one_elsewhere(
    written: str, last: float, following: float
) -> None:
    assert (past(written), moment(written), future(written)) == (last, following, following)


@pytest.mark.usefixtures("frozen")
def test_a_duration_is_that_long_ago_or_from_now() -> None:
    assert (past("2h"), future("2h"), past("90"), future("90")) == (NOON - 7200, NOON + 7200, NOON - 90, NOON + 90)
    assert (past("1700000000"), future("1700000000")) == (1_700_000_000, 1_700_000_000)
    assert (future_or_never("2h"), future_or_never("inf")) == (NOON + 7200, inf)


@pytest.mark.parametrize(
    "written",
    ["", "soon", "24:00", "12:60", "inf", "²", "-5", "2023-13-01", "2023-11-14 12:00 EST", "noon UTC", "Foo 12:00"],
)
def test_what_is_no_moment_is_refused(written: str) -> None:
    for read in (moment, past, future):
        with pytest.raises(click.BadParameter, match="is no time"):
            read(written)


def test_moments_are_shown_in_the_zone_of_the_machine() -> None:
    assert local(1_700_000_000) == "2023-11-14 23:13:20 CET"
    assert local(1_690_000_020) == "2023-07-22 06:27:00 CEST"
    assert local(0) == ""
