"""Settings of a project that pace its slots: in layers, by pattern, and what can't be one."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from taskqueue.calendar import Calendar
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Setting
from taskqueue.settings.settings import Layer, Settings, as_layer, check, contradictions, merge, overlay, problems
from taskqueue.settings.slot_choice import SlotChoice


def reason(*layers: Layer) -> str:
    """Why a project can't have these settings."""
    with pytest.raises(Rejected) as refused:
        check(merge({}, *layers), Calendar())
    assert refused.value.code == "setting"
    return refused.value.reason


def test_a_project_that_says_nothing_of_slots_has_none() -> None:
    settings = Settings()

    assert (settings.slot, settings.slot_delay, settings.slot_rate, settings.slots) == ("none", 1.0, inf, {})


def test_the_delay_of_slots_is_a_duration_in_milliseconds_if_need_be_or_automatic() -> None:
    said: list[Setting] = [0, 0.001, 2, "0.25s", "1.5h", "auto"]

    assert [merge({}, {"slot_delay": delay}).slot_delay for delay in said] == [0.0, 0.001, 2.0, 0.25, 5400.0, "auto"]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"slot": "hosts"}, 'slot must be one of "domain", "host", "named", "none", not "hosts"'),
        (
            {"slot_delay": "automatic"},
            'slot_delay must be a duration such as "90s" or "12h", or a number of seconds of at least 0 and at most '
            '1_000_000, or "auto", not "automatic"',
        ),
        ({"slot_delay": -1}, "slot_delay must be a duration such as "),
        ({"slot_delay": inf}, "slot_delay must be a duration such as "),
        ({"slot_delay": float("nan")}, "slot_delay must be a duration such as "),
        ({"slot_min_delay": "auto"}, "slot_min_delay must be a duration such as "),
        ({"slot_max_delay": 1_000_001}, "slot_max_delay must be a duration such as "),
        ({"slot_rate": 0}, "slot_rate must be a number of at least 0.0001 or inf, not 0"),
        ({"slot_burst": 0.5}, "slot_burst must be a number of at least 1 and at most 1_000_000, not 0.5"),
        ({"slot_max_processing": 0}, "slot_max_processing must be a whole number of at least 1 or inf, not 0"),
        ({"slot_max_processing": 1.5}, "slot_max_processing must be a whole number of at least 1 or inf, not 1.5"),
        ({"slots": 7}, "slots must be a section, not 7"),
        ({"slots": {"*.org": 7}}, 'slots."*.org" must be a section, not 7'),
        ({"slots": {"*.org": {"dealy": 7}}}, 'slots."*.org".dealy is not a setting; did you mean delay? There are '),
        ({"slots": {"*.org": {"delay": "slow"}}}, 'slots."*.org".delay must be a duration such as '),
        ({"slots": {"*.org": {"rate": 0}}}, 'slots."*.org".rate must be a number of at least 0.0001 or inf, not 0'),
        (
            {"slots": {"a.org": {"max_processing": 1.5}}},
            'slots."a.org".max_processing must be a whole number of at least 1 or inf, not 1.5',
        ),
        ({"slots": {"a": {"delay": 1, "rate": 1}}}, "slots.a: give one of delay and rate"),
        ({"slots": {"": {"delay": 1}}}, 'slots."": a pattern is a text of 1 to 300 characters'),
        ({"slots": {7: {"delay": 1}}}, "slots.7: a pattern is a text of 1 to 300 characters"),
        ({"slots": {str(each): {} for each in range(101)}}, "slots: expected at most 100 patterns, not 101"),
    ],
)
def test_people_are_told_which_setting_of_slots_is_wrong_and_why(layer: dict[str, Any], expected: str) -> None:
    told = reason(layer)

    assert told.startswith(expected)
    assert f"x.{told}" in problems("x", layer, Calendar())


def test_a_layer_says_either_the_delay_of_slots_or_their_rate() -> None:
    both: Layer = {"slot_delay": 1, "slot_rate": 2}

    assert reason(both) == "slot_rate: give one of slot_delay and slot_rate"
    assert list(contradictions(both)) == ["slot_rate: give one of slot_delay and slot_rate"]
    assert list(contradictions({"slot_delay": 1, "slot_rate": inf})) == []


@pytest.mark.parametrize(
    ("layers", "delay", "rate"),
    [
        ([{"slot_delay": 5}, {"slot_rate": 2}], 1.0, 2.0),
        ([{"slot_rate": 2}, {"slot_delay": 5}], 5.0, inf),
        ([{"slot_rate": 2}, {"slot_rate": inf}], 1.0, inf),
        ([{"slot_delay": 5}, {"slot_rate": inf}], 5.0, inf),
        ([{"slot_rate": 2}, {"slot_delay": "auto", "slot_rate": inf}], "auto", inf),
        ([{"slot_rate": 2}, {"slot_delay": 5}, {"slot_rate": 3}], 1.0, 3.0),
    ],
)
def test_the_delay_or_the_rate_of_a_later_layer_takes_the_place_of_either(
    layers: list[dict[str, Any]], delay: float | str, rate: float
) -> None:
    settings = merge({}, *layers)

    assert (settings.slot_delay, settings.slot_rate) == (delay, rate)


def test_what_people_said_of_the_rate_of_slots_makes_way_for_a_delay() -> None:
    said: dict[str, Setting] = {"slot_rate": 2, "slot_burst": 4}

    overlay(said, {"slot_delay": 5})

    assert said == {"slot_delay": 5, "slot_burst": 4}


def test_patterns_of_layers_come_together_and_each_is_said_as_a_whole() -> None:
    defaults: Layer = {"slots": {"*.org": {"delay": 5, "max_processing": 2}, "a.org": {"delay": 1}, "b.org": {}}}

    settings = merge(defaults, {"slots": {"*.org": {"rate": 3}}}, {"slots": {"a.org": None}})

    assert settings.slots == {"*.org": SlotChoice(rate=3.0), "b.org": SlotChoice()}


@pytest.mark.parametrize("pace", [{"slot_delay": "auto"}, {"slot_delay": 0.25}, {"slot_rate": 2.5}])
def test_what_is_said_of_slots_goes_through_a_message_and_makes_the_same_settings(pace: dict[str, Any]) -> None:
    patterns = {
        "*.example.org": {"delay": "10s", "max_processing": inf},
        "a": {"rate": 3, "burst": 2},
        "b": {"delay": "auto"},
    }
    said: dict[str, Any] = {"slot": "host", "slot_max_processing": 2, "slot_max_delay": "5m", "slots": patterns}
    settings = merge({}, said | pace | {"slot_burst": 4})

    layer = msgspec.msgpack.decode(msgspec.msgpack.encode(as_layer(settings)))

    assert layer["slots"]["*.example.org"] == {"delay": 10.0, "max_processing": inf}
    assert ("slot_delay" in layer) == ("slot_rate" not in pace)
    assert as_layer(merge({}, layer)) == layer
    assert merge({}, layer) == settings
