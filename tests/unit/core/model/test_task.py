"""Small functions of tasks."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskqueue.core.model.task import LIVE, OVER, PROCESSING, STATE_NAMES, STATES, WAITING, key_time, time_key
from taskqueue.protocol.choices import TaskState
from taskqueue.protocol.values import TaskCounts


@example(1840956982.6860461)
@given(st.floats(0, 7e9))
def test_a_place_by_time_is_never_early_and_at_most_two_microseconds_late(at: float) -> None:
    assert at <= key_time(time_key(at, 1)) < at + 2e-6


@given(st.integers(0, 7_000_000_000_000_000))
def test_a_time_of_whole_microseconds_is_kept_as_it_is(micros: int) -> None:
    assert key_time(time_key(micros / 1e6, 1)) == micros / 1e6


def test_each_state_is_live_or_over_and_who_is_live_waits_or_is_processing() -> None:
    assert sorted([*LIVE, *OVER]) == list(STATES)
    assert sorted([*WAITING, PROCESSING]) == sorted(LIVE)


@pytest.mark.parametrize("names", [TaskCounts.__struct_fields__, get_args(TaskState)])
def test_what_is_kept_shown_and_asked_for_by_state_has_the_names_of_the_states(names: tuple[str, ...]) -> None:
    assert sorted(names) == sorted(STATE_NAMES[1:])
