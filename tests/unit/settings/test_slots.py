"""Settings that pace the slots of a project: layers, patterns, and invalid values."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from taskqueue.calendar import Calendar
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Setting
from taskqueue.settings.settings import Layer, Settings, as_layer, check, contradictions, merge, overlay, problems
from taskqueue.settings.slots import SlotChoice


def reason(*layers: Layer) -> str:
    """Return the reason why a project can't have these settings."""
    with pytest.raises(Rejected) as refused:
        check(merge({}, *layers), Calendar())
    assert refused.value.code == "setting"
    return refused.value.reason


def test_a_project_that_says_nothing_of_slots_has_none() -> None:
    slot = Settings().slot

    assert (slot.by, slot.delay, slot.rate, slot.patterns) == ("none", 1.0, inf, {})


def test_the_delay_of_slots_is_a_duration_in_milliseconds_if_need_be_or_automatic() -> None:
    said: list[Setting] = [0, 0.001, 2, "0.25s", "1.5h", "auto"]
    found = [merge({}, {"slot": {"delay": delay}}).slot.delay for delay in said]

    assert found == [0.0, 0.001, 2.0, 0.25, 5400.0, "auto"]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"slot": "host"}, 'slot must be a section, not "host"'),
        ({"slot": None}, "slot must be a section, not null"),
        (
            {"slot": {"by": "hosts"}},
            'slot.by must be one of "domain", "host", "named", "none", not "hosts"; did you mean host?',
        ),
        ({"slot": {"dely": 1}}, "slot.dely is not a setting; did you mean delay"),
        ({"slot_delay": 1}, "slot_delay is not a setting; did you mean slot.delay?"),
        ({"slot.delay": 1}, '"slot.delay" is not a setting; it is delay in the table slot'),
        (
            {"slot": {"delay": "automatic"}},
            'slot.delay must be a duration such as "90s" or "12h", or a number of seconds of at least 0 and at most '
            '1_000_000, or "auto", not "automatic"',
        ),
        ({"slot": {"delay": -1}}, "slot.delay must be a duration such as "),
        ({"slot": {"delay": inf}}, "slot.delay must be a duration such as "),
        ({"slot": {"delay": float("nan")}}, "slot.delay must be a duration such as "),
        ({"slot": {"min_delay": "auto"}}, "slot.min_delay must be a duration such as "),
        ({"slot": {"max_delay": 1_000_001}}, "slot.max_delay must be a duration such as "),
        ({"slot": {"rate": 0}}, "slot.rate must be a number of at least 0.0001 or inf, not 0"),
        ({"slot": {"burst": 0.5}}, "slot.burst must be a number of at least 1 and at most 1_000_000, not 0.5"),
        ({"slot": {"max_processing": 0}}, "slot.max_processing must be a whole number of at least 1 or inf, not 0"),
        ({"slot": {"max_processing": 1.5}}, "slot.max_processing must be a whole number of at least 1 or inf, not 1.5"),
        ({"slot": {"patterns": 7}}, "slot.patterns must be a section, not 7"),
        ({"slot": {"patterns": {"*.org": 7}}}, 'slot.patterns."*.org" must be a section, not 7'),
        (
            {"slot": {"patterns": {"*.org": {"dealy": 7}}}},
            'slot.patterns."*.org".dealy is not a setting; did you mean delay? There are ',
        ),
        (
            {"slot": {"patterns": {"*.org": {"delay": "slow"}}}},
            'slot.patterns."*.org".delay must be a duration such as ',
        ),
        (
            {"slot": {"patterns": {"*.org": {"rate": 0}}}},
            'slot.patterns."*.org".rate must be a number of at least 0.0001 or inf, not 0',
        ),
        (
            {"slot": {"patterns": {"a.org": {"max_processing": 1.5}}}},
            'slot.patterns."a.org".max_processing must be a whole number of at least 1 or inf, not 1.5',
        ),
        ({"slot": {"patterns": {"a": {"delay": 1, "rate": 1}}}}, "slot.patterns.a: give one of delay and rate"),
        ({"slot": {"patterns": {"": {"delay": 1}}}}, 'slot.patterns."": a pattern is a text of 1 to 300 characters'),
        ({"slot": {"patterns": {7: {"delay": 1}}}}, "slot.patterns.7: a pattern is a text of 1 to 300 characters"),
        (
            {"slot": {"patterns": {str(each): {} for each in range(101)}}},
            "slot.patterns: expected at most 100 patterns, not 101",
        ),
    ],
)
def test_people_are_told_which_setting_of_slots_is_wrong_and_why(layer: dict[str, Any], expected: str) -> None:
    told = reason(layer)

    assert told.startswith(expected)
    assert f"x.{told}" in problems("x", layer, Calendar())


def test_a_layer_says_either_the_delay_of_slots_or_their_rate() -> None:
    both: Layer = {"slot": {"delay": 1, "rate": 2}}

    assert reason(both) == "slot: give one of delay and rate"
    assert list(contradictions(both)) == ["slot: give one of delay and rate"]
    assert list(contradictions({"slot": {"delay": 1, "rate": inf}})) == []
    assert list(contradictions({"slot": {"delay": 1, "rate": "inf"}})) == []


@pytest.mark.parametrize(
    ("layers", "delay", "rate"),
    [
        ([{"slot": {"delay": 5}}, {"slot": {"rate": 2}}], 1.0, 2.0),
        ([{"slot": {"rate": 2}}, {"slot": {"delay": 5}}], 5.0, inf),
        ([{"slot": {"rate": 2}}, {"slot": {"rate": inf}}], 1.0, inf),
        ([{"slot": {"delay": 5}}, {"slot": {"rate": inf}}], 5.0, inf),
        ([{"slot": {"delay": 5}}, {"slot": {"rate": "inf"}}], 5.0, inf),
        ([{"slot": {"rate": 2}}, {"slot": {"delay": "auto", "rate": inf}}], "auto", inf),
        ([{"slot": {"rate": 2}}, {"slot": {"delay": 5}}, {"slot": {"rate": 3}}], 1.0, 3.0),
    ],
)
def test_the_delay_or_the_rate_of_a_later_layer_takes_the_place_of_either(
    layers: list[dict[str, Any]], delay: float | str, rate: float
) -> None:
    settings = merge({}, *layers)

    assert (settings.slot.delay, settings.slot.rate) == (delay, rate)


def test_what_people_said_of_the_rate_of_slots_makes_way_for_a_delay() -> None:
    said: dict[str, Setting] = {"slot": {"rate": 2, "burst": 4}}

    overlay(said, {"slot": {"delay": 5}})

    assert said == {"slot": {"delay": 5, "burst": 4}}


def test_patterns_of_layers_come_together_and_each_is_said_as_a_whole() -> None:
    defaults: Layer = {
        "slot": {"patterns": {"*.org": {"delay": 5, "max_processing": 2}, "a.org": {"delay": 1}, "b.org": {}}}
    }

    settings = merge(defaults, {"slot": {"patterns": {"*.org": {"rate": 3}}}}, {"slot": {"patterns": {"a.org": None}}})

    assert settings.slot.patterns == {"*.org": SlotChoice(rate=3.0), "b.org": SlotChoice()}


@pytest.mark.parametrize("pace", [{"slot": {"delay": "auto"}}, {"slot": {"delay": 0.25}}, {"slot": {"rate": 2.5}}])
def test_what_is_said_of_slots_goes_through_a_message_and_makes_the_same_settings(pace: dict[str, Any]) -> None:
    patterns = {
        "*.example.org": {"delay": "10s", "max_processing": inf},
        "a": {"rate": 3, "burst": 2},
        "b": {"delay": "auto"},
    }
    said: dict[str, Any] = {"slot": {"by": "host", "max_processing": 2, "max_delay": "5m", "patterns": patterns}}
    settings = merge({}, said, pace, {"slot": {"burst": 4}})

    layer = msgspec.msgpack.decode(msgspec.msgpack.encode(as_layer(settings)))

    assert layer["slot"]["patterns"]["*.example.org"] == {"delay": 10.0, "max_processing": inf}
    assert ("delay" in layer["slot"]) == ("rate" not in pace["slot"])
    assert as_layer(merge({}, layer)) == layer
    assert merge({}, layer) == settings
