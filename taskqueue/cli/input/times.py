"""Times on the command line: durations (``90s``, ``5m``, ``12h``, ``2d``) and moments (``2027-01-31 18:00``)."""

from __future__ import annotations

import time
from datetime import datetime
from math import inf
from typing import Final

import click

from taskqueue.protocol.fields import MAX_PAUSE_SECONDS
from taskqueue.units import duration_text, parse_duration

DAY_SECONDS: Final = 86400

PAUSE_MOST: Final = MAX_PAUSE_SECONDS // DAY_SECONDS * DAY_SECONDS
"""Seconds that a pause for a time may last on the command line: whole days."""

LATEST: Final = 1e11
"""The first invalid time in unix seconds, in the year 5138."""


def seconds(written: str) -> float:
    """How long, in seconds; a bare number is one of seconds.

    Raises:
        click.BadParameter: it is no duration.
    """
    if (found := parse_duration(written)) is None:
        raise click.BadParameter(f'"{written}" is no duration, such as 90s, 5m, 12h or 2d')
    return found


def some_seconds(written: str) -> float:
    """How long, in seconds; not in no time at all.

    Raises:
        click.BadParameter: it is no duration, or 0.
    """
    if not (found := seconds(written)):
        raise click.BadParameter(f'"{written}" is no time at all')
    return found


def pause_seconds(written: str) -> float:
    """How long a pause is, in seconds.

    Raises:
        click.BadParameter: it is no duration, 0, or longer than PAUSE_MOST.
    """
    if (found := some_seconds(written)) > PAUSE_MOST:
        raise click.BadParameter(f"at most {PAUSE_MOST / DAY_SECONDS:.0f}d; without --for it lasts until `resume`")
    return found


def moment(written: str) -> float:
    """When, in unix seconds: those themselves, or a date with or without time, in this machine's zone if it names none.

    Raises:
        click.BadParameter: it is no time.
    """
    try:
        at = float(written) if written.replace(".", "", 1).isdigit() else datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(f'"{written}" is no time, such as "2027-01-31 18:00" or unix seconds') from None
    if at > LATEST:
        hint = "; are these milliseconds?" if at < 1000 * LATEST else ""
        raise click.BadParameter(f'"{written}" lies too far in the future{hint}')
    return at


def before_now(written: str) -> float:
    """Unix seconds of the time that lies so long before now.

    Raises:
        click.BadParameter: it is no duration, or longer than time has been counted.
    """
    if (at := time.time() - seconds(written)) <= 0:
        raise click.BadParameter(f'"{written}" is longer than anything can be old')
    return at


def since(written: str) -> float:
    """Unix seconds of a time that was said as such, or as how long ago it was.

    Raises:
        click.BadParameter: it is neither.
    """
    return moment(written) if parse_duration(written) is None else before_now(written)


def after_now(written: str) -> float:
    """Unix seconds of the time that lies so long after now.

    Raises:
        click.BadParameter: it is no duration, or too long.
    """
    if (at := time.time() + seconds(written)) > LATEST:
        raise click.BadParameter(f'"{written}" from now lies too far in the future')
    return at


def ago(at: float) -> str:
    """How long unix seconds have passed, such as ``2 h 5 min ago``; "" for never."""
    return f"{duration_text(max(0.0, time.time() - at))} ago" if at else ""


def local(at: float) -> str:
    """Unix seconds in the time of this machine: ``2026-11-22 02:00:00 UTC``; "" for never."""
    if not at:
        return ""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):  # a store, or a daemon, may say anything
        return f"{at:g}"


def paused_until(at: float) -> str:
    """What is said of a pause that ends at these unix seconds: ``paused until 2026-11-22 03:10:00 UTC``."""
    return f"paused until {local(at)}"


def clock(at: float) -> str:
    """Unix seconds as weekday, hour and minute of this machine: ``Thu 02:05``."""
    return datetime.fromtimestamp(at).astimezone().strftime("%a %H:%M")


def until(written: str) -> float:
    """Unix seconds of a time that was said as such, or as how long it is until then; inf: for ever.

    Raises:
        click.BadParameter: it is neither.
    """
    if written == "inf":
        return inf
    return moment(written) if parse_duration(written) is None else after_now(written)
