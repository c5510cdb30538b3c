"""Operations on projects, groups of projects, and cron entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from msgspec import Meta, Struct

from taskqueue.protocol.daemon import StatusShow
from taskqueue.protocol.fields import GroupName, ProjectName, Setting
from taskqueue.protocol.insight import Why
from taskqueue.protocol.projects import (
    CronEntry as CronView,
)
from taskqueue.protocol.projects import (
    GroupDo,
    GroupSet,
    ProjectDo,
    ProjectHold,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
)
from taskqueue.protocol.values import Action, PauseSeconds
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Method, Operation
from taskqueue.web.api.problems import Problem

WHAT: Final[dict[Action, str]] = {
    "pause": "Dispatch no tasks until it is resumed",
    "resume": "Dispatch tasks again",
    "stop": "Dispatch nothing until it is started; pauses end",
    "start": "Start it; an unknown project is created",
    "clear": "Drop its unfinished tasks",
    "reset": "Forget all its tasks",
    "delete": "Delete it with all its tasks and settings",
}
ALL_TOGETHER: Final[tuple[Action, ...]] = ("pause", "resume")
"""Actions that also apply to all projects at once."""

Named = Annotated[GroupName, Meta(min_length=1)]
EntryName = Annotated[str, Meta(min_length=1, max_length=64)]


class Entry(Struct, forbid_unknown_fields=True):
    """Cron entry of a project, as in the setting ``cron``.

    Attributes:
        setting: the entry itself, such as {"every": "5m"}.
    """

    project: ProjectName
    entry: EntryName
    setting: dict[str, Setting]


class EntryRef(Struct, forbid_unknown_fields=True):
    """Reference to a cron entry."""

    project: ProjectName
    entry: EntryName


class EntriesRef(Struct, forbid_unknown_fields=True):
    """Reference to a project with cron entries."""

    project: ProjectName


class CronEntry(Struct):
    """Cron entry of a project.

    Attributes:
        entry: its name in the project.
        setting: the entry itself, as in the setting ``cron``.
        next_at: unix seconds of its next tick; 0: never.
        last_at: unix seconds at which a tick last ran, was skipped or began to wait; 0: never.
        ran: number of ticks at which it has pushed its task, or submitted its flow.
        skipped: number of ticks at which it has not, mostly because the task or flow of an earlier one was unfinished.
        waiting: number of ticks that wait for the end of an earlier flow.
        problem: why the last tick of an entry with a graph was skipped; empty: it was not.
    """

    entry: str
    setting: dict[str, Setting]
    next_at: float
    last_at: float
    ran: int
    skipped: int
    waiting: int
    problem: str


class CronEntries(Struct):
    """Cron entries of a project.

    Attributes:
        entries: all of them, in the order of its settings.
    """

    entries: list[CronEntry]


class GroupRef(Struct, forbid_unknown_fields=True):
    """Reference to a group."""

    group: Named


class GroupPause(Struct, forbid_unknown_fields=True):
    """Reference to a group, and the duration of its pause.

    Attributes:
        seconds: seconds after which the pause ends; None: it lasts until resume.
    """

    group: Named
    seconds: PauseSeconds | None = None


def as_settings(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry into the setting that makes it."""
    return {"project": fields["project"], "settings": {"cron": {fields["entry"]: fields["setting"]}}}


def as_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry into the key of the setting to remove."""
    return {"project": fields["project"], "keys": [f"cron.{fields['entry']}"]}


def with_project(fields: dict[str, Any]) -> dict[str, Any]:
    """Keep only the project; ``cron_entry`` finds the entry in the reply."""
    return {"project": fields["project"]}


def cron_entries(reply: ProjectReply, said: Mapping[str, Any]) -> CronEntries:
    """Return the cron entries of the project."""
    if reply.project is None:
        return CronEntries([])
    settings: Any = reply.project.settings.get("cron")
    return CronEntries([_cron_entry(view, settings[view.entry]) for view in reply.project.cron])


def _cron_entry(view: CronView, setting: dict[str, Setting]) -> CronEntry:
    return CronEntry(
        view.entry, setting, view.next_at, view.last_at, view.ran, view.skipped, view.waiting, view.problem
    )


def cron_entry(reply: ProjectReply, said: Mapping[str, Any]) -> CronEntry:
    """Return the cron entry of this name.

    Raises:
        Problem: there is no such entry.
    """
    for each in cron_entries(reply, said).entries:
        if each.entry == said["entry"]:
            return each
    raise Problem(
        404, f'entry: project "{said["project"]}" has no cron entry "{said["entry"]}"', "entry", "unknown-entry"
    )


def _fixed(action: Action) -> dict[str, Any]:
    """Fix the fields that the body does not have: only a pause has a duration."""
    return {"action": action} if action == "pause" else {"action": action, "seconds": None}


def _place(thing: str, action: Action) -> tuple[Method, str]:
    """Choose method and path: DELETE on a thing, otherwise POST with a verb."""
    return ("DELETE", thing) if action == "delete" else ("POST", f"{thing}/{action}")


ACTIONS: Final = tuple(
    Operation(
        *_place("/projects/{project}", action),
        ProjectDo,
        WHAT[action],
        _fixed(action),
    )
    for action in get_args(Action)
)

GROUP_ACTIONS: Final = tuple(
    Operation(
        *_place("/groups/{group}", action),
        GroupDo,
        f"{WHAT[action]}: each project of a group",
        _fixed(action),
        arguments=GroupPause if action == "pause" else GroupRef,
    )
    for action in get_args(Action)
)

ALL_ACTIONS: Final = tuple(
    Operation(
        "POST",
        f"/projects/{action}",
        GroupDo,
        f"{WHAT[action]}: each project",
        {**_fixed(action), "group": "", "all": True},
    )
    for action in ALL_TOGETHER
)

OPERATIONS: Final = (
    Operation(
        "GET", "/projects", StatusShow, "Projects, in pages", {"fetchers": 0}, further=paging.of_projects
    ),
    Operation("GET", "/projects/{project}", ProjectShow, "A project, its settings included"),
    Operation(
        "PATCH", "/projects/{project}/settings", ProjectSet,
        "Change settings, now and across restarts; the body has the changes", whole="settings",
    ),
    Operation(
        "DELETE", "/projects/{project}/settings", ProjectUnset,
        "Remove overrides of settings; without keys, all of them",
    ),
    Operation(
        "PATCH", "/groups/{group}/settings", GroupSet,
        "Change settings of all projects of a group, or of none; the body has the changes", whole="settings",
    ),
    *ACTIONS,
    *ALL_ACTIONS,
    *GROUP_ACTIONS,
    Operation("GET", "/projects/{project}/why", Why, "Why it dispatches nothing",
        {"taskid": None, "after": ""}),
    Operation(
        "GET", "/projects/{project}/wait", ProjectWait,
        "Wait until it has finished, up to `seconds`",
    ),
    Operation(
        "POST", "/projects/{project}/keep-open", ProjectHold,
        "Keep it open, so that it does not finish, for `seconds`; 0 ends that",
    ),
    Operation(
        "GET", "/projects/{project}/cron", ProjectShow, "Its cron entries", arguments=EntriesRef,
        own_reply=CronEntries, shown=cron_entries,
    ),
    Operation(
        "GET", "/projects/{project}/cron/{entry}", ProjectShow, "A cron entry", arguments=EntryRef,
        remake=with_project, own_reply=CronEntry, shown=cron_entry,
    ),
    Operation(
        "PUT", "/projects/{project}/cron/{entry}", ProjectSet, "Create or replace a cron entry", whole="setting",
        arguments=Entry, remake=as_settings,
    ),
    Operation(
        "DELETE", "/projects/{project}/cron/{entry}", ProjectUnset, "Remove a cron entry that was set",
        arguments=EntryRef, remake=as_keys,
    ),
)  # fmt: skip
