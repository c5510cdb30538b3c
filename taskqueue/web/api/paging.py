"""Pages: a reply has the address of the next page, in ``next`` and in a Link header (RFC 8288)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from taskqueue.protocol.daemon import DaemonHistoryReply, KeyListReply, StatusReply
from taskqueue.protocol.fetchers import FetchersReply
from taskqueue.protocol.flows import FlowsReply, FlowTasksReply
from taskqueue.protocol.insight import HistoryReply, JobCountsReply, LogReply, StatsReply, WhyReply
from taskqueue.protocol.tasks import TaskChildrenReply, TaskListReply, TaskParentsReply
from taskqueue.web.access.visitors import root_of
from taskqueue.web.api.decoding import query_of

Arguments = Mapping[str, Any] | None


def address(request: Request, changed: Mapping[str, Any]) -> str:
    """Return the address of this request with some arguments of the query changed."""
    query = [(name, value) for name, value in query_of(request) if name not in changed]
    return f"{root_of(request)}{request.scope['path']}?{urlencode([*query, *changed.items()])}"


def link(following: str) -> str:
    """Format the value of the Link header."""
    return f'<{following}>; rel="next"'


def of_projects(reply: StatusReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of projects: after the last name, or in other orders a skip."""
    if not reply.more:
        return None
    if said["sort"] == "name":
        return {"after": reply.projects[-1].name, "skip": 0}
    return {"skip": said["skip"] + len(reply.projects)}


def of_fetchers(reply: FetchersReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of fetchers: after the last session, or in other orders a skip."""
    if not reply.more:
        return None
    if said["sort"] == "session":
        return {"after": reply.fetchers[-1].session, "skip": 0}
    return {"skip": said["skip"] + len(reply.fetchers)}


def of_stats(reply: StatsReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of statistics: after the last name."""
    return {"after": reply.projects[-1].name} if reply.more else None


def of_points(reply: HistoryReply | DaemonHistoryReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of a history: since the next time."""
    return {"since": reply.next} if reply.next else None


def of_keys(reply: KeyListReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of keys: after the last name."""
    return {"after": reply.next} if reply.next else None


def of_tasks(
    reply: TaskListReply | TaskChildrenReply | JobCountsReply | WhyReply, said: Mapping[str, Any]
) -> Arguments:
    """Arguments of the next page of tasks: after a cursor."""
    return {"after": reply.next} if reply.next else None


def of_parents(reply: TaskParentsReply | FlowTasksReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of parents: after a number."""
    return None if reply.next is None else {"after": reply.next}


def of_flows(reply: FlowsReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of flows: after the last project and flow."""
    return {"after": f"{reply.flows[-1].project}/{reply.flows[-1].flow}"} if reply.more else None


def of_changes(reply: LogReply, said: Mapping[str, Any]) -> Arguments:
    """Arguments of the next page of changes: before a number."""
    return {"before": reply.next} if reply.next else None
