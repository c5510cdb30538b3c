"""Settings as they are written on the command line."""

from __future__ import annotations

from math import inf
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.cli.input.settings import changes, parse
from taskqueue.display.projects import setting_text
from taskqueue.protocol.fields import Setting
from taskqueue.settings.flat_names import flat
from taskqueue.settings.settings import as_layer, merge


def test_settings_are_numbers_and_lists_of_numbers() -> None:
    words = ["rate=0.5", "burst=10", "retries=3", "retry_delay=30,60", "max_queue=inf"]

    assert parse(words) == {
        "rate": 0.5,
        "burst": 10,
        "retries": 3,
        "retry_delay": [30.0, 60.0],
        "max_queue": float("inf"),
    }


def test_durations_are_texts_or_seconds() -> None:
    words = ["keep.success=30d", "keep.failed=90", "keep.cancelled=inf", "keep.then=forget"]

    assert parse(words) == {"keep": {"success": "30d", "failed": 90, "cancelled": float("inf"), "then": "forget"}}


def test_a_single_delay_is_a_list_too() -> None:
    assert parse(["retry_delay=30"]) == {"retry_delay": [30.0]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rate"], '"rate" is not of the form name=value'),
        (["=5"], '"=5" is not of the form name=value'),
        (["rate="], 'rate must be a number of at least 0 or inf, not ""'),
        (["rate=five"], 'rate must be a number of at least 0 or inf, not "five"'),
        (["rate=nan"], 'rate must be a number of at least 0 or inf, not "nan"'),
        (["rate=1_000"], 'rate must be a number of at least 0 or inf, not "1_000"'),
        (
            ["retry_delay=30,,60"],
            'retry_delay must be durations with commas between them, such as 30s,5m,1h, not "30,,60"',
        ),
        (["rate=1,2"], 'rate must be a number of at least 0 or inf, not "1,2"'),
        (["rate=1", "rate=2"], "rate is given twice"),
        (["keep.failed=30 d"], 'keep.failed must be a duration such as "90s" or "12h", a number of seconds'),
        (["slot.delay=1", "slot.delay=2"], "slot.delay is given twice"),
        (["on_finished=null", "on_finished.url=u"], "on_finished.url is given twice"),
        (["cron.daily=5m"], "cron.daily is not JSON: "),
        (["fetch=proxy"], "fetch is not JSON: "),
        (["fetch=[1]"], "fetch must be a JSON object, such as 'fetch="),
        (['fetch={"a": NaN}'], "fetch is not JSON: NaN is no number"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(words: list[str], says: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        parse(words)

    assert says in str(caught.value)


def test_a_duration_that_may_be_found_by_itself_is_said_by_its_word() -> None:
    assert parse(["slot.delay=auto"]) == {"slot": {"delay": "auto"}}
    assert parse(["slot.delay=0.25"]) == {"slot": {"delay": 0.25}}
    with pytest.raises(click.BadParameter, match='or "auto", not "automatic"'):
        parse(["slot.delay=automatic"])


def test_texts_are_taken_as_they_are() -> None:
    assert parse(["group=papers", "active=Mon-Fri 08:00-12:00,13:00-18:00 Europe/Berlin", "bucket="]) == {
        "group": "papers",
        "active": "Mon-Fri 08:00-12:00,13:00-18:00 Europe/Berlin",
        "bucket": "",
    }


def test_tables_are_json() -> None:
    words = ['fetch={"proxy": "127.0.0.1:3128"}', "on_finished=null", 'cron={"a": {"every": "5m"}}']

    assert parse(words) == {
        "fetch": {"proxy": "127.0.0.1:3128"},
        "on_finished": None,
        "cron": {"a": {"every": "5m"}},
    }


def test_a_key_of_a_table_is_named_with_a_dot() -> None:
    words = ["slot.by=host", 'slot={"burst": 2}', "keep.failed=30d", "on_finished.age=1d", 'on_finished.body={"a": 1}']

    with pytest.raises(click.BadParameter, match="slot is given twice"):
        parse(words)
    assert parse([words[1], words[0], *words[2:]]) == {
        "slot": {"burst": 2, "by": "host"},
        "keep": {"failed": "30d"},
        "on_finished": {"age": "1d", "body": {"a": 1}},
    }


@pytest.mark.parametrize("name", ["slot.patterns.*.example.org", 'slot.patterns."*.example.org"'])
def test_a_pattern_may_have_dots_and_may_be_in_quotes(name: str) -> None:
    assert parse([f'{name}={{"delay": 5}}']) == {"slot": {"patterns": {"*.example.org": {"delay": 5}}}}


def test_a_value_of_fetch_is_json_or_a_text() -> None:
    words = ["fetch.proxy=127.0.0.1:3128", "fetch.timeout=7", 'fetch.headers={"a": "b"}']

    assert parse(words) == {"fetch": {"proxy": "127.0.0.1:3128", "timeout": 7, "headers": {"a": "b"}}}


def test_every_setting_can_be_given_as_it_is_shown() -> None:
    settings = as_layer(merge({}, {"slot": {"patterns": {"*.org": {"max_processing": inf, "rate": 2}}}}))

    said = parse(f"{name}={setting_text(value)}" for name, value in flat(settings))

    assert merge({}, said) == merge({}, settings)
    assert said.keys() == settings.keys()


def test_a_setting_that_is_unknown_here_is_left_to_the_daemon() -> None:
    assert parse(["speed=fast", "slot.dealy=2"]) == {"speed": "fast", "slot": {"dealy": "2"}}


def test_what_has_changed_is_told_with_what_it_was() -> None:
    before: dict[str, Setting] = {
        "rate": 1.0,
        "burst": 3.0,
        "group": "",
        "active": "",
        "fetch": {"proxy": "a:1", "b": 1},
    }
    hours = "22:00-06:00 Europe/Berlin"

    assert changes(before, before | {"rate": 5.0}) == "rate=5 (was 1)"
    assert changes(before, before | {"group": "papers", "active": hours}) == f"group=papers, 'active={hours}'"
    assert changes(before | {"group": "papers"}, before) == "group removed (was papers)"
    assert changes(before, before | {"fetch": {"b": 2}}) == "fetch.b=2 (was 1), fetch.proxy removed (was a:1)"
    assert changes(before, before) == "nothing changed"
    assert changes({"keep": {"then": "remember"}}, {"keep": {"then": "forget"}}) == "keep.then=forget (was remember)"


@given(
    st.dictionaries(
        st.sampled_from(["rate", "burst"]), st.floats(0, 1e9) | st.integers(0, 10**9) | st.just(float("inf"))
    ),
    st.dictionaries(st.sampled_from(["group", "active"]), st.text(min_size=1)),
    st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53), min_size=1),
)
def test_what_is_told_can_be_given_back(
    numbers: dict[str, float], texts: dict[str, str], fetch: dict[str, Any]
) -> None:
    settings: dict[str, Setting] = {**numbers, **texts, "fetch": fetch}

    assert parse(f"{name}={setting_text(value)}" for name, value in settings.items()) == settings
