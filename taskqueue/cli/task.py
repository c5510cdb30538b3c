"""``taskqueue task``: show, retry and cancel single tasks, by taskid or by url."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from taskqueue.cli.daemon import Daemon, reaches_daemon
from taskqueue.cli.names import project_name

if TYPE_CHECKING:
    from taskqueue.core.replies import TaskReply


@click.group()
def task() -> None:
    """Show, retry and cancel tasks.

    A task is named by its taskid, or by its url if it has the taskid that clients make from that.

    \b
    Example:
      taskqueue task show news https://example.com/
    """


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskids", metavar="TASKID|URL...", nargs=-1, required=True)
@reaches_daemon
def show(project: str, taskids: tuple[str, ...], url: str, timeout: float) -> None:
    """Show everything that the daemon knows about tasks.

    \b
    Example:
      taskqueue task show news https://example.com/
    """
    from taskqueue.cli import tables

    console = tables.console()
    with Daemon(url, timeout).client() as client:
        for taskid in _ids(taskids):
            console.print(tables.of_fields(_fields(client.show_task(project, taskid))), "", sep="\n")


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskids", metavar="TASKID|URL...", nargs=-1, required=True)
@reaches_daemon
def retry(project: str, taskids: tuple[str, ...], url: str, timeout: float) -> int:
    """Run tasks now, whatever they wait for or ended as, with their retries given back.

    \b
    Example:
      taskqueue task retry news https://example.com/ https://example.com/about
    """
    with Daemon(url, timeout).client() as client:
        outcomes = client.retry_tasks(project, _ids(taskids))
    return _tell(taskids, outcomes, "will run now", "is being processed already")


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskids", metavar="TASKID|URL...", nargs=-1, required=True)
@reaches_daemon
def cancel(project: str, taskids: tuple[str, ...], url: str, timeout: float) -> int:
    """End tasks; the answer of whoever is processing one of them will not count.

    \b
    Example:
      taskqueue task cancel news https://example.com/
    """
    with Daemon(url, timeout).client() as client:
        outcomes = client.cancel_tasks(project, _ids(taskids))
    return _tell(taskids, outcomes, "cancelled", "was over already")


def _ids(names: Iterable[str]) -> list[str]:
    """The taskids that names mean: those of urls are made as clients make them."""
    from taskqueue.client.task import default_taskid

    return [default_taskid(name) if "://" in name else name for name in names]


def _tell(names: Sequence[str], outcomes: Sequence[str], done: str, ignored: str) -> int:
    """A line a task; exit status 1 if one of them is unknown."""
    words = {"done": done, "ignored": ignored, "unknown": "unknown"}
    for name, outcome in zip(names, outcomes, strict=True):
        click.echo(f"{name}: {words[outcome]}", err=outcome == "unknown")
    return 1 if "unknown" in outcomes else 0


def _fields(task: TaskReply) -> dict[str, str]:
    """What is to be said of it, without what is empty."""
    from taskqueue.cli.tables import as_plain, duration

    schedule = as_plain(task.schedule)
    fields = {
        "project": task.project,
        "taskid": task.taskid,
        "url": task.url,
        "state": task.state,
        "error": task.error,
        "priority": str(task.priority),
        "retried": str(task.retried) if task.retried else "",
        "due": _moment(task.exetime),
        "last crawled": _moment(task.lastcrawltime),
        "finished": _moment(task.finished_at),
        "lease": f"{duration(task.lease_seconds)} left, held by {task.session}" if task.session else "",
        "schedule": " ".join(f"{name}={value}" for name, value in schedule.items() if value),
        "body": _body(task),
    }
    return {name: value for name, value in fields.items() if value}


def _moment(at: float) -> str:
    """Unix seconds in the time of this machine; "" for never."""
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds") if at else ""


def _body(task: TaskReply) -> str:
    import msgspec

    body = msgspec.msgpack.decode(task.body)
    return "" if body is None else json.dumps(body, ensure_ascii=False, default=repr)
