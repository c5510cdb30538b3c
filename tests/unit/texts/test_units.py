"""Durations and sizes: how users write them, and how they are shown."""

from __future__ import annotations

import pytest

from taskqueue.texts.units import duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("5m", 300), ("12h", 43_200), ("2d", 172_800), ("30", 30), ("0.5h", 1800), ("0", 0)],
)
def test_a_duration_has_a_unit_or_is_one_of_seconds(written: str, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("written", ["", "m", "5w", "-5m", "5 m", "1h30m", "inf", "nan", "٣m", "5M"])
def test_what_is_no_duration_has_no_seconds(written: str) -> None:
    assert parse_duration(written) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"), (0, "0 s"), (0.04, "0 s"), (0.4, "0.4 s"), (9.94, "9.9 s"), (9.97, "10 s"), (34.2, "34 s"),
        (59.6, "1 min"), (250, "4 min 10 s"), (3599.7, "1 h"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h"),
        (3_155_760_000, "36525 d"), (1e300, "over 100 years"), (float("inf"), "over 100 years"),
    ],
)  # fmt: skip
def test_a_duration_is_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("0 B", 0), ("8 MiB", 8 << 20), ("512KiB", 512 << 10), ("1 GiB", 1 << 30), ("2TiB", 2 << 40),
        ("512M", 512 << 20), ("64 K", 64 << 10), ("2G", 2 << 30), ("1T", 1 << 40),
    ],
)  # fmt: skip
def test_a_size_is_a_whole_number_with_a_unit(written: str, count: int) -> None:
    assert parse_size(written) == count


@pytest.mark.parametrize("written", ["", "8", "MiB", "1.5 GiB", "8 MB", "8  MiB", "-1 B", "8 mib", "8m", "8 iB", "٣ B"])
def test_what_is_no_size_has_no_bytes(written: str) -> None:
    assert parse_size(written) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1_500_000, "1.4 MiB"), ((1 << 20) + 1, "1.0 MiB"),
        (5 << 30, "5 GiB"), (9 << 40, "9 TiB"), (1 << 50, "1,024 TiB"),
    ],
)  # fmt: skip
def test_a_size_is_told_in_the_largest_unit_of_which_there_is_one(count: int, text: str) -> None:
    assert size_text(count) == text
