"""Times on the command line: durations (``90s``, ``5m``, ``12h``, ``2d``) and moments (``2027-01-31 18:00``).

    DURATION   90s 5m 1.5h 2d; a bare number is seconds
    TIME       unix seconds, a date with or without a time, the form that tables print (2026-11-26 13:42:38 UTC,
               Thu 18:00), 18:00, yesterday, now

``past`` and ``future`` accept a DURATION, too. A time without a zone is in the zone of this machine.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from math import inf
from typing import Final

import click

from taskqueue.protocol.fields import MAX_PAUSE_SECONDS
from taskqueue.texts.units import duration_text, parse_duration

DAY_SECONDS: Final = 86400

PAUSE_MOST: Final = MAX_PAUSE_SECONDS // DAY_SECONDS * DAY_SECONDS
"""Longest pause on the command line, in seconds: whole days."""

LATEST: Final = 1e11
"""First invalid time in unix seconds, in the year 5138."""

UNIX_LEAST: Final = 1e9
"""Smallest bare number that means unix seconds (2001) where a duration is possible, too."""

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CLOCK: Final = re.compile(rf"(?:({'|'.join(DAYS)}) )?(\d{{1,2}}):(\d\d)(?::(\d\d))?", re.ASCII | re.IGNORECASE)
NAMED_ZONE: Final = re.compile(r"(.*\d) ([A-Za-z]{2,6}|[+-]\d\d(?::?\d\d)?)", re.ASCII)
UTC_NAMES: Final = ("UTC", "GMT", "Z")


def seconds(written: str) -> float:
    """Parse a DURATION into seconds; a bare number is seconds.

    Raises:
        click.BadParameter: it is invalid.
    """
    if (found := parse_duration(written)) is None:
        raise click.BadParameter(f'"{written}" is no duration, such as 90s, 5m, 12h or 2d')
    return found


def some_seconds(written: str) -> float:
    """Parse a DURATION above 0 into seconds.

    Raises:
        click.BadParameter: it is invalid, or 0.
    """
    if not (found := seconds(written)):
        raise click.BadParameter(f'"{written}" is no time at all')
    return found


def pause_seconds(written: str) -> float:
    """Parse the DURATION of a pause into seconds.

    Raises:
        click.BadParameter: it is invalid, 0, or longer than PAUSE_MOST.
    """
    if (found := some_seconds(written)) > PAUSE_MOST:
        raise click.BadParameter(f"at most {PAUSE_MOST / DAY_SECONDS:.0f}d; without --for it lasts until `resume`")
    return found


def past(written: str) -> float:
    """Parse a TIME, or a DURATION ago, into unix seconds; ``18:00`` is the last one.

    Raises:
        click.BadParameter: it is neither, or lies before 1970.
    """
    if parse_duration(written) is None or _is_unix_seconds(written):
        return _moment(written, ahead=False)
    if (at := time.time() - seconds(written)) <= 0:
        raise click.BadParameter(f'"{written}" is longer than anything can be old')
    return at


def future(written: str) -> float:
    """Parse a TIME, or a DURATION from now, into unix seconds; ``18:00`` is the next one.

    Raises:
        click.BadParameter: it is neither, or too far in the future.
    """
    if parse_duration(written) is None or _is_unix_seconds(written):
        return _moment(written, ahead=True)
    return after_now(written)


def future_or_never(written: str) -> float:
    """Parse as ``future`` does; ``inf`` means for ever.

    Raises:
        click.BadParameter: it is invalid.
    """
    return inf if written == "inf" else future(written)


def moment(written: str) -> float:
    """Parse a TIME into unix seconds; ``18:00`` is the next one.

    Raises:
        click.BadParameter: it is invalid.
    """
    return _moment(written, ahead=True)


def after_now(written: str) -> float:
    """Parse a DURATION, and return the unix seconds at which it has passed.

    Raises:
        click.BadParameter: it is invalid, or too long.
    """
    if (at := time.time() + seconds(written)) > LATEST:
        raise click.BadParameter(f'"{written}" from now lies too far in the future')
    return at


def _is_unix_seconds(written: str) -> bool:
    """Whether a bare number means unix seconds; a smaller one is a duration."""
    return parse_duration(written) is not None and written[-1].isdigit() and float(written) >= UNIX_LEAST


def _moment(written: str, *, ahead: bool) -> float:
    try:
        at = _read(written, datetime.now(), ahead=ahead)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f'"{written}" is no time, such as "2027-01-31 18:00", 18:00, yesterday, now or unix seconds'
        ) from None
    if at > LATEST:
        hint = "; are these milliseconds?" if at < 1000 * LATEST else ""
        raise click.BadParameter(f'"{written}" lies too far in the future{hint}')
    return at


def _read(written: str, now: datetime, *, ahead: bool) -> float:
    """Parse a TIME into unix seconds, without bounds; ``now`` is the time of this machine without its zone."""
    if written == "now":
        return now.timestamp()
    if written == "yesterday":
        return datetime.combine(now.date() - timedelta(days=1), datetime.min.time()).timestamp()
    if written.isascii() and written.replace(".", "", 1).isdigit():
        return float(written)
    if read := CLOCK.fullmatch(written):
        return _on_the_clock(read, now, ahead=ahead).timestamp()
    if read := NAMED_ZONE.fullmatch(written):
        return _in_zone(read[1], read[2])
    return datetime.fromisoformat(written).timestamp()


def _on_the_clock(read: re.Match[str], now: datetime, *, ahead: bool) -> datetime:
    """Find the next or last time at which the local clock shows this time, on the weekday if one is named."""
    day, hour, minute, second = read.groups("0")
    found = now.replace(hour=int(hour), minute=int(minute), second=int(second), microsecond=0)
    days = 1
    if day != "0":
        found += timedelta(days=DAYS.index(day.lower()) - now.weekday())
        days = 7
    while ahead and found <= now:
        found += timedelta(days=days)
    while not ahead and found > now:
        found -= timedelta(days=days)
    return found


def _in_zone(written: str, zone: str) -> float:
    if zone.upper() in UTC_NAMES:
        return datetime.fromisoformat(f"{written}+00:00").timestamp()
    if not zone.isalpha():  # as some zones are called, such as -03
        return datetime.fromisoformat(f"{written}{zone}").timestamp()
    local_time = datetime.fromisoformat(written)
    for fold in (0, 1):  # the hour that clocks show twice, when summer time ends
        found = local_time.replace(fold=fold)
        if found.astimezone().tzname() == zone:
            return found.timestamp()
    raise ValueError(zone)


def ago(at: float) -> str:
    """Format the age of a time in unix seconds, such as ``2 h 5 min ago``; "" for never."""
    return f"{duration_text(max(0.0, time.time() - at))} ago" if at else ""


def local(at: float) -> str:
    """Format unix seconds in local time: ``2026-11-22 02:00:00 UTC``; "" for never."""
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):  # a store, or a daemon, may say anything
        return f"{at:g}"


def paused_until(at: float) -> str:
    """Format the end of a pause in unix seconds: ``paused until 2026-11-22 03:10:00 UTC``."""
    return f"paused until {local(at)}"


def clock(at: float) -> str:
    """Format unix seconds as local weekday, hour and minute: ``Thu 02:05``."""
    return datetime.fromtimestamp(at).astimezone().strftime("%a %H:%M")
