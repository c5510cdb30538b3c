"""Tasks in MessagePack: equal to those in JSON, with unchanged bodies, and complaints about anything else."""

from __future__ import annotations

import io
import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.cli.input.packed_tasks import plain_task
from taskqueue.cli.input.task_lines import TaskLines, parse
from taskqueue.client.tasks.new_task import new_task
from taskqueue.protocol.value_stream import values

URL = {"url": "http://site/"}

TEXTS = st.text(max_size=6)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)
TASKS = st.fixed_dictionaries(
    {"url": st.sampled_from(["http://site/", "HTTPS://Site:443/?b=1&a=2#top", "data:,x"])},
    optional={
        "taskid": st.sampled_from(["a", "é" * 64, "é" * 65, "a" * 129, "", None]),
        "priority": st.sampled_from([0, 5, -7, 2**31, "high"]),
        "exetime": st.sampled_from([0, 5, 1e9, "2027-01-31T18:00:00+01:00", "soon"]),
        "delay": st.sampled_from([60, 1.5, -1]),
        "schedule": st.sampled_from([{}, {"itag": "v2"}, {"priority": 5}, {"speed": 1}, 7]),
        "age": st.sampled_from([60, None]),
        "slot": st.sampled_from(["shop", "", None, "a\n"]),
        "recrawl": st.sampled_from(
            [{"min": 60, "max": 60.5}, {"min": "1h", "max": "2d"}, {"min": 9, "max": 5}, None, 7]
        ),
        "force_update": st.booleans(),
        "canonical": st.booleans(),
        "fetch": st.sampled_from([{}, {"method": "POST", "data": "x"}, {"headers": {"a": "b"}}, [1], None]),
        "process": PLAIN,
        "save": PLAIN,
        "body": st.none() | st.just({"page": 1}),
        "colour": st.none(),
    },
)


def outcome(line: str | bytes, defaults: dict[str, Any]) -> Any:
    try:
        return parse(line, defaults)
    except ValueError as error:
        return str(error)


@given(TASKS, st.sampled_from([{}, {"priority": 9}, {"save": {"all": 1}}]))
def test_a_map_means_what_the_same_line_of_json_means(said: dict[str, Any], defaults: dict[str, Any]) -> None:
    assert outcome(msgpack.packb(said), defaults) == outcome(json.dumps(said), defaults)


ODD = b"\x84\xa1a\xcd\x00\x01\xa1b\xc4\x02\xff\x00\xa1c\xca\x41\x20\x00\x00\x07\xd4\x05x"
"""Map with a number in a longer form than needed, bytes, a short float, a numeric key, an extension."""


@pytest.mark.parametrize("defaults", [{}, {"priority": 9}])
def test_a_body_goes_as_the_bytes_that_stand_in_the_file(defaults: dict[str, Any]) -> None:
    packed = b"\x82" + b"".join(map(msgpack.packb, ["url", "http://site/", "body"])) + ODD

    assert bytes(parse(packed, defaults).body) == ODD


@pytest.mark.parametrize("defaults", [{}, {"priority": 9}])
def test_save_and_process_go_as_the_bytes_that_stand_in_the_file(defaults: dict[str, Any]) -> None:
    packed = b"\x83" + b"".join(map(msgpack.packb, ["url", "http://site/"]))
    packed += b"\xa4save" + ODD + b"\xa7process" + ODD

    assert bytes(parse(packed, defaults).body) == b"\x82\xa7process" + ODD + b"\xa4save" + ODD


def test_a_plain_map_is_read_at_once() -> None:
    said: dict[str, Any] = {**URL, "priority": 5, "fetch": {"method": "POST", "data": "x"}, "save": {"page": 1}}

    assert plain_task(msgpack.packb(said)) == new_task(**said)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "not a map of a task"),
        ([URL], "not a map of a task"),
        ({1: 2}, "not a map of a task"),
        ({}, "there is no url"),
        ({**URL, "colour": 1}, "colour is not a field of a task; there are url, taskid"),
        ({**URL, "body": 1, "save": 2}, "body: give either body or fetch, process and save"),
        ({"url": "mailto:ann@site"}, "mailto:ann@site"),
        ({**URL, "exetime": "soon"}, "exetime"),
        ({"url": 7}, "url"),
        ({**URL, "repeat": 3}, r"^schedule\.repeat: goes with a task that recurs"),
        ({**URL, "schedule": {"auto_recrawl": True}}, r"^schedule\.auto_recrawl: goes with age"),
    ],
)
def test_what_is_no_task_is_said(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(msgpack.packb(value), {})


def test_a_file_that_is_cut_off_gives_what_comes_before() -> None:
    told: list[str] = []
    content = msgpack.packb(URL) + msgpack.packb(7) + msgpack.packb({"url": "http://site/b"}) + b"\x81\xa3ur"
    lines = TaskLines("a.msgpack: task ", values(io.BytesIO(content)), {}, told.append)

    assert [task.url for task in lines] == ["http://site/", "http://site/b"]

    assert lines.bad == 2
    assert [said.partition(" can't")[0] for said in told] == [
        "a.msgpack: task 2: not a map of a task: expected map, got int",
        "a.msgpack: it ends within the value that begins at byte 38",
    ]
    assert lines.where(1) == "a.msgpack: task 3"
