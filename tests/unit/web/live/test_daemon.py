"""Figures of the daemon in the last minutes."""

from __future__ import annotations

from math import inf

from taskqueue.protocol.daemon import DaemonReply, Histogram
from taskqueue.web.live.daemon import FORGOTTEN_SECONDS, SAMPLES_MOST, DaemonSamples, Pace


def reply(turns: int, commits: list[int], tasks: float = 0.0, epoch: int = 1) -> DaemonReply:
    histograms = {
        "commit_seconds": Histogram([0.001, 0.01], commits, 0.0),
        "turn_tasks": Histogram([1.0, 8.0], [turns, 0, 0], tasks),
    }
    return DaemonReply(n=1, epoch=epoch, shell={"turns": float(turns)}, histograms=histograms)


def test_a_pace_is_of_what_came_between_two_samples() -> None:
    samples = DaemonSamples()
    samples.take(0, reply(100, [50, 0, 0], 100))
    samples.take(2, reply(110, [50, 10, 0], 130))
    samples.take(4, reply(110, [50, 10, 1], 130))

    first, second = samples.paces()
    assert (first.turns, first.tasks) == (5.0, 3.0)
    assert 0.001 < first.commit_half < first.commit_most <= 0.01
    assert second == Pace(0.0, 0.0, inf, inf)
    came = samples.histogram("commit_seconds")
    assert came is not None
    assert came.counts == [0, 10, 1]


def test_samples_that_follow_each_other_too_soon_are_left_out() -> None:
    samples = DaemonSamples()
    for at in (0, 0.5, 1.0, 1.5, 2.0):
        samples.take(at, reply(int(at * 10), [0, 0, 0]))

    assert samples.seconds == 2.0
    assert [pace.turns for pace in samples.paces()] == [10.0]


def test_after_a_restart_and_when_nobody_looked_it_begins_anew() -> None:
    samples = DaemonSamples()
    samples.take(0, reply(100, [0, 0, 0]))
    samples.take(1, reply(3, [0, 0, 0], epoch=2))
    assert (samples.seconds, samples.paces()) == (0.0, [])

    samples.take(2 + FORGOTTEN_SECONDS, reply(500, [0, 0, 0], epoch=2))
    assert samples.paces() == []
    assert samples.histogram("commit_seconds") is DaemonSamples().histogram("commit_seconds") is None


def test_no_more_than_ten_minutes_are_kept() -> None:
    samples = DaemonSamples()
    for number in range(2 * SAMPLES_MOST):
        samples.take(number * 2, reply(number, [0, 0, 0]))

    assert len(samples.paces()) == SAMPLES_MOST - 1
