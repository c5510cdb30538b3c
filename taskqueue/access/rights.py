"""Rights and roles: what each request takes, and who may send it.

    viewer     look
    producer   look, push
    fetcher    look, push, work
    operator   look, push, run
    admin      look, push, work, run, rule
    web        speaks-for-others

``right_of`` is a function of the request, not of its type alone: a hello without capacity looks, one with capacity
works. A type without a right fails at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.protocol import daemon, exports, fetchers, flows, insight, operations, projects, slots, tasks
from taskqueue.protocol.callers import RIGHTS_OF, ROLES, Right, Role
from taskqueue.protocol.messages import REQUESTS, AnyRequest

_TYPES_OF: Final[Mapping[Right, tuple[type[AnyRequest], ...]]] = {
    "look": (
        daemon.StatusShow, daemon.DaemonShow, daemon.DaemonHistory, fetchers.Fetchers, fetchers.FetcherShow,
        flows.FlowShow, flows.FlowList, flows.FlowTasks, insight.Stats, insight.JobCounts, insight.StatsHistory,
        insight.Watch, insight.Why, insight.FailureList, insight.Log, operations.OperationShow,
        operations.OperationList, projects.ProjectShow, projects.ProjectWait, slots.SlotList, slots.SlotShow,
        tasks.TaskShow, tasks.TaskWait, tasks.TaskParents, tasks.TaskChildren, tasks.TaskList,
    ),
    "push": (tasks.NewTasks, flows.FlowStage, flows.FlowSubmit, projects.ProjectHold),
    "work": (fetchers.Hello, tasks.Done, fetchers.Extend, fetchers.Release, fetchers.Note),
    "run": (
        tasks.TaskRetry, tasks.TaskCancel, tasks.TaskReprioritise, operations.Bulk, operations.Rerun,
        operations.OperationCancel, operations.OperationUndo, flows.FlowCancel, fetchers.FetcherDo, slots.SlotSet,
    ),
    "rule": (
        daemon.Verify, daemon.KeyList, projects.ProjectSet, projects.ProjectUnset, projects.ProjectDo,
        projects.GroupSet, projects.GroupDo, exports.ProjectImport,
    ),
    "speaks-for-others": (daemon.WhoIs,),
}  # fmt: skip
"""Right of each type; of hellos, ``project-do`` and ``group-do`` the greatest that one of them takes."""

TYPE_RIGHTS: Final[Mapping[type[AnyRequest], Right]] = {kind: right for right, of in _TYPES_OF.items() for kind in of}

if missing := [kind.__name__ for kind in REQUESTS if kind not in TYPE_RIGHTS]:
    raise TypeError(f"requests without a right: {', '.join(missing)}")


def right_of(request: AnyRequest) -> Right:
    """The right that a request takes."""
    if isinstance(request, fetchers.Hello):
        return "work" if _works(request) else "look"
    if isinstance(request, projects.ProjectDo | projects.GroupDo):
        return right_with(type(request), request.action)
    return TYPE_RIGHTS[type(request)]


ABOUT_ALL: Final = (daemon.DaemonShow, daemon.DaemonHistory, daemon.KeyList, daemon.Verify, fetchers.FetcherDo)
"""Types of requests about all projects, or about the keys of all; fetchers of any project may take a drained name."""


def is_about_all(request: AnyRequest) -> bool:
    """Whether a request is about all projects as one, so that only a key for ``*`` may send it."""
    if isinstance(request, projects.GroupDo):
        return request.all
    return are_about_all(type(request), getattr(request, "project", None))


def are_about_all(kind: type[AnyRequest], project: str | None) -> bool:
    """Whether requests of a type that name this project, or none, are about all; a group has projects of its own."""
    return kind in ABOUT_ALL or (kind is insight.StatsHistory and project is None)


def right_with(kind: type[AnyRequest], action: str) -> Right:
    """The right that requests of a type take, with this action if they have one; of hellos, one with capacity."""
    if kind is projects.ProjectDo or kind is projects.GroupDo:
        return "rule" if action in projects.LOSSES else "run"
    return TYPE_RIGHTS[kind]


def request_name(request: AnyRequest) -> str:
    """Name of a request by which docs/reference/rights.md lists it, such as ``project-do pause``."""
    kind = type(request).__struct_config__.tag
    if isinstance(request, fetchers.Hello):
        return f"{kind} with capacity" if _works(request) else f"{kind}"
    action = getattr(request, "action", "")
    return f"{kind} {action}" if action else f"{kind}"


def roles_with(right: Right) -> tuple[Role, ...]:
    """The roles with this right, the one with the fewest others first."""
    return tuple(role for role in ROLES if right in RIGHTS_OF[role])


def roles_text(right: Right) -> str:
    """The roles with this right, for messages, such as ``an operator or admin``."""
    *first, last = roles_with(right)
    roles = f"{', '.join(first)} or {last}" if first else last
    # "Taking tasks takes a fetcher" would be misread.
    return f"the role {roles}" if right == "work" else with_article(roles)


def with_article(roles: str) -> str:
    """A role, or several, with the article of the first."""
    return f"{'an' if roles[0] in 'ao' else 'a'} {roles}"


def _works(hello: fetchers.Hello) -> bool:
    """Whether it wants tasks, or speaks of tasks that it has."""
    return bool(hello.capacity or hello.holds or hello.running)
