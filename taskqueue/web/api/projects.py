"""Operations on projects, on groups of them, and on their cron jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from msgspec import Meta, Struct

from taskqueue.protocol.daemon import StatusShow
from taskqueue.protocol.fields import GroupName, ProjectName, Setting
from taskqueue.protocol.insight import Why
from taskqueue.protocol.projects import (
    LOSSES,
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
from taskqueue.protocol.projects import (
    CronJob as CronView,
)
from taskqueue.protocol.values import Action, PauseSeconds
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Method, Operation
from taskqueue.web.api.problems import Problem
from taskqueue.web.roles import Role

WHAT: Final[dict[Action, str]] = {
    "pause": "Hand out no more tasks until it is resumed",
    "resume": "Hand out tasks again",
    "stop": "Hand out nothing until it is started; its pauses are forgotten",
    "start": "Start it; an unknown one is made",
    "clear": "Drop its live tasks",
    "reset": "Forget all that is known of its tasks",
    "delete": "Delete it, with all that it has",
}
ALL_TOGETHER: Final[tuple[Action, ...]] = ("pause", "resume")
"""Actions that there are for all projects at once."""

Named = Annotated[GroupName, Meta(min_length=1)]
JobName = Annotated[str, Meta(min_length=1, max_length=64)]


class Job(Struct, forbid_unknown_fields=True):
    """A cron job of a project, as its setting ``cron`` has it.

    Attributes:
        setting: the job itself, such as {"every": "5m"}.
    """

    project: ProjectName
    job: JobName
    setting: dict[str, Setting]


class JobRef(Struct, forbid_unknown_fields=True):
    """Names a cron job."""

    project: ProjectName
    job: JobName


class JobsRef(Struct, forbid_unknown_fields=True):
    """Names the project whose cron jobs are meant."""

    project: ProjectName


class CronJob(Struct):
    """A cron job of a project.

    Attributes:
        job: its name in the project.
        setting: the job itself, as the setting ``cron`` has it.
        next_at: unix seconds of its next run; 0: none.
        last_at: unix seconds of its last run; 0: there was none.
        runs: how often it has pushed its task.
        skipped: how often it has not, because the task of the last run was still live.
    """

    job: str
    setting: dict[str, Setting]
    next_at: float
    last_at: float
    runs: int
    skipped: int


class CronJobs(Struct):
    """The cron jobs of a project.

    Attributes:
        jobs: all of them, in the order of its settings.
    """

    jobs: list[CronJob]


class GroupRef(Struct, forbid_unknown_fields=True):
    """Names a group."""

    group: Named


class GroupPause(Struct, forbid_unknown_fields=True):
    """Names a group, and says for how many seconds its projects are paused; None: until they are resumed.

    Attributes:
        seconds: after which the pause ends by itself; None: it lasts until resume.
    """

    group: Named
    seconds: PauseSeconds | None = None


def as_settings(fields: dict[str, Any]) -> dict[str, Any]:
    """A job as the setting that makes it."""
    return {"project": fields["project"], "settings": {"cron": {fields["job"]: fields["setting"]}}}


def as_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """A job as the key of the setting that is forgotten."""
    return {"project": fields["project"], "keys": [f"cron.{fields['job']}"]}


def with_project(fields: dict[str, Any]) -> dict[str, Any]:
    """Only the project: a job is found in the reply."""
    return {"project": fields["project"]}


def cron_jobs(reply: ProjectReply, said: Mapping[str, Any]) -> CronJobs:
    """The cron jobs of the project."""
    if reply.project is None:
        return CronJobs([])
    settings: Any = reply.project.settings.get("cron")
    return CronJobs([_cron_job(view, settings[view.job]) for view in reply.project.cron])


def _cron_job(view: CronView, setting: dict[str, Setting]) -> CronJob:
    return CronJob(view.job, setting, view.next_at, view.last_at, view.runs, view.skipped)


def cron_job(reply: ProjectReply, said: Mapping[str, Any]) -> CronJob:
    """The cron job of that name.

    Raises:
        Problem: the project has none.
    """
    for each in cron_jobs(reply, said).jobs:
        if each.job == said["job"]:
            return each
    raise Problem(404, f'job: project "{said["project"]}" has no cron job "{said["job"]}"', "job", "unknown-job")


def _role(action: Action) -> Role:
    return "admin" if action in LOSSES else "operator"


def _fixed(action: Action) -> dict[str, Any]:
    """What is not said in the body: only a pause is for a time."""
    return {"action": action} if action == "pause" else {"action": action, "seconds": None}


def _place(thing: str, action: Action) -> tuple[Method, str]:
    """What removes a thing is DELETE on the thing; all else is a verb behind it."""
    return ("DELETE", thing) if action == "delete" else ("POST", f"{thing}/{action}")


ACTIONS: Final = tuple(
    Operation(
        *_place("/projects/{project}", action),
        _role(action),
        ProjectDo,
        WHAT[action],
        _fixed(action),
    )
    for action in get_args(Action)
)

GROUP_ACTIONS: Final = tuple(
    Operation(
        *_place("/groups/{group}", action),
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
        f"/projects/{action}",
        "operator",
        GroupDo,
        f"{WHAT[action]}: each project",
        {**_fixed(action), "group": "", "all": True},
    )
    for action in ALL_TOGETHER
)

OPERATIONS: Final = (
    Operation(
        "GET", "/projects", "viewer", StatusShow, "Projects, in pages", {"fetchers": 0}, further=paging.of_projects
    ),
    Operation("GET", "/projects/{project}", "viewer", ProjectShow, "A project, its settings included"),
    Operation(
        "PATCH", "/projects/{project}/settings", "admin", ProjectSet,
        "Change settings, now and across restarts; the body is what changes", whole="settings",
    ),
    Operation(
        "DELETE", "/projects/{project}/settings", "admin", ProjectUnset,
        "Forget what was said of settings; no keys: of all",
    ),
    Operation(
        "PATCH", "/groups/{group}/settings", "admin", GroupSet,
        "Change settings of each project of a group, of all or of none; the body is what changes", whole="settings",
    ),
    *ACTIONS,
    *ALL_ACTIONS,
    *GROUP_ACTIONS,
    Operation("GET", "/projects/{project}/why", "viewer", Why, "Why nothing of it is handed out",
        {"taskid": None, "after": ""}),
    Operation(
        "GET", "/projects/{project}/wait", "viewer", ProjectWait,
        "Wait until it has finished, for up to so many seconds",
    ),
    Operation(
        "POST", "/projects/{project}/keep-open", "operator", ProjectHold,
        "Don't take it as finished for so many seconds; 0 lets go",
    ),
    Operation(
        "GET", "/projects/{project}/cron", "viewer", ProjectShow, "Its cron jobs", arguments=JobsRef,
        own_reply=CronJobs, shown=cron_jobs,
    ),
    Operation(
        "GET", "/projects/{project}/cron/{job}", "viewer", ProjectShow, "A cron job", arguments=JobRef,
        remake=with_project, own_reply=CronJob, shown=cron_job,
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
