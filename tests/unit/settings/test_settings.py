"""Layers of settings, and invalid ones; keys of the orders."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest
from msgspec.msgpack import Ext

from taskqueue.calendar import Calendar
from taskqueue.core.model.cron_times import next_tick
from taskqueue.core.model.task import KEY_BYTES, NO_FLOOR, key_time, ready_key, time_key
from taskqueue.errors import Rejected
from taskqueue.settings.own_tasks import CronEntry, Template
from taskqueue.settings.settings import KeepSettings, Layer, Settings, as_layer, check, merge
from taskqueue.settings.slots import SlotSettings


def test_later_layers_win_over_earlier_ones() -> None:
    settings = merge({"rate": 1, "burst": 2}, {"rate": 3}, {"retries": 0})

    assert (settings.rate, settings.burst, settings.retries, settings.processing_timeout) == (3, 2, 0, 600)


def test_no_layers_are_the_defaults() -> None:
    assert merge() == Settings()
    assert merge(as_layer(merge({"burst": 9}))) == Settings(burst=9)
    assert as_layer(Settings())["retry_delay"] == [30.0, 3600.0, 21600.0, 43200.0, 86400.0]


def test_a_duration_is_a_number_of_seconds_or_a_text() -> None:
    settings = merge({"keep": {"success": "30d", "failed": 90, "cancelled": "0s"}}, {"keep": {"then": "forget"}})

    assert settings.keep == KeepSettings(success=2_592_000, failed=90, cancelled=0, then="forget")
    assert merge(as_layer(settings)) == settings


def test_unlimited_is_said_with_inf() -> None:
    assert merge({"rate": inf, "burst": inf, "max_queue": inf}).rate == inf


def test_inf_may_be_a_text_because_json_lacks_the_number() -> None:
    said: Layer = {
        "rate": "inf",
        "max_queue": "inf",
        "keep": {"failed": "inf"},
        "slot": {"rate": "inf", "max_tasks": "inf"},
    }

    assert merge({}, said) == merge({}, {"rate": inf})


def test_a_layer_says_only_some_keys_of_a_table() -> None:
    defaults: dict[str, Any] = {"keep": {"failed": "1h", "then": "forget"}, "slot": {"by": "host", "delay": 9}}

    settings = merge(defaults, {"keep": {"failed": "2h"}}, {"slot": {"burst": 2}})

    assert settings.keep == KeepSettings(failed=7200, then="forget")
    assert settings.slot == SlotSettings(by="host", delay=9, burst=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rate", -0.1),
        ("rate", "fast"),
        ("rate", float("nan")),
        ("burst", 0),
        ("burst", float("nan")),
        ("processing_timeout", 0),
        ("processing_timeout", inf),
        ("retries", -1),
        ("retries", 1.5),
        ("retry_delay", []),
        ("retry_delay", [-1]),
        ("retry_delay", [inf]),
        ("retry_delay", [float("nan")]),
        ("retry_delay", 30),
        ("max_queue", 0),
        ("max_queue", float("nan")),
        ("max_que", 5),
        ("retry_delay", ["inf"]),
        ("pause_time", "inf"),
        ("keep", 5),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(Rejected, match=f"^setting: {key} ") as refused:
        merge({"retries": 3}, {key: value})

    assert refused.value.code == "setting"


def reason(layer: Layer) -> str:
    """Return the reason why a project can't have these settings."""
    with pytest.raises(Rejected) as refused:
        check(merge({}, layer), Calendar())
    assert refused.value.code == "setting"
    return refused.value.reason


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"rate": -1}, "rate must be a number of at least 0 or inf, not -1"),
        ({"rate": None}, "rate must be a number of at least 0 or inf, not null"),
        ({"rate": "fast" * 100}, f'rate must be a number of at least 0 or inf, not "{("fast" * 100)[:99]} …'),
        (
            {"retry_delay": [1, -1]},
            "retry_delay must be a list of 1 to 100 items, "
            'each a duration such as "90s" or "12h", '
            "or a number of seconds of at least 0 and at most 1_000_000_000, not [1, -1]",
        ),
        (
            {"keep": {"success": "a month"}},
            'keep.success must be a duration such as "90s" or "12h", '
            'a number of seconds of at least 0, or inf, not "a month"',
        ),
        ({"keep": {"success": -1}}, "keep.success must be a duration such as "),
        ({"keep": {"success": float("nan")}}, "keep.success must be a duration such as "),
        ({"keep": {"failed": "-5d"}}, "keep.failed must be a duration such as "),
        ({"keep": {"cancelled": "5w"}}, "keep.cancelled must be a duration such as "),
        ({"keep": {"cancelled": True}}, "keep.cancelled must be a duration such as "),
        ({"keep": {"then": True}}, 'keep.then must be one of "forget", "remember", not true'),
        ({"keep": {"sucess": 1}}, "keep.sucess is not a setting; did you mean success?"),
        ({"keep_success": 1}, "keep_success is not a setting; did you mean keep.success?"),
        ({"rat": 1}, "rat is not a setting; did you mean rate"),
        ({"weight": 0}, "weight must be a number of at least 0.1 and at most 1_000, not 0"),
        (
            {"bucket": "a b"},
            'bucket must be up to 64 ASCII letters, digits, "_", "-" and ".", but not "." or "..", not "a b"',
        ),
        (
            {"group": ".."},
            'group must be up to 64 ASCII letters, digits, "_", "-" and ".", but not "." or "..", not ".."',
        ),
        ({"fetch": 7}, "fetch must be a section, not 7"),
        ({"fetch": {7: 7}}, "fetch must be a section, not {7 = 7}"),
        ({"fetch": {"a": "x" * 65_536}}, "fetch: 65544 bytes, at most 65536 are taken in a setting"),
        ({"fetch": {"a": 2**70}}, "fetch: can't be encoded: "),
        ({"active": "at night"}, 'active: expected hours such as "22:00-06:00 Europe/Berlin", not "at night"'),
        (
            {"active": "22:00-06:00 Mars/X"},
            'active: "Mars/X" is not a known time zone such as "Europe/Berlin"',
        ),
        ({"on_finished": {"uri": "a"}}, "on_finished.uri is not a setting; did you mean url? There are url, taskid, "),
        (
            {"on_finished": {"priority": "high"}},
            "on_finished.priority must be a whole number of at least -2_147_483_648 ",
        ),
        ({"on_finished": {"taskid": "ä" * 65}}, "on_finished.taskid: expected at most 128 bytes of utf-8"),
        (
            {"on_finished": {"body": "x" * 65_536}},
            "on_finished.body: 65541 bytes, at most 65536 are taken in a setting",
        ),
        ({"cron": 7}, "cron must be a section, not 7"),
        ({"cron": {"nightly": 7}}, "cron.nightly must be a section, not 7"),
        ({"cron": {"nightly": {"zone": 7}}}, "cron.nightly.zone must be a text, not 7"),
        (
            {"cron": {"nightly": {"every": "0s"}}},
            'cron.nightly.every: expected whole seconds, such as "90s", "5m", "12h" or "30d"',
        ),
        (
            {"cron": {"nightly": {"every": "367d"}}},
            'cron.nightly.every: expected whole seconds, such as "90s", "5m", "12h" or "30d"',
        ),
        (
            {"cron": {"nightly": {"every": "5m", "task": {"x": 1}}}},
            "cron.nightly.task.x is not a setting; there are url, ",
        ),
        (
            {"cron": {"nightly": {"every": "5m", "task": {"url": "{tick}" + "x" * 8182}}}},
            "cron.nightly.task.url: expected at most 8192 characters",
        ),
        (
            {"cron": {"nightly": {"every": "5m", "task": {"body": "{tick}" * 10_000}}}},
            "cron.nightly.task.body: 110005 bytes, at most 65536 are taken in a setting",
        ),
        (
            {"cron": {"nightly": {"every": "5m", "task": {"body": 2**70}}}},
            "cron.nightly.task.body: can't be encoded: ",
        ),
        (
            {"cron": {"nightly": {"cron": "0 3 * * *", "zone": "Europe/Berln"}}},
            'cron.nightly.zone: "Europe/Berln" is not a known time zone',
        ),
    ],
)
def test_people_are_told_which_setting_is_wrong_and_why(layer: dict[str, Any], expected: str) -> None:
    assert reason(layer).startswith(expected)


def test_every_duration_may_be_said_as_a_text() -> None:
    settings = merge({}, {
        "processing_timeout": "10m", "pause_time": "1.5h", "retry_delay": ["30s", 60, "1h"], "keep": {"failed": "30d"},
        "on_finished": {"age": "1d", "timeout": "90"},
        "cron": {"nightly": {"every": "1.5h", "task": {"age": "12h"}}},
    })  # fmt: skip

    assert (settings.processing_timeout, settings.pause_time, settings.keep.failed) == (600.0, 5400.0, 2_592_000.0)
    assert settings.retry_delay == (30.0, 60.0, 3600.0)
    assert settings.on_finished is not None
    assert (settings.on_finished.age, settings.on_finished.timeout) == (86_400.0, 90.0)
    assert settings.cron["nightly"].task.age == 43_200.0


@pytest.mark.parametrize(("said", "text"), [(300, "300s"), (300.0, "300.0s"), ("300", "300"), ("5m", "5m")])
def test_how_often_an_entry_runs_is_a_duration_like_others(said: Any, text: str) -> None:
    entry = merge({}, {"cron": {"a": {"every": said}}}).cron["a"]

    assert entry.every == text
    assert next_tick(entry, Calendar(), 1000.0) == 1200.0


@pytest.mark.parametrize("every", [0, -5, 0.5, 1e9, True, ["5m"]])
def test_a_number_that_is_no_whole_time_is_none_between_two_runs(every: Any) -> None:
    assert reason({"cron": {"a": {"every": every}}}).startswith("cron.a")


@pytest.mark.parametrize("text", ["10", "5 m", "5M", "1h30m", "-5m", "٣m", "m", ""])
def test_a_text_is_a_duration_or_is_refused(text: str) -> None:
    if text == "10":
        assert merge({}, {"processing_timeout": text}).processing_timeout == 10.0
    else:
        assert reason({"processing_timeout": text}).startswith("processing_timeout must be a duration such as ")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a\n", "x" * 65, 7])
def test_the_name_of_an_entry_has_1_to_64_letters_digits_and_two_signs(name: Any) -> None:
    assert reason({"cron": {name: {"every": "5m"}}}).endswith(
        ': an entry\'s name is 1 to 64 ASCII letters, digits, "_" and "-"'
    )
    assert merge({}, {"cron": {"Az-09_": {"every": "5m"}}}).cron["Az-09_"].every == "5m"


def test_tables_are_merged_key_by_key_and_an_entry_as_a_whole() -> None:
    config: dict[str, Any] = {
        "fetch": {"proxy": "a", "timeout": 7},
        "on_finished": {"url": "u", "priority": 1},
        "cron": {"a": {"cron": "0 3 * * *", "zone": "Europe/Berlin"}, "b": {"every": "1h"}},
    }

    settings = merge(
        {}, config, {"fetch": {"proxy": "b"}, "on_finished": {"priority": 2}, "cron": {"a": {"every": "1d"}}}
    )

    assert settings.fetch == {"proxy": "b", "timeout": 7}
    assert settings.on_finished == Template(url="u", priority=2)
    assert settings.cron == {"a": CronEntry(every="1d"), "b": CronEntry(every="1h")}


def test_a_later_layer_can_take_tables_and_entries_away() -> None:
    config: dict[str, Any] = {"on_finished": {"url": "u"}, "cron": {"a": {"every": "1h"}, "b": {"every": "1h"}}}

    settings = merge({}, config, {"on_finished": None, "cron": {"a": None}})

    assert (settings.on_finished, list(settings.cron)) == (None, ["b"])


def test_layers_that_are_good_are_good_together() -> None:
    hundred = {f"config-{number}": {"every": "1h"} for number in range(100)}
    more = {f"own-{number}": {"every": "1h"} for number in range(100)}

    assert len(merge({}, {"cron": hundred}, {"cron": more}).cron) == 200
    assert reason({"cron": hundred | {"last": {"every": "1h"}}}) == "cron: expected at most 100 entries, not 101"


@pytest.mark.parametrize(
    ("defaults", "own", "said", "rate"),
    [
        ({"rate": 2}, {}, {}, 2),
        ({"rate": 2}, {"bucket": "shop"}, {}, inf),
        ({"rate": 2, "bucket": "shop"}, {}, {}, inf),
        ({"rate": 2}, {"bucket": "shop", "rate": 3}, {}, 3),
        ({"rate": 2}, {"rate": 3}, {"bucket": "shop"}, 3),
        ({"rate": 2}, {"bucket": "shop"}, {"rate": 4}, 4),
        ({"rate": 2}, {"bucket": "shop"}, {"bucket": ""}, 2),
    ],
)
def test_who_shares_a_bucket_has_no_rate_of_its_own_but_what_its_own_layers_say(
    defaults: dict[str, Any], own: dict[str, Any], said: dict[str, Any], rate: float
) -> None:
    assert merge(defaults, own, said).rate == rate


@pytest.mark.parametrize("body", [None, "text", b"\xff", 2**64 - 1, [{"a": [None, 1.5]}], {1: 2}, Ext(5, b"x"), False])
def test_settings_as_people_see_them_go_through_a_message_and_make_the_same_settings(body: Any) -> None:
    task = {"url": "u", "taskid": "t", "priority": -1, "retries": 0, "age": 9.0, "timeout": 8.0, "body": body}
    settings = merge({}, {
        "rate": 2, "bucket": "shop", "group": "g", "active": "08:00-12:00", "fetch": {"a": body}, "on_finished": task,
        "cron": {"a": {"every": "5m", "task": task}, "b": {"cron": "0 3 * * *", "zone": "UTC", "missed": "once"}},
    })  # fmt: skip

    layer = msgspec.msgpack.decode(msgspec.msgpack.encode(as_layer(settings)))

    assert as_layer(merge({}, layer)) == layer
    assert merge({}, layer) == settings


def test_keys_of_ready_tasks_sort_by_priority_then_age() -> None:
    top, bottom = 2**31 - 1, -(2**31)
    keys = [ready_key(top, 0), ready_key(top, 9), ready_key(1, 2), ready_key(0, 1), ready_key(bottom, 2**64 - 1)]

    assert keys == sorted(keys)
    assert len({key.to_bytes(KEY_BYTES, "big") for key in keys}) == len(keys)
    assert max(keys) < NO_FLOOR


@pytest.mark.parametrize("at", [0.0, 0.000001, 1_700_000_000.123456, 1e11 + 1e9])
def test_keys_of_times_tell_the_time_to_a_microsecond_and_never_an_earlier_one(at: float) -> None:
    key = time_key(at, 2**64 - 1)

    assert at <= key_time(key) <= at + 2e-6 + at * 2**-52
    assert key < NO_FLOOR


def test_a_value_that_is_nested_without_end_is_quoted_as_far_as_anybody_would_read() -> None:
    nested: list[Any] = []
    for _ in range(5_000):
        nested = [{"a": nested}]

    with pytest.raises(Rejected) as caught:
        merge({"rate": nested})
    assert caught.value.reason == "rate must be a number of at least 0 or inf, not [{a = [{a = …}]}]"
