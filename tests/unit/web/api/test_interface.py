"""The table of the HTTP interface: that everything which the command line can do is in it, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from taskqueue.cli.main import taskqueue
from taskqueue.protocol.base import Change
from taskqueue.protocol.messages import REQUESTS
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.interface import OPERATIONS

ROOT: Final = Path(__file__).parents[4]

LOCAL: Final = {
    "completion": "prints a script for a shell",
    "config": "reads files of the daemon's machine",
    "demo": "starts processes",
    "reload": "sends a signal to a process of this machine",
    "stop": "sends a signal to a process of this machine",
    "scheduler": "is the daemon",
    "store": "works on the files of a store",
    "web": "is the web process, and its files",
    "top": "shows what status, stats and watch tell",
    "work": "runs a worker: select, done, extend and release",
}  # fmt: skip
"""Commands that ask a daemon nothing, or nothing of their own."""

WHERE: Final = {
    "cron list": "get-projects-project",
    "cron remove": "delete-projects-project-cron-job",
    "cron set": "put-projects-project-cron-job",
    "daemon": "get-daemon",
    "failures": "get-failures",
    "fetcher drain": "post-fetchers-fetcher-drain",
    "fetcher resume": "post-fetchers-fetcher-resume",
    "fetcher show": "get-fetchers-fetcher",
    "fetchers": "get-fetchers",
    "flow cancel": "post-projects-project-flows-flow-cancel",
    "flow list": "get-flows",
    "flow rerun": "post-projects-project-tasks-taskid-rerun",
    "flow show": "get-projects-project-flows-flow",
    "flow submit": "post-projects-project-flows-flow-submit",
    "flow wait": "get-projects-project-flows-flow",
    "log": "get-log",
    "operation cancel": "post-operations-id-cancel",
    "operation list": "get-operations",
    "operation show": "get-operations-id",
    "project list": "get-projects",
    "project set": "patch-projects-project-settings",
    "project show": "get-projects-project",
    "project unset": "delete-projects-project-settings",
    "push": "post-projects-project-tasks",
    "slot list": "get-projects-project-slots",
    "slot set": "patch-projects-project-slots-slot",
    "slot show": "get-projects-project-slots-slot",
    "stats": "get-stats",
    "status": "get-status",
    "task cancel": "post-projects-project-tasks-cancel",
    "task children": "get-projects-project-tasks-taskid-children",
    "task list": "get-projects-project-tasks",
    "task parents": "get-projects-project-tasks-taskid-parents",
    "task reprioritise": "post-bulk",
    "task reschedule": "post-bulk",
    "task retry": "post-projects-project-tasks-retry",
    "task show": "get-projects-project-tasks-taskid",
    "task wait": "get-projects-project-tasks-taskid-wait",
    "wait": "get-projects-project-wait",
    "watch": "get-watch",
    "why": "get-projects-project-why",
} | {
    f"project {action}": f"post-projects-project-actions-{action}"
    for action in ("pause", "resume", "stop", "start", "clear", "reset", "delete")
}  # fmt: skip
"""By command, the operation that does the same."""

BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group) and name not in LOCAL:
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_each_request_of_the_protocol_has_an_operation() -> None:
    asked = {operation.asks for operation in OPERATIONS}

    assert [kind for kind in REQUESTS if kind not in asked] == []


@pytest.mark.parametrize("command", sorted(commands(taskqueue)))
def test_whatever_the_command_line_asks_a_daemon_an_operation_asks(command: str) -> None:
    assert command.split()[0] in LOCAL or WHERE[command] in BY_NAME


def test_no_two_operations_have_one_name() -> None:
    assert len(BY_NAME) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_viewers_only_look_and_what_is_lost_is_lost_by_admins(operation: Operation) -> None:
    changes = issubclass(operation.asks, Change) or operation.method != "GET"

    assert (operation.role == "viewer") is not changes
    if operation.path.endswith(("/clear", "/reset", "/delete", "/settings")) or "/cron/" in operation.path:
        assert operation.role == "admin"


def test_each_operation_is_documented() -> None:
    told = (ROOT / "docs/http.md").read_text()
    rows = [f"| `{each.method}` | `{each.path}` | {each.role} | {each.summary} |" for each in OPERATIONS]

    assert [row for row in rows if row not in told] == []
