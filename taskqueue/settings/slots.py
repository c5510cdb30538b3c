"""Division of a project into slots, and the settings of all slots, of some by pattern, and of one by an operator.

A slot is a part of a project with its own pace: a host, a registered domain, or a name given by tasks. Whatever a
choice leaves open comes from the project; ``slot_pace`` says which of several choices wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from taskqueue.protocol.fields import MAX_SLOT_BURST, MAX_SLOT_DELAY_SECONDS, MIN_SLOT_RATE, Setting
from taskqueue.settings import reader
from taskqueue.settings.description import DURATION

MAX_PATTERNS: Final = 100
"""Patterns of one layer of one project, at most."""
MAX_PATTERN_CHARS: Final = 300

WHOLES: Final = ("max_processing", "max_tasks")
"""Settings that count tasks of a slot."""

SlotSeconds = Annotated[float, Meta(ge=0, le=MAX_SLOT_DELAY_SECONDS, extra=DURATION)]
SlotDelay = SlotSeconds | Literal["auto"]
SlotRate = Annotated[float, Meta(ge=MIN_SLOT_RATE)]
SlotBurst = Annotated[float, Meta(ge=1, le=MAX_SLOT_BURST)]
FromOne = Annotated[float, Meta(ge=1, extra={"words": "a whole number of at least 1 or inf"})]
Division = Literal["none", "host", "domain", "named"]
"""How tasks are divided into slots."""


def _check_wholes(said: SlotChoice | SlotSettings) -> None:
    for name in WHOLES:
        most = getattr(said, name)
        if most is not None and most != inf and most % 1:
            raise ValueError(name)


class SlotChoice(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Choice of settings for a slot; None leaves a setting to the project.

    Attributes:
        delay: seconds from one dispatch to the next, or auto: as fast as the slot answers.
        rate: instead of a delay: tasks dispatched a second, on average; inf: no delay.
        burst: with a rate: tasks that may be dispatched at once after a quiet time.
        max_processing: leases at once, at most; inf: unlimited.
        max_tasks: new tasks of the slot so far at which further ones are rejected; inf: unlimited.

    Raises:
        ValueError: a setting that counts tasks is not a whole number.
    """

    delay: SlotDelay | None = None
    rate: SlotRate | None = None
    burst: SlotBurst | None = None
    max_processing: FromOne | None = None
    max_tasks: FromOne | None = None

    def __post_init__(self) -> None:
        _check_wholes(self)


PLAIN_CHOICE: Final = SlotChoice()

Choices = Mapping[str, SlotChoice]


class SlotSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The setting ``slot`` of a project.

    Attributes:
        by: how tasks are divided into slots with a pace of their own beside that of the project: by the host of the
            URL, by its registered domain, or only by the name that a task gives, which overrides the other two.
        delay: seconds from one dispatch of a slot to the next, or auto: as fast as the slot answers.
        min_delay, max_delay: bounds of an automatic delay; min_delay wins over max_delay.
        rate: instead of a delay: tasks of a slot dispatched a second, on average; inf: the delay applies.
        burst: with a rate: tasks of a slot that may be dispatched at once after a quiet time; at least 1.
        max_processing: leases of a slot at once, at most; inf: unlimited.
        max_tasks: new tasks of a slot so far at which further ones are rejected, follow-ups too, except those of cron
            entries, flows and ``on_finished``. inf: unlimited.
        patterns: choices for some slots, by pattern of their names.

    Raises:
        ValueError: a setting that counts tasks is not a whole number.
    """

    by: Division = "none"
    delay: SlotDelay = 1.0
    min_delay: SlotSeconds = 1.0
    max_delay: SlotSeconds = 60.0
    rate: SlotRate = inf
    burst: SlotBurst = 1.0
    max_processing: FromOne = 1.0
    max_tasks: FromOne = inf
    patterns: dict[str, SlotChoice] = {}

    def __post_init__(self) -> None:
        _check_wholes(self)


def says_rate(slot: Mapping[str, Setting]) -> bool:
    """Return whether the setting ``slot`` of a layer sets a rate; an infinite rate leaves it to the delay."""
    return slot.get("rate", inf) not in (inf, "inf")


def wrong_patterns(choices: Setting) -> Iterator[str]:
    """Report too many patterns and invalid ones; a value that is not a table is ignored."""
    if not isinstance(choices, dict):
        return
    if len(choices) > MAX_PATTERNS:
        yield f"slot.patterns: expected at most {MAX_PATTERNS} patterns, not {len(choices)}"
    for pattern in choices:
        if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN_CHARS:
            yield f"slot.patterns.{reader.shown(pattern)}: a pattern is a text of 1 to {MAX_PATTERN_CHARS} characters"


def wrong_choice(where: str, choice: SlotChoice) -> Iterator[str]:
    """Report what the type can't check of a choice."""
    if choice.delay is not None and choice.rate is not None:
        yield f"{where}: give one of delay and rate"
