"""Cron expressions, active hours and time zones, as users rely on them, also when clocks change.

In 2026 clocks are put forward on 29 March (Berlin, 02:00) and 8 March (New York, 02:00), and back on 25 October
(Berlin, 03:00) and 1 November (New York, 02:00). Times are written with their offset, so that none is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskqueue.calendar import Calendar
from taskqueue.errors import Rejected
from taskqueue.settings.environment import Environment, Hours

CALENDAR: Environment = Calendar()

BERLIN = "Europe/Berlin"
EVERY = '`every` takes any duration, such as "90m"'
NEW_YORK = "America/New_York"

CHANGES = [
    "2026-03-08T07:00Z",  # New York, St. John's some hours before
    "2026-03-29T01:00Z",  # Berlin
    "2026-04-04T15:00Z",  # Lord Howe, by half an hour
    "2026-04-23T22:00Z",  # Cairo, at midnight
    "2026-10-25T01:00Z",  # Berlin
    "2026-11-01T06:00Z",  # New York
]
"""Moments at which clocks somewhere change."""


def unix(text: str) -> float:
    """Parse ``2026-03-29T01:00+01:00`` into unix seconds."""
    return datetime.fromisoformat(text).timestamp()


def shown(at: float, zone: str) -> str:
    """Format a time in its zone."""
    return datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat(timespec="minutes")


def ticks(expression: str, zone: str, after: str, count: int) -> list[str]:
    """Return the next ticks, each found from the one before, as the daemon does."""
    at = unix(after)
    found = []
    for _ in range(count):
        at = CALENDAR.next_tick(expression, zone, at)
        found.append(shown(at, zone))
    return found


def reason(text: str) -> str:
    """Return the error for these active hours."""
    with pytest.raises(Rejected) as refusal:
        CALENDAR.hours(text, 0.0)
    assert refusal.value.code == "setting"
    return refusal.value.reason


def refused(expression: str, zone: str = "UTC") -> str:
    """Return the error for this cron expression and zone."""
    with pytest.raises(Rejected) as refusal:
        CALENDAR.next_tick(expression, zone, 0.0)
    assert refusal.value.code == "setting"
    return refusal.value.reason


class TestNextRun:
    """Cron expression and time to the next time."""

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            pytest.param("*/15 * * * *", "2026-06-10T12:15+02:00", id="every quarter of an hour"),
            pytest.param("0 3 * * *", "2026-06-11T03:00+02:00", id="every night"),
            pytest.param("30 8 * * mon-fri", "2026-06-11T08:30+02:00", id="on weekdays, by name"),
            pytest.param("0 0 1 jan *", "2027-01-01T00:00+01:00", id="every year, by the month's name"),
            pytest.param("0 0 L * *", "2026-06-30T00:00+02:00", id="on the last day of the month"),
            pytest.param("0 0 * * 1#1", "2026-07-06T00:00+02:00", id="on the first monday of the month"),
            pytest.param("0 0 13 * 5", "2026-06-12T00:00+02:00", id="on a 13th or a friday"),
            pytest.param("@hourly", "2026-06-10T13:00+02:00", id="every hour, by a word"),
            pytest.param("@weekly", "2026-06-14T00:00+02:00", id="every sunday, by a word"),
            pytest.param("0 0 29 2 *", "2028-02-29T00:00+01:00", id="in leap years"),
        ],
    )
    def test_an_expression_means_the_next_such_time_in_its_zone(self, expression: str, expected: str) -> None:
        assert ticks(expression, BERLIN, "2026-06-10T12:00+02:00", 1) == [expected]

    def test_a_sixth_field_in_front_means_seconds(self) -> None:
        assert CALENDAR.next_tick("*/10 * * * * *", "UTC", 1000.0) == 1010.0
        assert CALENDAR.next_tick("5 0 0 1 1 *", "UTC", 1000.0) == unix("1971-01-01T00:00:05Z")

    @pytest.mark.parametrize(
        ("after", "expected"),
        [
            pytest.param(nextafter(6000.0, 0), 6000.0, id="a moment before"),
            pytest.param(6000.0, 6060.0, id="exactly then"),
            pytest.param(6000.5, 6060.0, id="half a second later"),
        ],
    )
    def test_a_run_is_strictly_later_and_never_left_out(self, after: float, expected: float) -> None:
        assert CALENDAR.next_tick("* * * * *", "UTC", after) == expected

    @pytest.mark.parametrize(
        ("zone", "after", "expected"),
        [
            pytest.param(
                BERLIN,
                "2026-03-27T12:00+01:00",
                ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
                id="Berlin",
            ),
            pytest.param(
                NEW_YORK,
                "2026-03-06T12:00-05:00",
                ["2026-03-07T02:30-05:00", "2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
                id="New York",
            ),
        ],
    )
    def test_a_time_of_day_that_is_skipped_in_spring_is_made_up_for_right_after(
        self, zone: str, after: str, expected: list[str]
    ) -> None:
        assert ticks("30 2 * * *", zone, after, 3) == expected

    def test_several_times_of_day_that_are_skipped_run_once(self) -> None:
        assert ticks("0,20,40 2 * * *", BERLIN, "2026-03-28T02:40+01:00", 2) == [
            "2026-03-29T03:00+02:00",
            "2026-03-30T02:00+02:00",
        ]

    @pytest.mark.parametrize(
        ("zone", "expression", "after", "expected"),
        [
            pytest.param(
                BERLIN,
                "30 2 * * *",
                "2026-10-24T12:00+02:00",
                ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
                id="Berlin",
            ),
            pytest.param(
                NEW_YORK,
                "30 1 * * *",
                "2026-10-31T12:00-04:00",
                ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
                id="New York",
            ),
        ],
    )
    def test_a_time_of_day_that_comes_twice_in_autumn_runs_the_first_time(
        self, zone: str, expression: str, after: str, expected: list[str]
    ) -> None:
        assert ticks(expression, zone, after, 2) == expected

    @pytest.mark.parametrize("after", ["2026-10-25T02:45+02:00", "2026-10-25T02:10+01:00", "2026-10-25T02:30+01:00"])
    def test_a_daemon_that_starts_in_the_repeated_hour_does_not_run_the_entry_again(self, after: str) -> None:
        assert ticks("30 2 * * *", BERLIN, after, 1) == ["2026-10-26T02:30+01:00"]

    @pytest.mark.parametrize("change", ["2026-03-29T01:00Z", "2026-10-25T01:00Z"])
    @pytest.mark.parametrize(
        ("expression", "seconds"),
        [("* * * * *", 60), ("*/20 * * * *", 1200), ("0 * * * *", 3600), ("0 0 * * * *", 3600)],
    )
    def test_what_runs_every_so_often_does_so_while_clocks_change(
        self, expression: str, seconds: int, change: str
    ) -> None:
        at = start = unix(change) - 7200
        for step in range(1, 4 * 3600 // seconds):
            at = CALENDAR.next_tick(expression, BERLIN, at)
            assert at == start + step * seconds

    def test_an_expression_with_seconds_is_neither_made_up_for_nor_held_back(self) -> None:
        assert ticks("0 30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", 1) == ["2026-03-30T02:30+02:00"]
        assert ticks("0 30 2 * * *", BERLIN, "2026-10-25T00:00+02:00", 2) == [
            "2026-10-25T02:30+02:00",
            "2026-10-25T02:30+01:00",
        ]

    def test_a_day_that_never_comes_means_never(self) -> None:
        """The fifth monday of a month is not its first day; the star asks for both."""
        assert CALENDAR.next_tick("0 0 */31 * MON#5", "UTC", 0.0) == inf

    def test_no_run_is_looked_for_farther_than_the_next_leap_year(self) -> None:
        """2100 is not a leap year, so the longest way is from 2096; a leap day that is also a sunday may be 28 years
        away."""
        assert CALENDAR.next_tick("0 0 29 2 *", "UTC", unix("2096-03-01T00:00Z")) == unix("2104-02-29T00:00Z")
        assert CALENDAR.next_tick("0 0 29 2 */7", "UTC", unix("2032-03-01T00:00Z")) == inf

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("99 * * * *", 'cron: "99 * * * *" can\'t be read: Bad minute'),
            ("* * * * noday", 'cron: "* * * * noday" can\'t be read: Bad day-of-week'),
            ("0 0 30 2 *", 'cron: "0 0 30 2 *" can\'t be read: Bad day-of-month'),
            ("0 0 -1 * *", 'cron: "0 0 -1 * *" can\'t be read: Bad day-of-month'),
            ("*/0 * * * *", 'cron: "*/0 * * * *" can\'t be read: Bad minute'),
            ("* * * *", 'cron: "* * * *" can\'t be read: Wrong number of fields'),
            ("@reboot", 'cron: "@reboot" can\'t be read: Wrong number of fields'),
            ("*/90 * * * *", f'cron: "*/90 * * * *" can\'t be read: a step of 90 in "*/90" is above 59; {EVERY}'),
            ("*/90 * * * * *", f'cron: "*/90 * * * * *" can\'t be read: a step of 90 in "*/90" is above 59; {EVERY}'),
            ("0 0 0 1/40 * *", f'cron: "0 0 0 1/40 * *" can\'t be read: a step of 40 in "1/40" is above 31; {EVERY}'),
            ("", 'cron: "" can\'t be read: Wrong number of fields'),
            ("a\nb", 'cron: "a\\nb" can\'t be read: Wrong number of fields'),
            ("1" * 5000 + " * * * *", "cron: longer than 400 characters"),
        ],
    )
    def test_what_is_no_expression_is_refused_with_the_field_that_is_wrong(
        self, expression: str, expected: str
    ) -> None:
        assert refused(expression, BERLIN) == expected

    @pytest.mark.parametrize(
        "zone",
        ["Europe/Berln", "Europe", "", ".", "../x", "/etc/passwd", "a\0b", "zone.tab", "x" * 300, "europe/berlin "],
    )
    def test_what_is_no_zone_is_refused(self, zone: str) -> None:
        quoted = msgspec.json.encode(zone).decode()

        expected = f'zone: {quoted} is not a known time zone such as "Europe/Berlin"'
        assert refused("* * * * *", zone) == expected

    def test_an_endless_zone_is_refused(self) -> None:
        assert refused("* * * * *", "x" * 5000) == "zone: longer than 400 characters"


class TestHours:
    """Active hours and time to whether they are on, and until when."""

    @pytest.mark.parametrize("active", ["", "  ", "00:00-24:00", "00:00-00:00", "13:00-13:00 Asia/Tokyo"])
    def test_no_hours_and_whole_days_are_always_open(self, active: str) -> None:
        assert CALENDAR.hours(active, unix("2026-06-10T12:00Z")) == Hours(True, inf)

    def test_windows_that_fill_the_day_together_are_always_open(self) -> None:
        assert CALENDAR.hours("22:00-06:00,06:00-14:00,13:00-22:00", 0.0) == Hours(True, inf)

    @pytest.mark.parametrize(
        ("active", "at", "is_open", "until"),
        [
            pytest.param("08:00-18:00", "2026-06-10T07:59:59Z", False, "2026-06-10T08:00Z", id="a second before"),
            pytest.param("08:00-18:00", "2026-06-10T07:59:59.900Z", False, "2026-06-10T08:00Z", id="a moment before"),
            pytest.param("08:00-18:00", "2026-06-10T08:00Z", True, "2026-06-10T18:00Z", id="a start is included"),
            pytest.param("08:00-18:00", "2026-06-10T18:00Z", False, "2026-06-11T08:00Z", id="an end is excluded"),
            pytest.param("8:00-18:00", "2026-06-10T08:00Z", True, "2026-06-10T18:00Z", id="an hour of one digit"),
            pytest.param("08:00-24:00", "2026-06-10T12:00Z", True, "2026-06-11T00:00Z", id="until the end of the day"),
            pytest.param(
                "22:00-06:00 Europe/Berlin",
                "2026-06-10T23:00+02:00",
                True,
                "2026-06-11T06:00+02:00",
                id="at night, before midnight",
            ),
            pytest.param(
                "22:00-06:00 Europe/Berlin",
                "2026-06-11T05:00+02:00",
                True,
                "2026-06-11T06:00+02:00",
                id="at night, after midnight",
            ),
            pytest.param(
                "08:00-12:00, 13:00 - 18:00 Europe/Berlin",
                "2026-06-10T12:30+02:00",
                False,
                "2026-06-10T13:00+02:00",
                id="between two windows",
            ),
            pytest.param(
                "08:00-12:00,11:00-18:00", "2026-06-10T09:00Z", True, "2026-06-10T18:00Z", id="in windows that overlap"
            ),
            pytest.param(
                "08:00-12:00,12:00-18:00", "2026-06-10T09:00Z", True, "2026-06-10T18:00Z", id="in windows that meet"
            ),
            pytest.param("Mon-Fri 08:00-18:00", "2026-06-12T19:00Z", False, "2026-06-15T08:00Z", id="over the weekend"),
            pytest.param("Sat-Mon 00:00-24:00", "2026-06-13T00:00Z", True, "2026-06-16T00:00Z", id="around a sunday"),
            pytest.param("mon,WED 10:00-11:00", "2026-06-08T11:00Z", False, "2026-06-10T10:00Z", id="on listed days"),
            pytest.param(
                "Fri 22:00-06:00", "2026-06-13T03:00Z", True, "2026-06-13T06:00Z", id="a night belongs to its evening"
            ),
            pytest.param(
                "Fri 22:00-06:00", "2026-06-12T03:00Z", False, "2026-06-12T22:00Z", id="and not to its morning"
            ),
            pytest.param(
                "Sun 22:00-06:00", "2026-06-15T03:00Z", True, "2026-06-15T06:00Z", id="a night from week to week"
            ),
            pytest.param("Mon 08:00-08:00", "2026-06-08T08:00Z", True, "2026-06-09T08:00Z", id="a day from eight on"),
            pytest.param(
                "Mon 10:00-11:00", "2026-06-08T11:00Z", False, "2026-06-15T10:00Z", id="closed for almost a week"
            ),
        ],
    )
    def test_hours_are_open_or_closed_until(self, active: str, at: str, is_open: bool, until: str) -> None:
        assert CALENDAR.hours(active, unix(at)) == Hours(is_open, unix(until))

    @pytest.mark.parametrize(
        ("active", "at", "is_open", "until"),
        [
            pytest.param(
                "22:00-06:00 Europe/Berlin",
                "2026-03-28T22:00+01:00",
                True,
                "2026-03-29T06:00+02:00",
                id="a short night in Berlin",
            ),
            pytest.param(
                "22:00-06:00 Europe/Berlin",
                "2026-10-24T22:00+02:00",
                True,
                "2026-10-25T06:00+01:00",
                id="a long night in Berlin",
            ),
            pytest.param(
                "22:00-06:00 America/New_York",
                "2026-03-07T22:00-05:00",
                True,
                "2026-03-08T06:00-04:00",
                id="a short night in New York",
            ),
            pytest.param(
                "22:00-06:00 America/New_York",
                "2026-10-31T22:00-04:00",
                True,
                "2026-11-01T06:00-05:00",
                id="a long night in New York",
            ),
            pytest.param(
                "02:30-06:00 Europe/Berlin",
                "2026-03-29T01:00+01:00",
                False,
                "2026-03-29T03:00+02:00",
                id="a start that is skipped",
            ),
            pytest.param(
                "22:00-02:30 Europe/Berlin",
                "2026-03-29T01:00+01:00",
                True,
                "2026-03-29T03:00+02:00",
                id="an end that is skipped",
            ),
            pytest.param(
                "02:10-02:50 Europe/Berlin",
                "2026-03-28T03:00+01:00",
                False,
                "2026-03-30T02:10+02:00",
                id="a window that is skipped",
            ),
            pytest.param(
                "02:30-06:00 Europe/Berlin",
                "2026-10-25T02:30+02:00",
                True,
                "2026-10-25T02:00+01:00",
                id="a start that comes twice, the first time",
            ),
            pytest.param(
                "02:30-06:00 Europe/Berlin",
                "2026-10-25T02:00+01:00",
                False,
                "2026-10-25T02:30+01:00",
                id="and clocks put back before it",
            ),
            pytest.param(
                "02:30-06:00 Europe/Berlin",
                "2026-10-25T02:30+01:00",
                True,
                "2026-10-25T06:00+01:00",
                id="a start that comes twice, the second time",
            ),
            pytest.param(
                "22:00-02:30 America/New_York",
                "2026-10-31T23:00-04:00",
                True,
                "2026-11-01T02:30-05:00",
                id="an end after the repeated hour",
            ),
            pytest.param(
                "02:00-03:00 Europe/Berlin",
                "2026-10-25T02:00+02:00",
                True,
                "2026-10-25T03:00+01:00",
                id="a window of exactly the repeated hour",
            ),
        ],
    )
    def test_hours_follow_the_clock_on_the_wall(self, active: str, at: str, is_open: bool, until: str) -> None:
        assert CALENDAR.hours(active, unix(at)) == Hours(is_open, unix(until))

    @pytest.mark.parametrize(
        "active",
        [
            "x",
            "22:00",
            "22:00-",
            "22-06",
            "22:00-25:00",
            "24:00-06:00",
            "22:60-23:00",
            "22:00-24:01",
            "08:00-12:00,",
            "Mon-Fri",
            "Mon-Nix 08:00-12:00",
            "Mon- 08:00-12:00",
            "08:00-12:00 Europe/Berlin x",
            "٠٨:00-12:00",
        ],
    )
    def test_what_are_no_hours_is_refused_with_an_example(self, active: str) -> None:
        assert reason(active) == f'active: expected hours such as "22:00-06:00 Europe/Berlin", not "{active}"'

    def test_hours_in_a_zone_that_does_not_exist_are_refused_for_it(self) -> None:
        assert reason("22:00-06:00 Berlin") == ('zone: "Berlin" is not a known time zone such as "Europe/Berlin"')

    def test_endless_hours_are_refused(self) -> None:
        assert reason("08:00-12:00," * 1000) == "active: longer than 400 characters"


class TestPack:
    """Body in a setting to the bytes that fetchers get."""

    def test_a_body_reads_back_as_it_was(self) -> None:
        body = {"url": "https://example.com/ä", "fetch": {"headers": {}, "timeout": 1.5}, "save": [None, True, b"\0"]}

        assert msgspec.msgpack.decode(CALENDAR.pack(body)) == body

    def test_what_has_no_encoding_is_refused_with_the_reason(self) -> None:
        nested: list[object] = []
        for _ in range(100_000):
            nested = [nested]

        assert pack_refused(object()) == "body: can't be encoded: Encoding objects of type object is unsupported"
        assert pack_refused(2**70).startswith("body: can't be encoded: ")
        assert pack_refused("\ud800").startswith("body: can't be encoded: ")
        assert pack_refused(nested) == "body: can't be encoded: nested too deep"


def pack_refused(value: object) -> str:
    """Return the error for a setting with this body."""
    with pytest.raises(Rejected) as refusal:
        CALENDAR.pack(value)
    assert refusal.value.code == "setting"
    return refusal.value.reason


DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
moments = st.builds(
    lambda change, hours, seconds: unix(change) + hours * 3600 + seconds,
    st.sampled_from(CHANGES),
    st.integers(-40, 40),
    st.floats(0, 3600, exclude_max=True),
)
minutes_of_day = st.one_of(st.integers(0, 24 * 60 - 1), st.integers(0, 16).map(lambda quarter: quarter * 15))
windows = st.lists(st.tuples(minutes_of_day, minutes_of_day), min_size=1, max_size=3)
days_listed = st.one_of(st.just(list(range(7))), st.lists(st.integers(0, 6), min_size=1, max_size=4))


def written(days: list[int], opened: list[tuple[int, int]], zone: str) -> str:
    """Write the setting of these hours."""
    times = ",".join(f"{a // 60:02}:{a % 60:02}-{b // 60:02}:{b % 60:02}" for a, b in opened)
    return f"{','.join(DAY_NAMES[day] for day in days)} {times} {zone}"


def covers(days: list[int], opened: list[tuple[int, int]], clock: datetime) -> bool:
    """Naive model: decide by a clock and a calendar."""
    minute = clock.hour * 60 + clock.minute
    yesterday = (clock.weekday() - 1) % 7
    for start, end in opened:
        today_until = end if start < end else 24 * 60
        if clock.weekday() in days and start <= minute < today_until:
            return True
        if yesterday in days and start >= end > minute:
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(
    days=days_listed,
    opened=windows,
    at=moments,
    zone=st.sampled_from(
        [BERLIN, NEW_YORK, "UTC", "Asia/Kolkata", "Africa/Cairo", "Australia/Lord_Howe", "America/St_Johns"]
    ),
)
def test_hours_agree_with_somebody_who_looks_at_the_clock_every_minute(
    days: list[int], opened: list[tuple[int, int]], at: float, zone: str
) -> None:
    clock = ZoneInfo(zone)
    is_open = covers(days, opened, datetime.fromtimestamp(at, clock))
    looks = range((int(at) // 60 + 1) * 60, int(at) + 8 * 86_400, 60)
    changed = next((at for at in looks if covers(days, opened, datetime.fromtimestamp(at, clock)) != is_open), None)

    said = CALENDAR.hours(written(days, opened, zone), at)
    assert said.open == is_open
    assert said.until == changed if changed else said.until >= looks.stop


def field(lowest: int, highest: int) -> st.SearchStrategy[str]:
    """Strategy of one field of a cron expression."""
    number = st.integers(lowest, highest)
    return st.one_of(
        st.just("*"),
        st.integers(1, highest).map(lambda step: f"*/{step}"),
        st.lists(number, min_size=1, max_size=3).map(lambda listed: ",".join(map(str, listed))),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
    )


expressions = st.tuples(field(0, 59), field(0, 4), st.just("*"), st.just("*"), field(0, 7)).map(" ".join)


def walk(expression: str, zone: str, at: float) -> Iterator[float]:
    """Yield the ticks of three days, at most forty."""
    end = at + timedelta(days=3).total_seconds()
    for _ in range(40):
        at = CALENDAR.next_tick(expression, zone, at)
        if at > end:
            return
        yield at


@settings(max_examples=200, deadline=None)
@given(expression=expressions, zone=st.sampled_from([BERLIN, NEW_YORK, "UTC", "Asia/Kolkata"]), at=moments)
def test_ticks_come_one_after_the_other_and_are_the_same_from_wherever_one_looks(
    expression: str, zone: str, at: float
) -> None:
    before = at
    for tick in walk(expression, zone, at):
        assert tick > before
        assert CALENDAR.next_tick(expression, zone, (before + tick) / 2) == tick
        assert CALENDAR.next_tick(expression, zone, nextafter(tick, 0)) == tick
        before = tick


@settings(max_examples=100, deadline=None)
@given(minute=st.integers(0, 59), hour=st.integers(0, 23), zone=st.sampled_from([BERLIN, NEW_YORK]), at=moments)
def test_an_entry_for_a_time_of_day_runs_once_on_every_day(minute: int, hour: int, zone: str, at: float) -> None:
    midnight = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0)
    first = midnight.date()

    found = list(walk(f"{minute} {hour} * * *", zone, midnight.replace(microsecond=0).timestamp() - 1))
    dates = [datetime.fromtimestamp(tick, ZoneInfo(zone)).date() for tick in found]
    assert dates[:2] == [first, first + timedelta(days=1)]
