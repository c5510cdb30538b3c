"""Steps of an import in JSON: tasks as in lines of an export, and the project with its settings."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.msgpack import decode

from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.exports import ProjectImport
from taskqueue.protocol.values import Attempt
from taskqueue.web.api.exports import with_parts
from taskqueue.web.api.problems import Problem

BEGIN: dict[str, Any] = {"parts": 2, "state": "stopped", "settings": {"rate": 5.0}, "totals": {"new": 3}}
TASKS: list[dict[str, Any]] = [
    {
        "taskid": "a",
        "state": "processing",
        "url": "http://a/",
        "deferred": {"url": "http://b/", "body": {"x": [1]}},
        "attempts": [[5.0, "failed", "web1", 1.5, "503"]],
    },
    {"taskid": "b", "state": "success", "url": "http://b/", "body": {"$msgpack": "xAEA"}, "result": None},
]


def step(**fields: Any) -> ProjectImport:
    """Make the step that a body with these fields asks for, as the daemon reads it."""
    said: dict[str, Any] = {
        "project": "news",
        "export": "x",
        "begin": None,
        "first": 0,
        "tasks": [],
        "every": "hour",
        "points": [],
    }
    request, _ = decode_request(encode(ProjectImport(session="web", n=1, **with_parts(said | fields))))
    assert isinstance(request, ProjectImport)
    return request


def test_a_project_and_tasks_are_taken_as_json_has_them() -> None:
    begin, (a, b) = step(begin=BEGIN).begin, step(tasks=TASKS).tasks

    assert begin is not None
    assert a.deferred is not None
    assert (begin.parts, begin.state, decode(begin.settings)) == (2, "stopped", {"rate": 5.0})
    assert a.attempts == [Attempt(5.0, "failed", "web1", 1.5, "503")]
    assert (decode(a.deferred.body), decode(b.body), decode(b.result)) == ({"x": [1]}, b"\0", None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"begin": {"parts": -1}}, "begin.parts: expected int >= 0"),
        ({"tasks": [TASKS[0], TASKS[1] | {"state": "gone"}]}, "tasks[1].state: 'gone' is none of"),
        ({"tasks": [TASKS[0] | {"hat": 1}]}, "tasks[0]: unknown field hat"),
    ],
)
def test_what_is_wrong_with_a_part_is_said_with_its_place(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Problem) as refused:
        step(**fields)

    assert refused.value.detail.startswith(reason)
