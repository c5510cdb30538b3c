"""Settings in layers, and what can't be one; and the keys of the orders."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.settings import Settings, as_layer, merge
from taskqueue.core.task import KEY_BYTES, NO_FLOOR, key_time, ready_key, time_key
from taskqueue.errors import Rejected


def test_later_layers_win_over_earlier_ones() -> None:
    settings = merge({"rate": 1, "burst": 2}, {"rate": 3}, {"retries": 0})

    assert (settings.rate, settings.burst, settings.retries, settings.processing_timeout) == (3, 2, 0, 600)


def test_no_layers_are_the_defaults() -> None:
    assert merge() == Settings()
    assert merge(as_layer(merge({"burst": 9}))) == Settings(burst=9)
    assert as_layer(Settings())["retry_delay"] == [30.0, 3600.0, 21600.0, 43200.0, 86400.0]


def test_unlimited_is_said_with_inf() -> None:
    assert merge({"rate": inf, "burst": inf, "max_queue": inf}).rate == inf


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rate", -0.1),
        ("rate", "fast"),
        ("rate", float("nan")),
        ("burst", 0),
        ("burst", float("nan")),
        ("processing_timeout", 0),
        ("processing_timeout", inf),
        ("retries", -1),
        ("retries", 1.5),
        ("retry_delay", []),
        ("retry_delay", [-1]),
        ("retry_delay", [inf]),
        ("retry_delay", [float("nan")]),
        ("retry_delay", 30),
        ("max_queue", 0),
        ("max_queue", float("nan")),
        ("max_que", 5),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(Rejected, match=f"^setting: {key}: ") as refused:
        merge({"retries": 3}, {key: value})

    assert refused.value.code == "setting"


def test_keys_of_ready_tasks_sort_by_priority_then_age() -> None:
    top, bottom = 2**31 - 1, -(2**31)
    keys = [ready_key(top, 0), ready_key(top, 9), ready_key(1, 2), ready_key(0, 1), ready_key(bottom, 2**64 - 1)]

    assert keys == sorted(keys)
    assert len({key.to_bytes(KEY_BYTES, "big") for key in keys}) == len(keys)
    assert max(keys) < NO_FLOOR


@pytest.mark.parametrize("at", [0.0, 0.000001, 1_700_000_000.123456, 1e11 + 1e9])
def test_keys_of_times_tell_the_time_to_a_microsecond_and_never_an_earlier_one(at: float) -> None:
    key = time_key(at, 2**64 - 1)

    assert at <= key_time(key) <= at + 2e-6 + at * 2**-52
    assert key < NO_FLOOR
