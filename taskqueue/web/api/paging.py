"""Pages: each reply that has a page after it says its address, in ``next`` and in a Link header (RFC 8288)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from taskqueue.protocol.daemon import DaemonHistoryReply, StatusReply
from taskqueue.protocol.fetchers import FetchersReply
from taskqueue.protocol.flows import FlowsReply, FlowTasksReply
from taskqueue.protocol.insight import HistoryReply, LogReply, StatsReply, WhyReply
from taskqueue.protocol.tasks import TaskChildrenReply, TaskListReply, TaskParentsReply
from taskqueue.web.access.visitors import root_of
from taskqueue.web.api.decoding import query_of

Arguments = Mapping[str, Any] | None


def address(request: Request, changed: Mapping[str, Any]) -> str:
    """Of this request, with these arguments of the query changed."""
    query = [(name, value) for name, value in query_of(request) if name not in changed]
    return f"{root_of(request)}{request.scope['path']}?{urlencode([*query, *changed.items()])}"


def link(following: str) -> str:
    """The value of the header."""
    return f'<{following}>; rel="next"'


def of_projects(reply: StatusReply, said: Mapping[str, Any]) -> Arguments:
    """By name after the last one; in another order by how many there were."""
    if not reply.more:
        return None
    if said["sort"] == "name":
        return {"after": reply.projects[-1].name, "skip": 0}
    return {"skip": said["skip"] + len(reply.projects)}


def of_fetchers(reply: FetchersReply, said: Mapping[str, Any]) -> Arguments:
    """By pseudonym after the last one; in another order by how many there were."""
    if not reply.more:
        return None
    if said["sort"] == "session":
        return {"after": reply.fetchers[-1].session, "skip": 0}
    return {"skip": said["skip"] + len(reply.fetchers)}


def of_stats(reply: StatsReply, said: Mapping[str, Any]) -> Arguments:
    """By name after the last one."""
    return {"after": reply.projects[-1].name} if reply.more else None


def of_points(reply: HistoryReply | DaemonHistoryReply, said: Mapping[str, Any]) -> Arguments:
    """From a time on."""
    return {"since": reply.next} if reply.next else None


def of_tasks(reply: TaskListReply | TaskChildrenReply | WhyReply, said: Mapping[str, Any]) -> Arguments:
    """After a place in the order."""
    return {"after": reply.next} if reply.next else None


def of_parents(reply: TaskParentsReply | FlowTasksReply, said: Mapping[str, Any]) -> Arguments:
    """After a number."""
    return None if reply.next is None else {"after": reply.next}


def of_flows(reply: FlowsReply, said: Mapping[str, Any]) -> Arguments:
    """After the last one, by project and name."""
    return {"after": f"{reply.flows[-1].project}/{reply.flows[-1].flow}"} if reply.more else None


def of_changes(reply: LogReply, said: Mapping[str, Any]) -> Arguments:
    """Before a number."""
    return {"before": reply.next} if reply.next else None
