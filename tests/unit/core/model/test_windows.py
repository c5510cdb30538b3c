"""Windows of a project, with plain numbers for time, beside a list of all events."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskqueue.core.model.history import CountersRecord
from taskqueue.core.model.windows import Counters
from taskqueue.core.requests.insight import windows_of
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.insight import Window, Windows
from taskqueue.protocol.values import EventTotals

NOW: Final = Wall(1_700_000_005.0)
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0
KINDS: Final = EventTotals.__struct_fields__
RINGS: Final = {"minutes": (30, 1), "hour": (30, 12), "day": (24, 360)}
"""Periods of each window, and their lengths in tens of seconds."""


def note(counters: Counters, totals: EventTotals, at: float, **gained: int) -> None:
    """Take a turn at ``at`` in which these events happen."""
    for kind, count in gained.items():
        setattr(totals, kind, getattr(totals, kind) + count)
    counters.note(msgspec.structs.astuple(totals), Wall(at))


def sums(window: Window) -> dict[str, int]:
    return {kind: getattr(window, kind) for kind in KINDS}


def by_kind(windows: Windows, kind: str) -> list[int]:
    return [getattr(window, kind) for window in (windows.minutes, windows.hour, windows.day)]


def stored(record: CountersRecord) -> CountersRecord:
    """Encode and decode the record, as the store does."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=CountersRecord)


def started_again(counters: Counters, totals: EventTotals, at: float) -> Counters:
    return Counters.load(stored(counters.saved()), totals, Wall(at))


# ------------------------------------------------------------------------------------------------ windows


def test_an_event_is_in_all_three_windows_at_once() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=3, selected=2, success=1, failed=4, retried=5, timeout=6)

    expected = {"new": 3, "selected": 2, "success": 1, "failed": 4, "retried": 5, "timeout": 6}
    view = windows_of(counters, NOW)
    assert [sums(window) for window in (view.minutes, view.hour, view.day)] == [expected] * 3


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (4 * MINUTE, [1, 1, 1]),
        (6 * MINUTE, [0, 1, 1]),
        (57 * MINUTE, [0, 1, 1]),
        (61 * MINUTE, [0, 0, 1]),
        (22.9 * HOUR, [0, 0, 1]),
        (25 * HOUR, [0, 0, 0]),
        (365 * DAY, [0, 0, 0]),
    ],
)
def test_an_event_leaves_each_window_when_it_is_too_old(later: float, expected: list[int]) -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=1)

    assert by_kind(windows_of(counters, NOW + later), "new") == expected
    note(counters, totals, NOW + later, success=1)
    assert by_kind(windows_of(counters, NOW + later), "new") == expected


def test_a_window_becomes_empty_with_the_period_after_its_last() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(100):
        note(counters, totals, NOW + 10 * turn, new=1)
    ends = [NOW + 990 + later for later in (0, 280, 290, 300, 310)]

    assert [windows_of(counters, end).minutes.new for end in ends] == [30, 2, 1, 0, 0]


def test_what_was_counted_before_the_project_was_loaded_is_in_no_window() -> None:
    totals = EventTotals(new=1000)
    counters = Counters(totals)

    note(counters, totals, NOW, new=1)

    assert by_kind(windows_of(counters, NOW), "new") == [1, 1, 1]


def test_an_attempt_long_after_the_last_event_counts_now() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, success=1)

    counters.took(2.0, NOW + 2 * HOUR)
    note(counters, totals, NOW + 2 * HOUR, success=1)

    view = windows_of(counters, NOW + 2 * HOUR)
    assert (by_kind(view, "success"), view.minutes.mean_seconds) == ([1, 1, 2], 2.0)


def test_totals_may_grow_beyond_what_a_window_holds() -> None:
    totals = EventTotals(new=2**32 - 2, success=2**40)
    counters = Counters(totals)
    note(counters, totals, NOW, new=1, success=1)
    note(counters, totals, NOW + 20, new=5, success=1)

    assert by_kind(windows_of(counters, NOW + 20), "new") == [6, 6, 6]
    counters = started_again(counters, totals, NOW + 30)
    assert by_kind(windows_of(counters, NOW + 30), "new") == [6, 6, 6]
    assert by_kind(windows_of(counters, NOW + 30), "success") == [2, 2, 2]


@given(
    st.lists(st.tuples(st.floats(0, 1500), st.sampled_from(KINDS), st.integers(1, 5)), max_size=60), st.floats(0, 1e5)
)
def test_a_window_has_all_that_is_newer_than_its_periods_but_one_and_nothing_older_than_all(
    turns: list[tuple[float, str, int]], rest: float
) -> None:
    counters, totals, at = Counters(EventTotals()), EventTotals(), NOW
    happened: list[tuple[float, str, int]] = []
    for pause, kind, count in turns:
        at += pause
        note(counters, totals, at, **{kind: count})
        happened.append((at, kind, count))

    at += rest
    view = windows_of(counters, Wall(at))
    for name, (periods, ticks) in RINGS.items():
        length = periods * ticks * 10
        for kind in KINDS:
            least = sum(n for when, what, n in happened if what == kind and at - when < length - ticks * 10)
            most = sum(n for when, what, n in happened if what == kind and at - when <= length)
            assert least <= getattr(getattr(view, name), kind) <= most, (name, kind)


# ------------------------------------------------------------------------------------------------ clock steps


@dataclass
class Naive:
    """List of all events, each with the number of its ten seconds, which never decreases, whatever the clock does."""

    seen: int = int(NOW // 10)
    period: int = int(NOW // 10)
    events: list[tuple[int, str, int]] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    def period_at(self, at: float) -> int:
        return self.period + max(0, int(at // 10) - self.seen)

    def note(self, at: float, kind: str, count: int) -> None:
        self.period, self.seen = self.period_at(at), int(at // 10)
        self.events.append((self.period, kind, count))

    def sums(self, name: str, at: float) -> dict[str, int]:
        periods, ticks = RINGS[name]
        first = (self.period_at(at) // ticks - periods + 1) * ticks
        found = dict.fromkeys(KINDS, 0)
        for period, kind, count in self.events:
            found[kind] += count if period >= first else 0
        return found


STEPS = st.one_of(st.just(0.0), st.floats(0, 60), st.floats(0, 20_000), st.floats(-20_000, 0), st.just(400 * DAY))
TURNS = st.tuples(STEPS, st.sampled_from(KINDS), st.integers(1, 1000), st.sampled_from(["", "", "read", "start"]))


def shows(counters: Counters, naive: Naive, at: float) -> bool:
    view = windows_of(counters, Wall(at))
    failing = naive.sums("minutes", at)
    return (
        all(sums(getattr(view, name)) == naive.sums(name, at) for name in RINGS)
        and counters.failing(Wall(at)) == failing["failed"] + failing["retried"]
    )


@given(st.lists(TURNS, max_size=80))
@example([(-86.0, "new", 1, ""), (400 * DAY, "new", 1, "start"), (3381.0, "new", 1, "")])
def test_it_counts_as_a_list_of_all_events_does_whatever_the_clock_does(
    turns: list[tuple[float, str, int, str]],
) -> None:
    counters, totals, naive, at = Counters(EventTotals()), EventTotals(), Naive(), NOW
    note(counters, totals, at, new=1)
    naive.note(at, "new", 1)
    for step, kind, count, between in turns:
        at += step
        if between == "read":
            windows_of(counters, Wall(at + 7200))
        elif between == "start":
            counters = started_again(counters, totals, at)
            assert shows(counters, naive, at + 100)
        note(counters, totals, at, **{kind: count})
        naive.note(at, kind, count)

        assert shows(counters, naive, at + 100)


def test_after_a_step_back_of_the_clock_what_was_counted_grows_older_from_there() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=1)

    note(counters, totals, NOW - DAY, new=1)
    assert by_kind(windows_of(counters, NOW - DAY), "new") == [2, 2, 2]
    note(counters, totals, NOW - DAY + 6 * MINUTE, success=1)
    assert by_kind(windows_of(counters, NOW - DAY + 6 * MINUTE), "new") == [0, 2, 2]


def test_a_reader_whose_clock_is_behind_sees_what_there_was_at_last() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(200):
        note(counters, totals, NOW + 10 * turn, new=1)
    at = NOW + 1990

    assert windows_of(counters, Wall(at - 70)) == windows_of(counters, at - DAY) == windows_of(counters, at)
    assert counters.failing(Wall(at - 70)) == counters.failing(at)


def test_reading_changes_nothing_and_gives_the_same_twice() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(100):
        note(counters, totals, NOW + 7 * turn, success=1)
        counters.took(1.5, NOW + 7 * turn)
    at = NOW + 700
    before, saved = windows_of(counters, Wall(at)), counters.saved()

    for other in (at, at + DAY, at - DAY, at + 365 * DAY):
        windows_of(counters, Wall(other))
        counters.failing(Wall(other))
        counters.saved()

    assert windows_of(counters, Wall(at)) == before
    assert counters.saved() == saved


# ------------------------------------------------------------------------------------------------ seconds


def test_the_mean_is_that_of_the_attempts_in_the_window() -> None:
    counters = Counters(EventTotals())
    for seconds in (1.0, 2.0, 6.0):
        counters.took(seconds, NOW)
    counters.took(11.0, NOW + 10 * MINUTE)

    view = windows_of(counters, NOW + 10 * MINUTE)
    assert (view.minutes.mean_seconds, view.hour.mean_seconds, view.day.mean_seconds) == (11.0, 5.0, 5.0)
    assert windows_of(counters, NOW + 2 * DAY) == Windows()


@given(st.lists(st.one_of(st.floats(0.001, 1.0), st.floats(0.001, 4000.0)), min_size=1, max_size=200))
def test_the_95th_percentile_is_wrong_by_less_than_a_factor_of_two(seconds: list[float]) -> None:
    counters = Counters(EventTotals())
    for one in seconds:
        counters.took(one, NOW)

    exact = sorted(round(one, 3) for one in seconds)[ceil(len(seconds) * 0.95) - 1]
    view = windows_of(counters, NOW)
    for window in (view.minutes, view.hour, view.day):
        assert exact / 2.01 < window.p95_seconds < exact * 2.01
        assert window.mean_seconds == pytest.approx(sum(seconds) / len(seconds), abs=0.001)


@given(st.lists(st.one_of(st.integers(16, 2000), st.integers(16, 2_900_000)), min_size=1, max_size=200))
def test_from_16_milliseconds_on_the_95th_percentile_is_within_18_percent(milliseconds: list[int]) -> None:
    counters = Counters(EventTotals())
    for one in milliseconds:
        counters.took(one / 1000, NOW)

    exact = sorted(milliseconds)[ceil(len(milliseconds) * 0.95) - 1] / 1000
    assert windows_of(counters, NOW).minutes.p95_seconds == pytest.approx(exact, rel=0.18)


@given(st.integers(0, 2_900_000), st.integers(1, 50))
def test_the_95th_percentile_of_equal_attempts_is_not_below_their_mean(milliseconds: int, attempts: int) -> None:
    counters = Counters(EventTotals())
    for _ in range(attempts):
        counters.took(milliseconds / 1000, NOW)

    window = windows_of(counters, NOW).minutes
    assert window.p95_seconds >= window.mean_seconds
    assert attempts > 1 or window.p95_seconds == window.mean_seconds == milliseconds / 1000


@pytest.mark.parametrize("seconds", [9000.0, 3600.0 * 24, 1e9])
def test_attempts_of_a_day_are_shown_as_of_an_hour_or_two_and_their_mean_is_right(seconds: float) -> None:
    counters = Counters(EventTotals())
    counters.took(seconds, NOW)

    window = windows_of(counters, NOW).minutes
    assert window.mean_seconds == seconds
    assert 4190 < window.p95_seconds < 8390


@pytest.mark.parametrize("seconds", [0.0, -5.0, 1e-9])
def test_attempts_without_a_duration_count_as_none(seconds: float) -> None:
    counters = Counters(EventTotals())
    counters.took(seconds, NOW)
    counters.took(1.0, NOW)

    assert windows_of(counters, NOW).minutes.mean_seconds == 0.5


# ------------------------------------------------------------------------------------------------ failing


def test_failing_counts_an_attempt_that_timed_out_once() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    assert counters.failing(NOW) == 0

    note(counters, totals, NOW, timeout=1, retried=1)
    note(counters, totals, NOW, timeout=1, failed=1)
    note(counters, totals, NOW + 30, retried=1, success=5, new=9)

    assert counters.failing(NOW + 30) == 3
    assert counters.failing(NOW + 5 * MINUTE) == 1
    assert counters.failing(NOW + DAY) == 0


# ------------------------------------------------------------------------------------------------ saved and loaded


def test_windows_survive_a_restart_and_a_reboot() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(2000):
        note(counters, totals, NOW + 61 * turn, selected=1 + turn % 7, failed=turn % 3)
        counters.took(turn / 100, NOW + 61 * turn)
    at = NOW + 61 * 2000

    loaded = started_again(counters, totals, at)

    for later in (0.0, MINUTE, 20 * MINUTE, 5 * HOUR, 23 * HOUR):
        assert windows_of(loaded, Wall(at + later)) == windows_of(counters, at + later)
    assert loaded.saved() == counters.saved()


@pytest.mark.parametrize("later", [0.0, MINUTE, 3 * HOUR, 22.5 * HOUR, 25 * HOUR])
def test_a_restart_however_late_shows_what_no_restart_would_show(later: float) -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(100):
        note(counters, totals, NOW + 11 * turn, selected=3)
        counters.took(0.5, NOW + 11 * turn)
    at = NOW + 1100 + later

    assert windows_of(started_again(counters, totals, at), Wall(at)) == windows_of(counters, at)


def test_after_a_step_back_of_the_clock_and_a_restart_what_was_counted_grows_older_too() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=1)
    note(counters, totals, NOW - DAY, new=1)

    counters = started_again(counters, totals, NOW - DAY + 6 * MINUTE)
    note(counters, totals, NOW - DAY + 6 * MINUTE, success=1)

    assert by_kind(windows_of(counters, NOW - DAY + 6 * MINUTE), "new") == [0, 2, 2]


def test_what_was_counted_after_the_last_save_counts_at_the_start() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=2)
    record = stored(counters.saved())
    note(counters, totals, NOW + 50, new=3, failed=1)

    loaded = Counters.load(record, totals, NOW + 10 * MINUTE)

    assert by_kind(windows_of(loaded, NOW + 10 * MINUTE), "new") == [3, 5, 5]
    assert loaded.failing(NOW + 10 * MINUTE) == 1


def test_what_was_loaded_is_shown_and_saved_again_before_anything_is_counted() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(500):
        note(counters, totals, NOW + 61 * turn, selected=1 + turn % 7, failed=turn % 3)
        counters.took(turn / 100, NOW + 61 * turn)
    at = NOW + 61 * 500

    loaded = started_again(counters, totals, at)

    for later in (*range(0, 400, 10), 40 * MINUTE, 5 * HOUR, 23 * HOUR, 2 * DAY):
        assert windows_of(loaded, at + later) == windows_of(counters, at + later)
        assert loaded.failing(at + later) == counters.failing(at + later)
        assert msgspec.to_builtins(windows_of(loaded, at + later)) == msgspec.to_builtins(
            windows_of(counters, at + later)
        )
    assert loaded.saved() == counters.saved()


def test_the_first_attempt_after_a_restart_joins_those_before() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    counters.took(2.0, NOW)
    note(counters, totals, NOW, success=1)

    counters = started_again(counters, totals, NOW + 20)
    counters.took(4.0, NOW + 20)

    assert windows_of(counters, NOW + 20).minutes.mean_seconds == 3.0


def test_a_project_that_was_never_saved_starts_with_empty_windows() -> None:
    totals = EventTotals(new=5)
    loaded = Counters.load(None, totals, NOW)
    assert windows_of(loaded, NOW) == Windows()

    note(loaded, totals, NOW, new=1)
    assert by_kind(windows_of(loaded, NOW), "new") == [1, 1, 1]


def test_windows_that_were_saved_before_anything_happened_are_empty() -> None:
    loaded = started_again(Counters(EventTotals(new=5)), EventTotals(new=7), NOW)

    assert by_kind(windows_of(loaded, NOW), "new") == [2, 2, 2]


def busy(a_second: int) -> Counters:
    """Fill a bit more than a day with attempts, of which about every tenth fails."""
    counters, totals = Counters(EventTotals()), EventTotals()
    for turn in range(8700):
        count = a_second * 10 + turn % 9
        bad = count // 10
        note(counters, totals, NOW + 10 * turn, new=count, selected=count, success=count - bad, retried=bad)
        for attempt in range(20):
            counters.took(0.05 * (attempt + 1) * (1 + turn % 5), NOW + 10 * turn)
    return counters


def test_the_record_of_a_busy_project_is_small() -> None:
    assert len(msgspec.msgpack.encode(busy(10).saved())) <= 1500


def test_the_record_of_a_project_with_one_event_is_tiny() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=1)

    assert len(msgspec.msgpack.encode(counters.saved())) <= 200
    assert len(msgspec.msgpack.encode(Counters(totals).saved())) <= 40


# ------------------------------------------------------------------------------------------------ memory, messages


def bytes_each(make: Callable[[], Counters]) -> float:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [make() for _ in range(500)]
        return (tracemalloc.get_traced_memory()[0] - before) / len(made)
    finally:
        tracemalloc.stop()


def used() -> Counters:
    counters, totals = Counters(EventTotals()), EventTotals()
    counters.took(1.0, NOW)
    note(counters, totals, NOW, new=1)
    return counters


def test_a_project_without_events_costs_next_to_nothing() -> None:
    record = used().saved()

    assert bytes_each(lambda: Counters(EventTotals())) < 300
    assert bytes_each(lambda: Counters.load(None, EventTotals(new=5), NOW)) < 300
    assert bytes_each(lambda: Counters.load(record, EventTotals(new=1), NOW + 2 * DAY)) < 300


def test_what_was_loaded_takes_no_more_than_its_record_until_something_is_counted() -> None:
    counters = busy(10)
    encoded, totals = msgspec.msgpack.encode(counters.saved()), EventTotals(*counters.saved().totals)
    decode = msgspec.msgpack.Decoder(CountersRecord).decode

    assert bytes_each(lambda: Counters.load(decode(bytes(bytearray(encoded))), totals, NOW)) < 1500 + len(encoded)


def test_ten_thousand_busy_projects_fit_into_sixty_megabytes() -> None:
    assert bytes_each(used) < 6000


def test_a_message_leaves_out_windows_in_which_nothing_happened() -> None:
    counters, totals = Counters(EventTotals()), EventTotals()
    note(counters, totals, NOW, new=1)

    assert msgspec.to_builtins(windows_of(counters, NOW + 10 * MINUTE)) == {"1h": {"new": 1}, "1d": {"new": 1}}
    assert msgspec.to_builtins(windows_of(counters, NOW + 2 * DAY)) == {}
