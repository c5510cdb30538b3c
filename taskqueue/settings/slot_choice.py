"""How a project is divided into slots, and what is said of all of them, of some by pattern, and of one by an operator.

A slot is what a project paces apart: a host, a registered domain, or a name that its tasks give. Whatever is not said
of one or of some is as the project has it; which of several sayings counts is told in ``slot_pace``.
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
"""Patterns of one layer of one project."""
MAX_PATTERN_CHARS: Final = 300

WHOLES: Final = ("max_processing", "max_tasks")
"""What counts tasks of a slot."""

SlotSeconds = Annotated[float, Meta(ge=0, le=MAX_SLOT_DELAY_SECONDS, extra=DURATION)]
SlotDelay = SlotSeconds | Literal["auto"]
SlotRate = Annotated[float, Meta(ge=MIN_SLOT_RATE)]
SlotBurst = Annotated[float, Meta(ge=1, le=MAX_SLOT_BURST)]
FromOne = Annotated[float, Meta(ge=1, extra={"words": "a whole number of at least 1 or inf"})]
Division = Literal["none", "host", "domain", "named"]
"""What makes a slot of tasks."""


def _check_wholes(said: SlotChoice | SlotSettings) -> None:
    for name in WHOLES:
        most = getattr(said, name)
        if most is not None and most != inf and most % 1:
            raise ValueError(name)


class SlotChoice(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is said of a slot; None: nothing.

    Attributes:
        delay: seconds from one hand-out to the next, or auto: as fast as the slot answers.
        rate: instead of a delay: tasks handed out a second, on average; inf: no delay.
        burst: with a rate: tasks that may be handed out at once after a quiet time.
        max_processing: leases at once, at most; inf is unlimited.
        max_tasks: tasks that have been new in it at which further ones are rejected; inf is unlimited.

    Raises:
        ValueError: what counts tasks is no whole number.
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
        by: what divides its tasks into slots, each with a pace of its own beside that of the project: the host of the
            url, its registered domain, or only the name that a task gives, which wins over the other two.
        delay: seconds from one hand-out of a slot to the next, or auto: as fast as the slot answers.
        min_delay, max_delay: bounds of an automatic delay; the lower one wins over the upper one.
        rate: instead of a delay: tasks of a slot handed out a second, on average; inf: the delay says it.
        burst: with a rate: tasks of a slot that may be handed out at once after a quiet time; at least 1.
        max_processing: leases of a slot at once, at most; inf is unlimited.
        max_tasks: tasks that have been new in a slot at which further ones are rejected, follow-ups too; those of
            cron jobs, flows and ``on_finished`` apart. inf is unlimited.
        patterns: what is said of some slots instead, by pattern of their names.

    Raises:
        ValueError: what counts tasks is no whole number.
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
    """Whether the setting ``slot`` of a layer says a rate; an infinite one leaves it to the delay."""
    return slot.get("rate", inf) not in (inf, "inf")


def wrong_patterns(choices: Setting) -> Iterator[str]:
    """Say if there are too many patterns, and which texts are none; what is no table is not looked at."""
    if not isinstance(choices, dict):
        return
    if len(choices) > MAX_PATTERNS:
        yield f"slot.patterns: expected at most {MAX_PATTERNS} patterns, not {len(choices)}"
    for pattern in choices:
        if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN_CHARS:
            yield f"slot.patterns.{reader.shown(pattern)}: a pattern is a text of 1 to {MAX_PATTERN_CHARS} characters"


def wrong_choice(where: str, choice: SlotChoice) -> Iterator[str]:
    """What its type can't say of a choice."""
    if choice.delay is not None and choice.rate is not None:
        yield f"{where}: give one of delay and rate"
