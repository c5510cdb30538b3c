"""The daemon's ``Environment``: cron expressions, active hours, time zones, packed bodies, spelling of hosts, domains.

Results depend on the arguments alone (and on the machine's time zone data, read once per zone), so they may be cached:
each cache below belongs to a pure function and is bounded. What must never come in here is a clock.

Cron expressions follow Debian's cron, as ``cronsim`` implements it:

1. Five fields, or six with seconds first, or a word such as @daily. If day of the month or day of the week begins with
   a star, both must match, else either.
2. If neither minute nor hour begins with a star, the expression means times of day: one that clocks skip in spring
   comes in the first minute after the skip, one that clocks show twice in autumn comes the first time.
3. Any other expression, and each with seconds, means real time: skipped times don't come, repeated times come twice.

Active hours follow the clock on the wall, so nothing has to be decided when clocks change:

    22:00-06:00 Europe/Berlin                    every night, from start to end by the clocks of Berlin
    Mon-Fri 08:00-12:00,13:00-18:00              in UTC, the default; a start is included, an end is not
    Fri 22:00-06:00                              ends on Saturday: an end not after its start is on the next day
    Sat,Sun 00:00-24:00                          both days whole: days name the day on which hours begin

An edge that clocks skip in spring applies when they have moved; one that they show twice applies both times.
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

from taskqueue.errors import Rejected
from taskqueue.hosts.ascii_hosts import ascii_host
from taskqueue.hosts.registered_domains import domain_of
from taskqueue.settings.environment import Hours

MAX_SETTING_CHARS: Final = 400
"""Longest expression, zone or hours; a list of all sixty minutes has 169."""

SEARCHED_YEARS: Final = 8
"""Years searched for a next tick: any day of the year occurs within eight."""

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
"""Largest useful step of each field, beginning with seconds. A larger one matches only the first value: */90 of the
minutes would mean every hour.
"""

KEPT_ANSWERS: Final = 4096
"""Next ticks that are cached. One takes 30 µs to find, and cron entries that share an expression are due together."""

KEPT_HOSTS: Final = 16_384
"""Host spellings that are cached: 4 MB. One takes 10 µs to map."""

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
    """Environment of the core, as the daemon provides it; see ``taskqueue.settings.environment``."""

    def next_tick(self, expression: str, zone: str, after: float) -> float:
        """Return the first tick of a cron expression after ``after`` in a time zone, in unix seconds; inf: never.

        Searches SEARCHED_YEARS. Costs 30 µs, or 4 ms for an expression that matches nothing in that time.

        Raises:
            Rejected: with the code ``setting``: the expression or the zone can't be read.
        """
        return _next_tick(expression, zone, floor(after))

    def hours(self, active: str, at: float) -> Hours:
        """Return whether active hours include a time (unix seconds), and until when that stays so; empty text: always.

        Raises:
            Rejected: with the code ``setting``: the hours can't be read.
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
        """Return the registered domain of a host with or without a port, or the host itself if it has none."""
        return domain_of(host)

    def ascii_host(self, host: str) -> str:
        """Return the canonical spelling of a host without a port, in ASCII; an invalid host is not changed."""
        return _ascii_host(host)

    def pack(self, value: object) -> Raw:
        """Encode a body as MessagePack.

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
def _next_tick(expression: str, zone: str, after: int) -> float:
    for tick in _ticks(expression, datetime.fromtimestamp(after, _zone(zone))):
        # After clocks were put back, the library returns the first of two equal times of day, which may be past.
        if tick > after:
            return tick
    return inf


def _ticks(expression: str, after: datetime) -> Iterator[float]:
    """Yield unix seconds of the ticks from about ``after`` on."""
    _check_length("cron", expression)
    _check_steps(expression)
    try:
        found = _Near(SHORTHANDS.get(expression.strip(), expression), after)
    except CronSimError as error:
        raise Rejected("setting", f"cron: {_quoted(expression)} can't be read: {error}") from None
    return (tick.timestamp() for tick in found)


def _check_steps(expression: str) -> None:
    fields = expression.split()
    for field, most in zip(reversed(fields), reversed(STEPS_MOST), strict=False):
        for step in _STEP.findall(field):
            if int(step) > most:
                reason = f'a step of {step} in "{field}" is above {most}; `every` takes any duration, such as "90m"'
                raise Rejected("setting", f"cron: {_quoted(expression)} can't be read: {reason}")


class _Near(CronSim):
    """Search for ticks that ends after SEARCHED_YEARS instead of 50; the year is checked when the month advances."""

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
        # A name is a path in the zone data: it may lead out of it, or to a folder or another file.
        reason = f'zone: {_quoted(name)} is not a known time zone such as "Europe/Berlin"'
        raise Rejected("setting", reason) from None


class _Week(NamedTuple):
    """Active hours as edges in a week of the wall clock.

    Attributes:
        edges: minutes of the week, ascending, at which hours alternately open and close; none: always open.
        opens_first: the first edge opens.
        zone: time zone of the clock.
    """

    edges: tuple[int, ...]
    opens_first: bool
    zone: tzinfo

    def is_open(self, moment: int) -> bool:
        """Return whether the hours include this unix second; there must be edges."""
        passed = bisect_right(self.edges, self._shown(moment) // 60)
        return (passed % 2 == 1) == self.opens_first

    def look_after(self, moment: int) -> int:
        """Return the next unix second at which ``is_open`` may differ: at an edge, or at a change of the clock."""
        shown = self._shown(moment)
        passed = bisect_right(self.edges, shown // 60)
        edge = self.edges[passed] if passed < len(self.edges) else self.edges[0] + MINUTES_A_WEEK
        return self._first_change(moment, moment + edge * 60 - shown)

    def _shown(self, moment: int) -> int:
        """Second of the week that the clock shows."""
        shown = datetime.fromtimestamp(moment, self.zone)
        return ((shown.weekday() * 24 + shown.hour) * 60 + shown.minute) * 60 + shown.second

    def _first_change(self, moment: int, end: int) -> int:
        """Return when the clock changes before ``end``, found by bisection; ``end`` if it does not.

        Two changes that cancel each other between edges within a week would be missed: from 2024 to 2037 no zone has
        two within fourteen days.
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
        """Seconds, modulo a week, by which the clock is ahead of UTC."""
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
    """Normalise spaces: one between words, none at commas and dashes."""
    return re.sub(r" ?([,-]) ?", r"\1", " ".join(active.split()))


def _days(text: str | None) -> set[int]:
    """Parse days: ``Fri-Sun,Tue`` as {4, 5, 6, 1}."""
    ranges = (text or "mon-sun").lower().split(",")
    return {day for days in ranges for day in _days_between(*days.partition("-")[::2])}


def _days_between(first: str, last: str) -> Iterator[int]:
    start = DAYS.index(first)
    count = (DAYS.index(last or first) - start) % 7 + 1
    return ((start + day) % 7 for day in range(count))


def _spans(window: str, days: set[int]) -> Iterator[tuple[int, int]]:
    """Return start and end of some hours on these days, in minutes of the week; the end may lie in the next week."""
    start, end = (_minute_of_day(time) for time in window.split("-"))
    if end <= start:
        end += MINUTES_A_DAY
    return ((day * MINUTES_A_DAY + start, day * MINUTES_A_DAY + end) for day in sorted(days))


def _minute_of_day(time: str) -> int:
    hour, minute = time.split(":")
    return int(hour) * 60 + int(minute)


def _edges(spans: list[tuple[int, int]]) -> tuple[tuple[int, ...], bool]:
    """Return the edges of the union of spans in a repeating week, and whether the first edge opens."""
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
