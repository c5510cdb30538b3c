"""Operations on projects, on groups of them, and on their cron jobs."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from msgspec import Meta, Struct

from taskqueue.protocol.daemon import Status
from taskqueue.protocol.fields import GroupName, ProjectName, Setting
from taskqueue.protocol.insight import Why
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.projects import (
    LOSSES,
    GroupDo,
    GroupSet,
    ProjectDo,
    ProjectHold,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
)
from taskqueue.protocol.values import Action, PauseSeconds, TaskFilter
from taskqueue.settings.description import described
from taskqueue.settings.settings import Settings
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.roles import Role

WHAT: Final[dict[Action, str]] = {
    "pause": "Hand out no more tasks until it is resumed",
    "resume": "Hand out tasks again",
    "stop": "Hand out nothing until it is started; its pauses are forgotten",
    "start": "Start it; an unknown one is made",
    "clear": "Drop its live tasks",
    "reset": "Forget all that is known of its tasks",
    "delete": "Delete the project, with all that it has",
}
ALL_TOGETHER: Final[tuple[Action, ...]] = ("pause", "resume")
"""Actions that there are for all projects at once."""

Named = Annotated[GroupName, Meta(min_length=1)]
JobName = Annotated[str, Meta(min_length=1, max_length=64)]
NUMBERS: Final = frozenset(name for name, each in described(Settings).items() if each.form in ("number", "duration"))
"""Settings that may be infinite."""


class Job(Struct, forbid_unknown_fields=True):
    """A cron job of a project, as its setting ``cron`` has it."""

    project: ProjectName
    job: JobName
    setting: dict[str, Setting]


class JobRef(Struct, forbid_unknown_fields=True):
    """Names a cron job."""

    project: ProjectName
    job: JobName


class GroupRef(Struct, forbid_unknown_fields=True):
    """Names a group."""

    group: Named


class GroupPause(Struct, forbid_unknown_fields=True):
    """Names a group, and says for how many seconds its projects are paused; None: until they are resumed."""

    group: Named
    seconds: PauseSeconds | None = None


def with_numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """What JSON can't say of settings: "inf" is the number where one is meant."""
    settings: dict[str, Any] = fields["settings"]
    said = {name: float("inf") if value == "inf" and name in NUMBERS else value for name, value in settings.items()}
    return fields | {"settings": said}


def as_settings(fields: dict[str, Any]) -> dict[str, Any]:
    """A job as the setting that makes it."""
    return {"project": fields["project"], "settings": {"cron": {fields["job"]: fields["setting"]}}}


def as_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """A job as the key of the setting that is forgotten."""
    return {"project": fields["project"], "keys": [f"cron.{fields['job']}"]}


def _role(action: Action) -> Role:
    return "admin" if action in LOSSES else "operator"


def _fixed(action: Action) -> dict[str, Any]:
    """What is not said in the body: only a pause is for a time."""
    return {"action": action} if action == "pause" else {"action": action, "seconds": None}


ACTIONS: Final = tuple(
    Operation("POST", f"/projects/{{project}}/actions/{action}", _role(action), ProjectDo, WHAT[action], _fixed(action))
    for action in get_args(Action)
)

GROUP_ACTIONS: Final = tuple(
    Operation(
        "POST",
        f"/groups/{{group}}/actions/{action}",
        _role(action),
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
        f"/projects/actions/{action}",
        "operator",
        GroupDo,
        f"{WHAT[action]}: each project",
        {**_fixed(action), "group": "", "all": True},
    )
    for action in ALL_TOGETHER
)

OPERATIONS: Final = (
    Operation("GET", "/projects", "viewer", Status, "Projects, in pages", {"fetchers": 0}, further=paging.of_projects),
    Operation("GET", "/projects/{project}", "viewer", ProjectShow, "A project, its settings included"),
    Operation(
        "PATCH", "/projects/{project}/settings", "admin", ProjectSet,
        "Change settings, now and across restarts; the body is what changes", whole="settings", remake=with_numbers,
    ),
    Operation(
        "DELETE", "/projects/{project}/settings", "admin", ProjectUnset,
        "Forget what was said of settings; no keys: of all",
    ),
    Operation(
        "PATCH", "/groups/{group}/settings", "admin", GroupSet,
        "Change settings of each project of a group, of all or of none; the body is what changes", whole="settings",
        remake=with_numbers,
    ),
    *ACTIONS,
    *ALL_ACTIONS,
    Operation(
        "POST", "/projects/{project}/actions/run", "operator", Bulk, "Run what is delayed now",
        {"action": "reschedule", "filter": TaskFilter(states=["delayed"]), "exetime": 0.0, "priority": 0, "group": "",
        "delay": None},
    ),
    *GROUP_ACTIONS,
    Operation("GET", "/projects/{project}/why", "viewer", Why, "Why nothing of it is handed out", {"taskid": None}),
    Operation(
        "GET", "/projects/{project}/wait", "viewer", ProjectWait,
        "Wait until it has finished, for up to so many seconds",
    ),
    Operation(
        "POST", "/projects/{project}/hold", "operator", ProjectHold,
        "Don't take it as finished for so many seconds; 0 lets go",
    ),
    Operation(
        "PUT", "/projects/{project}/cron/{job}", "admin", ProjectSet, "Make or replace a cron job", whole="setting",
        arguments=Job, remake=as_settings,
    ),
    Operation(
        "DELETE", "/projects/{project}/cron/{job}", "admin", ProjectUnset, "Forget a cron job that was set",
        arguments=JobRef, remake=as_keys,
    ),
)  # fmt: skip
