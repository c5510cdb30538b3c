"""Pace of a slot, from the project's settings, those of its patterns, and the operator's choice for the slot.

    operator ──► fitting pattern ──► project        each number comes from the first of them that sets it

A delay and a rate are one number here: the first that sets either wins. Of several patterns that match,
the most specific one fits: the name itself, then the one with the most characters other than ``*`` and ``?``, then the
one with the fewest stars.

Paces follow the generic cell rate algorithm (ITU-T I.371, annex A): a slot has a theoretical arrival time *tat*,
may go at ``tat - tolerance``, and a dispatch at ``now`` sets it to ``max(now, tat) + interval``. A delay is an interval
without tolerance; a rate of r with a burst of b is an interval of 1/r with a tolerance of (b - 1)/r.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from ipaddress import IPv6Address
from math import inf
from typing import Final, NamedTuple
from unicodedata import normalize

from taskqueue.settings.settings import Settings
from taskqueue.settings.slots import PLAIN_CHOICE, Choices, SlotChoice

WITHOUT_SIGNS: Final = {ord(sign): None for sign in "*?"}

REMEMBERED: Final = 256
"""Sets of patterns that are cached compiled; compiling takes 0.1 ms a pattern."""


class SlotPace(NamedTuple):
    """Pace of a slot.

    Attributes:
        interval: seconds from one dispatch to the next, on average.
        tolerance: seconds by which a dispatch may be before its time.
        most: leases at once; inf if unlimited.
        is_auto: True if the interval follows the latency of the slot's host.
    """

    interval: float
    tolerance: float
    most: float
    is_auto: bool = False


UNPACED: Final = SlotPace(0.0, 0.0, inf)
"""Pace of tasks that are in no slot."""


def pace_of(settings: Settings, name: str, chosen: SlotChoice, auto_delay: float = 0.0) -> SlotPace:
    """Return the pace of the slot of that name; UNPACED for an empty name.

    Args:
        chosen: the operator's choice for this slot.
        auto_delay: seconds of the automatic delay, before its bounds; 0 if nothing is known yet.
    """
    if not name:
        return UNPACED
    own = settings.slot
    said = (chosen, fitting_choice(own.patterns, name), own)
    delay, rate = next((each.delay, each.rate) for each in said if each.delay is not None or each.rate is not None)
    burst = next(each.burst for each in said if each.burst is not None)
    most = next(each.max_processing for each in said if each.max_processing is not None)
    if rate is not None and (rate != inf or delay is None):
        return SlotPace(1.0 / rate, (burst - 1.0) / rate, most)
    if delay == "auto":
        return SlotPace(max(own.min_delay, min(auto_delay, own.max_delay)), 0.0, most, True)
    return SlotPace(delay or 0.0, 0.0, most)


def max_tasks_of(settings: Settings, name: str, chosen: SlotChoice) -> float:
    """Return how many tasks may be new in the slot of that name; inf for an empty name."""
    if not name:
        return inf
    said = (chosen.max_tasks, fitting_choice(settings.slot.patterns, name).max_tasks)
    return next((most for most in said if most is not None), settings.slot.max_tasks)


def fitting_choice(choices: Choices, name: str) -> SlotChoice:
    """Return the choice of the most specific pattern that fits the name; a plain one if there is none."""
    if not choices:
        return PLAIN_CHOICE
    pattern = fitting_pattern(choices, name)
    return choices[pattern] if pattern else PLAIN_CHOICE


def fitting_pattern(choices: Choices, name: str) -> str:
    """Return the most specific pattern that fits the name; empty if there is none."""
    if not choices or name in choices:
        return name if choices else ""
    patterns = _ranked(tuple(choices))
    found = _first_fit(patterns, name)
    if name.startswith("[") or "xn--" in name:
        said, read = _as_read(patterns), as_read(name)
        if read in said:
            return patterns[said.index(read)]
        found = min(found, _first_fit(said, read))
    return patterns[found] if found < len(patterns) else ""


def as_read(name: str) -> str:
    """Return a name or pattern as users may write it: shortest form of an address, Unicode of other names."""
    if name.startswith("["):
        return _shortest(name)
    return ".".join(map(_label_as_read, normalize("NFKC", name).lower().replace("。", ".").split(".")))


def _label_as_read(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode().decode("punycode")
    except UnicodeError:
        return label


def _shortest(address: str) -> str:
    end = address.find("]")
    try:
        return f"[{IPv6Address(address[1:end])}{address[end:]}"
    except ValueError:
        return address


@lru_cache(REMEMBERED)
def _ranked(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns, the most specific first; equals are ordered by text."""
    return tuple(sorted(patterns, key=lambda each: (-len(each.translate(WITHOUT_SIGNS)), each.count("*"), each)))


@lru_cache(REMEMBERED)
def _as_read(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(as_read, patterns))


def _first_fit(patterns: tuple[str, ...], name: str) -> int:
    """Return the index of the first pattern that matches; their number if none does."""
    found = _any_of(patterns).match(name)
    return len(patterns) if found is None or found.lastindex is None else found.lastindex - 1


@lru_cache(REMEMBERED)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile one expression of all patterns, in which only the group of the first matching pattern takes part."""
    return re.compile("|".join(f"({translate(pattern)})" for pattern in patterns))
