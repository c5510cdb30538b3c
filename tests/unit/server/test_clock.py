"""The daemon's time: wall time that waits for a small step back, boot time that never steps."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from taskqueue.server.clock import Clock, boot_id, boot_seconds

NOON = "2030-01-01 12:00:00"
NOON_SECONDS = 1893499200.0


def test_wall_time_is_unix_time() -> None:
    with freeze_time(NOON):
        assert Clock().now().wall == NOON_SECONDS


def test_wall_time_goes_on_with_the_clock() -> None:
    with freeze_time(NOON) as frozen:
        clock = Clock()

        frozen.tick(timedelta(seconds=90))

        assert clock.now().wall == NOON_SECONDS + 90


def test_after_a_small_step_back_wall_time_waits_until_the_clock_has_caught_up() -> None:
    with freeze_time(NOON) as frozen:
        clock = Clock()
        clock.now()

        frozen.tick(timedelta(seconds=-60))
        stepped = clock.now().wall
        frozen.tick(timedelta(seconds=59))
        waiting = clock.now().wall
        frozen.tick(timedelta(seconds=3))

        assert (stepped, waiting, clock.now().wall) == (NOON_SECONDS, NOON_SECONDS, NOON_SECONDS + 2)


def test_a_large_step_back_is_followed_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    with freeze_time(NOON) as frozen, caplog.at_level(logging.WARNING, "taskqueue"):
        clock = Clock()
        clock.now()

        frozen.tick(timedelta(seconds=-61))

        assert clock.now().wall == NOON_SECONDS - 61
        assert "clock-stepped-back seconds=61.0" in caplog.text


def test_a_step_of_the_wall_clock_does_not_move_boot_time() -> None:
    with freeze_time(NOON) as frozen:
        clock = Clock()
        before = clock.now().boot

        frozen.tick(timedelta(days=-1))

        assert before <= clock.now().boot < before + 3600


def test_boot_time_never_goes_back() -> None:
    times = [boot_seconds() for _ in range(1000)]

    assert times == sorted(times)


def test_boot_time_counts_what_the_machine_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {time.CLOCK_BOOTTIME: 5000.0, time.CLOCK_MONOTONIC: 1000.0}
    monkeypatch.setattr(time, "clock_gettime", shown.__getitem__)

    assert boot_seconds() == 5000.0


def test_a_step_of_the_wall_clock_does_not_move_the_uptime() -> None:
    with freeze_time(NOON) as frozen:
        clock = Clock()

        frozen.tick(timedelta(days=1))

        assert 0 <= clock.uptime() < 3600


def test_the_boot_has_a_name_that_stays() -> None:
    assert boot_id() == boot_id() != ""


def test_where_the_boot_is_unknown_each_process_is_one_of_its_own_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    absent, unreadable = tmp_path / "absent", tmp_path

    with caplog.at_level(logging.WARNING, "taskqueue"):
        mine = boot_id(absent)
        again = boot_id(absent)
        other = boot_id(unreadable)

    assert mine == again != other
    assert caplog.text.count("boot-unknown") == 2
    assert f"boot-unknown file={absent} error=No such file or directory; an unclean stop counts as" in caplog.text
