"""The daemon's ``Environment``: cron expressions, hours, time zones; packed bodies; spelling and domains of hosts.

Answers depend on the arguments alone (and on the machine's time zone data, read once a zone), so that they may be
kept: each cache below is one of a pure function, and bounded. What must never come in here is a clock.

Cron is that of Debian, as ``cronsim`` implements it:

1. Five fields, or six with seconds first, or a word such as @daily. If the day of the month or that of the week begins
   with a star, both must match, else either.
2. Where neither the minute nor the hour begins with a star, the expression means times of day: one that clocks skip in
   spring is made up for in the first minute that there is, one that they show twice in autumn counts the first time.
3. Any other means real time, and so does one with seconds: what is skipped is skipped, what comes twice fires twice.

Active hours mean what a clock on the wall shows, at every moment, so nothing has to be decided where clocks change:

    22:00-06:00 Europe/Berlin                    every night, begins and ends by the clocks of Berlin
    Mon-Fri 08:00-12:00,13:00-18:00              in UTC, as no zone is given; a start is included, an end is not
    Fri 22:00-06:00                              ends on Saturday: an end not after its start is one of the next day
    Sat,Sun 00:00-24:00                          both days whole: the days are those on which a window begins

An edge that is skipped in spring takes effect when clocks have moved; one that is shown twice does so twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from math import floor, inf
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Raw

from taskqueue.ascii_hosts import ascii_host
from taskqueue.errors import Rejected
from taskqueue.registered_domains import domain_of
from taskqueue.settings.environment import Hours

MAX_SETTING_CHARS: Final = 400
"""Longest expression, zone or hours; a list of all sixty minutes has 169."""

SEARCHED_YEARS: Final = 8
"""Years in which a next run is looked for: any day of the year comes within eight."""

SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Words of crontab(5) for the commonest expressions."""

STEPS_MOST: Final = (59, 59, 23, 31, 12, 7)
"""Largest step of each field, beginning with seconds. With a larger one only the first value would match: */90 of the
minutes would mean each hour.
"""

KEPT_ANSWERS: Final = 4096
"""Next runs that are remembered. One takes 30 µs to find, and jobs that share an expression are due together."""

KEPT_HOSTS: Final = 16_384
"""Spellings of hosts that are remembered: 4 MB. One takes 10 µs to be mapped."""

KEPT_WEEKS: Final = 1024
KEPT_ZONES: Final = 1024

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_A_DAY: Final = 24 * 60
MINUTES_A_WEEK: Final = 7 * MINUTES_A_DAY

_DAY = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_DAY_RANGE = rf"{_DAY}(?:-{_DAY})?"
_TIME = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]"
_WINDOW = rf"{_TIME}-(?:{_TIME}|24:00)"
_ACTIVE: Final = re.compile(
    rf"(?:(?P<days>(?i:{_DAY_RANGE}(?:,{_DAY_RANGE})*)) )?(?P<windows>{_WINDOW}(?:,{_WINDOW})*)(?: (?P<zone>\S+))?"
)

_STEP: Final = re.compile(r"/(\d+)", re.ASCII)


class Calendar:
    """The core's ``Environment``; see ``taskqueue.settings.environment``."""

    def next_run(self, expression: str, zone: str, after: float) -> float:
        """The first time (unix seconds) after ``after`` that a cron expression means in a time zone; inf: never.

        Only SEARCHED_YEARS are searched. Costs 30 µs, or 4 ms for an expression that nothing matches in them.

        Raises:
            Rejected: with the code ``setting``: the expression or the zone can't be read.
        """
        return _next_run(expression, zone, floor(after))

    def hours(self, active: str, at: float) -> Hours:
        """Whether active hours include a time (unix seconds), and until when that stays so; an empty text: always.

        Raises:
            Rejected: with the code ``setting``: they can't be read.
        """
        week = _week(active)
        if not week.edges:
            return Hours(True, inf)
        moment = floor(at)
        is_open = week.is_open(moment)
        while week.is_open(moment) == is_open:
            moment = week.look_after(moment)
        return Hours(is_open, float(moment))

    def domain(self, host: str) -> str:
        """The registered domain of a host, of which a port is dropped; of one that has none the host itself."""
        return domain_of(host)

    def ascii_host(self, host: str) -> str:
        """The one spelling of a host without its port, in ASCII; a host that has none stays as it is."""
        return _ascii_host(host)

    def pack(self, value: object) -> Raw:
        """A body as MessagePack.

        Raises:
            Rejected: with the code ``setting``: it can't be encoded.
        """
        try:
            return Raw(msgspec.msgpack.encode(value))
        except RecursionError:
            raise Rejected("setting", "body: can't be encoded: nested too deep") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise Rejected("setting", f"body: can't be encoded: {error}") from None


_ascii_host: Final = lru_cache(KEPT_HOSTS)(ascii_host)


@lru_cache(KEPT_ANSWERS)
def _next_run(expression: str, zone: str, after: int) -> float:
    for run in _runs(expression, datetime.fromtimestamp(after, _zone(zone))):
        # After clocks were put back, the library takes a time of day for its first showing, which may be over.
        if run > after:
            return run
    return inf


def _runs(expression: str, after: datetime) -> Iterator[float]:
    """Unix seconds of the runs from about ``after`` on."""
    _check_length("cron", expression)
    _check_steps(expression)
    try:
        found = _Near(SHORTHANDS.get(expression.strip(), expression), after)
    except CronSimError as error:
        raise Rejected("setting", f"cron: {_quoted(expression)} can't be read: {error}") from None
    return (run.timestamp() for run in found)


def _check_steps(expression: str) -> None:
    fields = expression.split()
    for field, most in zip(reversed(fields), reversed(STEPS_MOST), strict=False):
        for step in _STEP.findall(field):
            if int(step) > most:
                reason = f'a step of {step} in "{field}" is above {most}; `every` takes any duration, such as "90m"'
                raise Rejected("setting", f"cron: {_quoted(expression)} can't be read: {reason}")


class _Near(CronSim):
    """A search for runs that gives up after SEARCHED_YEARS, not 50: the year is looked at when the month advances."""

    def __init__(self, expression: str, after: datetime) -> None:
        super().__init__(expression, after)
        self._last_year = after.year + SEARCHED_YEARS

    def advance_month(self) -> None:
        """End the search if it has gone too far."""
        super().advance_month()
        if self.dt.year > self._last_year:
            raise StopIteration


@lru_cache(KEPT_ZONES)
def _zone(name: str) -> tzinfo:
    _check_length("zone", name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A name is a path in the zone data: it may leave it, be a folder, or another file there.
        reason = f'zone: {_quoted(name)} is no time zone that is known here, such as "Europe/Berlin"'
        raise Rejected("setting", reason) from None


class _Week(NamedTuple):
    """Active hours as a clock on the wall goes through them.

    Attributes:
        edges: minutes of the week, ascending, at which they open and close by turns; none: always open.
        opens_first: they open at the first of them.
        zone: where the clock hangs.
    """

    edges: tuple[int, ...]
    opens_first: bool
    zone: tzinfo

    def is_open(self, moment: int) -> bool:
        """Whether the hours include this unix second; there must be edges."""
        passed = bisect_right(self.edges, self._shown(moment) // 60)
        return (passed % 2 == 1) == self.opens_first

    def look_after(self, moment: int) -> int:
        """The next unix second at which ``is_open`` may differ: that of an edge, or of a change of the clock."""
        shown = self._shown(moment)
        passed = bisect_right(self.edges, shown // 60)
        edge = self.edges[passed] if passed < len(self.edges) else self.edges[0] + MINUTES_A_WEEK
        return self._first_change(moment, moment + edge * 60 - shown)

    def _shown(self, moment: int) -> int:
        """The second of the week that the clock shows."""
        shown = datetime.fromtimestamp(moment, self.zone)
        return ((shown.weekday() * 24 + shown.hour) * 60 + shown.minute) * 60 + shown.second

    def _first_change(self, moment: int, end: int) -> int:
        """When the clock is put forward or back, by bisection; ``end`` if it goes evenly until then.

        Two changes that cancel each other within the week between edges would be missed: from 2024 to 2037 no zone
        has two within fourteen days.
        """
        ahead = self._ahead(moment)
        if self._ahead(end) == ahead:
            return end
        while end - moment > 1:
            middle = (moment + end) // 2
            if self._ahead(middle) == ahead:
                moment = middle
            else:
                end = middle
        return end

    def _ahead(self, moment: int) -> int:
        """Seconds, of a week's cycle, by which the clock is ahead of UTC."""
        return (self._shown(moment) - moment) % (MINUTES_A_WEEK * 60)


@lru_cache(KEPT_WEEKS)
def _week(active: str) -> _Week:
    text = _tidied(active)
    if not text:
        return _Week((), True, UTC)
    _check_length("active", active)
    read = _ACTIVE.fullmatch(text)
    if read is None:
        reason = f'active: expected hours such as "22:00-06:00 Europe/Berlin", not {_quoted(active)}'
        raise Rejected("setting", reason)
    spans = [span for window in read["windows"].split(",") for span in _spans(window, _days(read["days"]))]
    return _Week(*_edges(spans), _zone(read["zone"] or "UTC"))


def _tidied(active: str) -> str:
    """One space between words, none at commas and dashes."""
    return re.sub(r" ?([,-]) ?", r"\1", " ".join(active.split()))


def _days(text: str | None) -> set[int]:
    """``Fri-Sun,Tue`` as {4, 5, 6, 1}."""
    ranges = (text or "mon-sun").lower().split(",")
    return {day for days in ranges for day in _days_between(*days.partition("-")[::2])}


def _days_between(first: str, last: str) -> Iterator[int]:
    start = DAYS.index(first)
    count = (DAYS.index(last or first) - start) % 7 + 1
    return ((start + day) % 7 for day in range(count))


def _spans(window: str, days: set[int]) -> Iterator[tuple[int, int]]:
    """Minutes of the week from and to which a window is open on some days; the end may lie in the next week."""
    start, end = (_minute_of_day(time) for time in window.split("-"))
    if end <= start:
        end += MINUTES_A_DAY
    return ((day * MINUTES_A_DAY + start, day * MINUTES_A_DAY + end) for day in sorted(days))


def _minute_of_day(time: str) -> int:
    hour, minute = time.split(":")
    return int(hour) * 60 + int(minute)


def _edges(spans: list[tuple[int, int]]) -> tuple[tuple[int, ...], bool]:
    """Where the union of spans begins and ends in a week that repeats, and whether it begins at the first of these."""
    is_open = bytearray(MINUTES_A_WEEK)
    for start, end in spans:
        for minute in range(start, end):
            is_open[minute % MINUTES_A_WEEK] = 1
    ends = sorted({minute % MINUTES_A_WEEK for span in spans for minute in span})
    edges = tuple(minute for minute in ends if is_open[minute] != is_open[minute - 1])
    return edges, not edges or bool(is_open[edges[0]])


def _check_length(setting: str, text: str) -> None:
    if len(text) > MAX_SETTING_CHARS:
        raise Rejected("setting", f"{setting}: longer than {MAX_SETTING_CHARS} characters")


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
