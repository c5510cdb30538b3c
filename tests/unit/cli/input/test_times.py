"""Times as they are written and shown on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import pytest

from taskqueue.cli.input.times import local, moment, seconds


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("written", "meant"),
    [("90s", 90), ("5m", 300), ("12h", 43_200), ("2d", 172_800), ("30", 30), ("0.5h", 1800), ("0", 0)],
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
    ],
)
def test_a_moment_is_unix_seconds_or_a_date_in_the_zone_of_the_machine(written: str, meant: float) -> None:
    assert moment(written) == meant


@pytest.mark.parametrize("written", ["", "soon", "12:00", "inf", "²", "-5", "2023-13-01"])
def test_what_is_no_moment_is_refused(written: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        moment(written)


def test_moments_are_shown_in_the_zone_of_the_machine() -> None:
    assert local(1_700_000_000) == "2023-11-14 23:13:20 CET"
    assert local(1_690_000_020) == "2023-07-22 06:27:00 CEST"
    assert local(0) == ""
