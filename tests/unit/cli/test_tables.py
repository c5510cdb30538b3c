"""What people and programs are shown."""

from __future__ import annotations

import json

import pytest

from taskqueue.cli.tables import as_plain, duration
from taskqueue.core.replies import Counts


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 m 0 s"),
        (119, "1 m 59 s"),
        (3600, "1 h 0 m"),
        (93_784, "1 d 2 h"),
        (864_000, "10 d 0 h"),
    ],
)
def test_a_duration_is_told_in_two_units_at_most(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_programs_get_every_field_even_the_zeros_in_order() -> None:
    assert list(as_plain(Counts(failed=2)).items()) == [
        ("ready", 0),
        ("delayed", 0),
        ("processing", 0),
        ("success", 0),
        ("failed", 2),
        ("cancelled", 0),
    ]


def test_what_json_can_not_hold_is_text() -> None:
    assert json.dumps(as_plain({"rate": float("inf"), "delays": (1.0, 2)}), allow_nan=False) == (
        '{"rate": "inf", "delays": [1.0, 2]}'
    )
