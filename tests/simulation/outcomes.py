"""Outcomes of new tasks, follow-ups included, from requests and their replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.simulation.truth import Name

Message = dict[str, Any]


def outcomes(request: Message, reply: Message) -> Iterable[tuple[Name, str]]:
    """Yield the outcome of each new task of a request, follow-ups included."""
    if reply["type"] == "new-task-reply":
        yield from paired(request["tasks"], reply["outcomes"], request["project"])
    elif reply["type"] == "done-reply":
        for pairs in follow_ups(request, reply):
            yield from pairs


def follow_ups(request: Message, reply: Message) -> list[list[tuple[Name, str]]]:
    """List the outcomes of follow-ups, for each item of a ``done``."""
    lists = reply.get("new") or [[] for _ in request["tasks"]]
    return [
        list(paired(item.get("new", []), became, item["project"]) if became else [])
        for item, became in zip(request["tasks"], lists, strict=True)
    ]


def paired(items: list[Message], became: list[str], project: str) -> Iterable[tuple[Name, str]]:
    """Yield each new task with its outcome."""
    for item, outcome in zip(items, became, strict=True):
        yield Name(item.get("project") or project, item["taskid"]), outcome


def by_request(said: list[tuple[bytes, Message]]) -> dict[tuple[bytes, int], list[Message]]:
    """Group replies by peer and number of the request."""
    replies: dict[tuple[bytes, int], list[Message]] = {}
    for peer, message in said:
        if "n" in message:
            replies.setdefault((peer, message["n"]), []).append(message)
    return replies


def first_task(request: Message) -> str:
    """Find a taskid in a request; empty if there is none."""
    tasks = request.get("tasks") or [{}]
    taskids = request.get("taskids") or [tasks[0].get("taskid", "")]
    return str(taskids[0])
