"""Decoding of any bytes ends in a message or in Rejected."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskqueue.errors import Rejected
from taskqueue.protocol.codec import decode_outgoing, decode_request, encode, request_number
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import Token
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import Assignment, NewTask
from tests.nightly import usually

TASK: dict[str, Any] = {
    "taskid": "é" * 20,
    "url": "http://a/",
    "schedule": {"priority": 1, "exetime": 2.5, "age": 9.0, "slot": "a", "recrawl": {"min": 1, "max": 2.5}},
    "body": [1, {"a": b"b"}],
}
FETCHED: dict[str, Any] = {"status_code": 503, "seconds": 0.5, "error_kind": "http", "changed": True, "etag": "é"}
FINISHED: dict[str, Any] = {
    "project": "p", "taskid": "a", "token": 5, "ok": False, "new": [TASK, TASK], "fetched": FETCHED,
}  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "hello": {"capacity": 5, "projects": ["p"], "holds": [1, 2], "seen": 3, "name": "x"},
    "new-task": {"project": "p", "tasks": [TASK, TASK]},
    "done": {"tasks": [FINISHED, FINISHED]},
    "extend": {"tokens": [1, 2], "seconds": 5.0},
    "project-set": {
        "project": "p",
        "settings": {"rate": 5.0, "retry_delay": [1.0], "fetch": {"headers": {"a": [None]}}, "on_finished": None},
    },
    "task-show": {"project": "p", "taskid": "é" * 20},
    "status": {"after": "a", "limit": 5, "group": "g"},
    "stats": {"after": "a", "limit": 5, "group": "g"},
    "project-unset": {"project": "p", "keys": ["cron.night"]},
    "group-do": {"group": "g", "action": "clear"},
    "project-wait": {"project": "p", "seconds": 5.0},
    "task-wait": {"project": "p", "taskid": "é" * 20, "seconds": 5.0},
    "project-hold": {"project": "p", "seconds": 5},
    "why": {"project": "p", "taskid": "é" * 20},
    "task-list": {"project": "p", "state": "failed", "url": "*", "after": "ff", "limit": 5},
    "bulk": {
        "action": "reprioritise",
        "group": "g",
        "filter": {"states": ["ready"], "url": "*", "error": "*", "before": 5.0},
        "priority": -1,
        "exetime": 5.0,
        "delay": 5,
        "dry_run": True,
    },
    "operation-undo": {"id": 5},
    "operation-show": {"id": 5, "seconds": 5.0},
    "operation-list": {},
    "watch": {"since": "7.12", "seconds": 5.0},
}
SAID: list[dict[str, Any]] = [
    {
        "type": "select",
        "v": 1,
        "number": 1,
        "tasks": [{**FINISHED, "url": "u", "timeout": 1.0}],
        "fetch": {"p": {"proxy": "x"}},
    },
    {"type": "wait-reply", "v": 1, "n": 1, "finished": False, "unfinished": 2},
    {"type": "task-list-reply", "v": 1, "n": 1, "tasks": [{"taskid": "a", "url": "u", "at": 1.5}], "next": "f"},
    {
        "type": "stats-reply",
        "v": 1,
        "n": 1,
        "projects": [{"name": "p", "totals": {}, "windows": {"5m": {"new": 1}}}],
        "more": True,
    },
    {
        "type": "operation-reply",
        "v": 1,
        "n": 1,
        "operation": {
            "id": 1,
            "action": "retry",
            "projects": ["p"],
            "dry_run": False,
            "known": 1,
            "seen": 1,
            "matched": 1,
            "began_at": 1.5,
        },
    },
    {"type": "error", "v": 1, "n": 0, "code": "malformed", "reason": "é"},
    {"type": "new-task-reply", "v": 1, "n": 1, "outcomes": ["new"], "errors": [{"index": 0, "reason": "x"}]},
]
HEAD = {"v": 1, "session": "s", "n": 7}
VALID = [msgpack.packb({"type": type_, **HEAD, **fields}) for type_, fields in FIELDS.items()]
VALID += [msgpack.packb(message) for message in SAID]


def survives(raw: bytes) -> None:
    with suppress(Rejected):
        request, flaws = decode_request(raw)
        assert missing(request) == set(flaws)
    with suppress(Rejected):
        decode_outgoing(raw)
    assert request_number(raw) >= 0


def missing(request: object) -> set[tuple[int, ...]]:
    """Return paths of the items of a batch that could not be decoded."""
    if isinstance(request, NewTasks):
        return {(index,) for index, task in enumerate(request.tasks) if task is None}
    if not isinstance(request, Done):
        return set()
    paths: set[tuple[int, ...]] = set()
    for index, item in enumerate(request.tasks):
        new = [None] if item is None else item.new
        paths |= {(index,) if item is None else (index, at) for at, task in enumerate(new) if task is None}
    return paths


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_rejected(raw: bytes) -> None:
    survives(raw)


@settings(max_examples=usually(500, nightly=1500))
@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_message_with_changed_bytes_is_a_message_or_rejected(raw: bytes, changes: list[tuple[int, int]]) -> None:
    mutated = bytearray(raw)
    for place, value in changes:
        mutated[place % len(raw)] = value

    survives(bytes(mutated))


@given(st.sampled_from(VALID), st.integers(0, 400), st.binary(max_size=20))
def test_a_message_cut_or_filled_is_a_message_or_rejected(raw: bytes, place: int, filling: bytes) -> None:
    survives(raw[:place])
    survives(raw[:place] + filling + raw[place:])


numbers = st.integers(-(2**63), 2**64 - 1) | st.floats()
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=usually(200, nightly=500))
@given(st.sampled_from(sorted(FIELDS)), st.data())
@example("done", None)
def test_a_message_with_any_values_is_a_message_or_rejected(type_: str, data: st.DataObject | None) -> None:
    message: dict[str, Any] = {"type": type_, **HEAD, **FIELDS[type_]}
    if data is not None:
        message[data.draw(st.sampled_from(sorted(message)))] = data.draw(anything | st.lists(anything))

    survives(msgpack.packb(message))


@pytest.mark.parametrize("depth", [500, 2_000, 200_000])
@pytest.mark.parametrize("opener", [b"\x91", b"\x81\xa1a", b"\xdd\x00\x00\x00\x01"])
@pytest.mark.parametrize(
    "start", [b"", msgpack.packb({"type": "new-task", **HEAD, "project": "p", "tasks": [TASK]})[:-10]]
)
def test_deep_nesting_is_survived(start: bytes, opener: bytes, depth: int) -> None:
    survives(start + opener * depth + b"\xc0")


def test_a_body_nested_too_deep_is_refused() -> None:
    body = b"\x91" * 100_000 + b"\xc0"
    task = msgpack.packb({"taskid": "a", "url": "u", "body": None})[:-1] + body
    raw = msgpack.packb({"type": "new-task", **HEAD, "project": "p", "tasks": [None]})[:-1] + task

    with pytest.raises(Rejected, match="nested too deep"):
        decode_request(raw)


@pytest.mark.parametrize("depth", range(100, 1100, 7))
def test_a_body_that_is_taken_can_be_read_from_deeper_in_the_stack(depth: int) -> None:
    body = msgspec.Raw(b"\x91" * depth + b"\xc0")
    request = encode(NewTasks(session="s", n=1, project="p", tasks=[NewTask("a", "u", body=body)]))
    select = encode(Select(number=1, tasks=[Assignment("p", "a", "u", Token(1), 1.0, body)]))

    def read(frames: int) -> object:
        return read(frames - 1) if frames else decode_outgoing(select)

    taken = False
    with suppress(Rejected):
        taken = bool(decode_request(request))

    assert not taken or isinstance(read(150), Select)


def test_a_body_of_a_hundred_levels_is_taken() -> None:
    body = msgspec.Raw(b"\x91" * 100 + b"\xa3" + b"xxx")
    tasks: list[NewTask | None] = [NewTask(f"t{n}", "u", body=body) for n in range(10)]

    assert decode_request(encode(NewTasks(session="s", n=1, project="p", tasks=tasks)))[1] == {}


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_body_cut_short_is_never_taken(cut: int) -> None:
    body = msgpack.packb({"a": [1, 2.5, "text", b"bytes"], "b": msgpack.ExtType(5, b"12345678")})
    task = msgpack.packb({"taskid": "a", "url": "u", "body": None})[:-1]
    raw = msgpack.packb({"type": "new-task", **HEAD, "project": "p", "tasks": [None]})[:-1] + task + body

    assert decode_request(raw)[1] == {}
    with pytest.raises(Rejected):
        decode_request(raw[:-cut])


@pytest.mark.parametrize(
    "length",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"],
)
@pytest.mark.parametrize(
    "field", ["holds", "projects", "tasks", "tokens", "settings", "keys", "taskids", "body", "session"]
)
def test_a_length_that_lies_costs_no_memory(field: str, length: bytes) -> None:
    types = {
        "holds": "hello",
        "projects": "hello",
        "tasks": "done",
        "tokens": "release",
        "settings": "project-set",
    }
    type_ = types.get(field, "project-unset")
    raw = msgpack.packb({"type": type_, **HEAD, "project": "p", field: None})[:-1] + length

    survives(raw)
    survives(msgpack.packb({"type": type_, **HEAD, field: None})[:-1] + length)
