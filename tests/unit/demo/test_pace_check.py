"""The judgement of the pace: right on what was allowed, right on what was not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.demo.pace_check import Sample, Window, fastest

RATE, BURST = 10.0, 5.0


def look(asked_at: float, handed_out: int) -> Sample:
    return Sample(asked_at, handed_out, RATE, BURST)


def test_a_full_burst_and_then_the_rate_is_within_the_pace() -> None:
    arrivals = [0.01] * 5 + [0.11 + n / RATE for n in range(50)]

    window = fastest([look(0.0, 0), look(1.0, 15), look(2.0, 25)], arrivals)

    assert window is not None
    assert window.is_within


def test_one_task_too_many_is_seen() -> None:
    window = fastest([look(0.0, 0)], [0.0] * 6)

    assert window == Window(0.0, 6, RATE, BURST)
    assert not window.is_within


def test_a_second_burst_without_a_pause_is_seen_wherever_it_is() -> None:
    steady = [n / RATE for n in range(40)]
    samples = [look(n / 2, 5 * n) for n in range(10)]

    window = fastest(samples, [*steady, *[4.02] * 6])

    assert window is not None
    assert not window.is_within


def test_late_arrivals_raise_no_alarm() -> None:
    samples = [look(0.0, 0), look(1.0, 15), look(2.0, 25)]

    window = fastest(samples, [2.5] * 25)

    assert window is not None
    assert window.is_within


def test_what_was_handed_out_before_the_first_look_is_not_counted() -> None:
    assert fastest([look(0.0, 1000)], [0.0]) == Window(0.0, 1, RATE, BURST)


def test_an_unlimited_rate_or_no_arrival_has_no_fastest_window() -> None:
    assert fastest([Sample(0.0, 0, float("inf"), 1.0)], [0.1]) is None
    assert fastest([look(0.0, 0)], []) is None
    assert fastest([], [0.1]) is None


def test_after_a_change_the_highest_rate_counts() -> None:
    window = fastest([look(0.0, 0), Sample(0.5, 5, 100.0, BURST)], [1.0] * 60)

    assert window is not None
    assert window.is_within


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 5)), min_size=1, max_size=15),
    st.lists(st.floats(0, 10), min_size=1, max_size=30),
)
def test_the_one_pass_finds_what_trying_all_windows_finds(steps: list[tuple[float, int]], ends: list[float]) -> None:
    handed_out, samples = 0, []
    for at, more in sorted(steps):
        handed_out += more
        samples.append(look(at, handed_out))
    samples[0] = look(0.0, samples[0].handed_out)
    arrivals = sorted(ends)

    window = fastest(samples, arrivals)

    tried = [
        samples[0].handed_out + arrived - start.handed_out - RATE * (at - start.asked_at) - BURST
        for start in samples
        for arrived, at in enumerate(arrivals, 1)
        if start is samples[0] or start.asked_at < at
    ]
    assert window is not None
    assert abs(window.tasks - window.allowed - max(tried)) < 1e-9
