"""``taskqueue task``: list, show, wait for, change and rerun tasks, by name or by a filter.

The daemon sends lists page by page: tables are printed when complete, JSON as it arrives. ``operations`` has the
options of a filter and the actions on many tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeGuard

import click

from taskqueue.cli.commands import operations
from taskqueue.cli.commands.operations import BulkChange, BulkChoice, bulk_options, job_option, pushed_options
from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import (
    END_STATUSES,
    NOT_OVER_STATUS,
    Daemon,
    daemon_options,
    waiting_options,
)
from taskqueue.cli.input.names import project_name, taskids_of
from taskqueue.cli.input.times import local
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.json_values import as_plain, without_envelope
from taskqueue.display.notes import note_line
from taskqueue.display.operations import number as operation_number
from taskqueue.display.operations import rerun_lines
from taskqueue.display.tasks import PARENT_WORDS, error_line, packed_text
from taskqueue.protocol.choices import STATES, RerunScope
from taskqueue.terminal.lines import say
from taskqueue.texts.error_texts import kind_in
from taskqueue.texts.units import duration_text

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.choices import TaskState
    from taskqueue.protocol.tasks import TaskReply, TaskRow
    from taskqueue.types import Page


ROWS = 100

FULL_ERROR = "in full"
"""Heading of the lines of an error behind its first one."""

BARE = "its body was dropped (keep.success and the like of its project); push it with --force-update"


@click.group()
def task() -> None:
    """List, show, retry, cancel and rerun tasks.

    A TASK is a taskid, or a URL if the task has the taskid that clients make of it. `retry` and `cancel` take named
    tasks, or all that match a filter in a project or group. In a filter, * stands for any text.

    \b
    Example:
      taskqueue task show news https://example.com/
      taskqueue task retry news --error-glob '*timeout*' --until 2d --dry-run
    """


@task.command("list")
@click.argument("project", type=project_name)
@click.option(
    "--state",
    "states",
    metavar="STATE",
    type=click.Choice(STATES),
    multiple=True,
    help="State of the tasks (repeatable).",
)
@click.option("--url-glob", metavar="GLOB", help="Pattern of the URLs, such as 'https://a.org/*'.")
@click.option("--error-glob", metavar="GLOB", help="Pattern of the last errors, such as '*timeout*'.")
@operations.IGNORE_CASE
@click.option("--since", type=times.past, metavar="DURATION|TIME", help="Earliest time of the end or last run.")
@pushed_options
@job_option
@click.option(
    "--newest/--oldest", default=False,
    help="Order by end or dispatch.  [default: oldest first]",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), default=ROWS, show_default=True, help="Number of tasks, at most.")
@json_lines_option
@daemon_options
def list_tasks(
    project: str,
    states: tuple[TaskState, ...],
    url_glob: str | None,
    error_glob: str | None,
    ignore_case: bool,
    since: float | None,
    pushed_since: float | None,
    pushed_before: float | None,
    job: str,
    newest: bool,
    limit: int,
    as_json: bool,
    daemon: Daemon,
) -> None:
    """List tasks with their last errors.

    Tasks are listed state by state: ready ones in the order in which they run, delayed ones by due time, finished ones
    by the time they ended, oldest first; `when` is that time. Processing tasks come by dispatch, with the time they are
    `held`, the lease's time `left`, and the fetcher. Blocked tasks wait for others, which `taskqueue why` names.

    \b
    Example:
      taskqueue task list news
      taskqueue task list news --state failed --url-glob 'https://example.com/*'
      taskqueue task list news --state failed --since 1h --newest
      taskqueue task list news --state ready --state delayed --pushed-before 2d
      taskqueue task list news --error-glob '*timeout*' --ignore-case
      taskqueue task list news --state failed --error-glob '*503*' --job monday
      taskqueue task list news --state processing --oldest
      taskqueue task list news --state ready --limit 1000000 --json | jq -r .url
    """
    pushed = pushed_since, pushed_before
    chosen = TaskQuery(project, states, url_glob, error_glob, since, newest, *pushed, ignore_case, job)
    if newest and not states:
        say("--newest is for processing and finished tasks; waiting ones come in their order.", err=True)
    with daemon.client() as client:
        found = pages(client, chosen, limit)
        if as_json:
            print_json(found)
        else:
            print_table(found, states[0] if len(states) == 1 else "", tells_pushed=any(pushed))


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskids", metavar="TASK...", nargs=-1, required=True)
@json_lines_option
@daemon_options
def show(project: str, taskids: tuple[str, ...], as_json: bool, daemon: Daemon) -> None:
    """Show tasks with body and attempts.

    \b
    Example:
      taskqueue task show news https://example.com/
    """
    from taskqueue.protocol.tasks import TaskShow

    with daemon.client() as client:
        named = taskids_of(client, project, taskids)
        found = (client._ask(TaskShow(project=project, taskid=taskid)) for taskid in named)
        if as_json:
            print_lines(map(without_envelope, found))
        else:
            _draw(found)


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskid", metavar="TASK")
@waiting_options
def wait(project: str, taskid: str, patience: float, daemon: Daemon) -> int:
    """Wait until a task has finished.

    The exit status is 0 if the task succeeded, 3 if it failed for good, 4 if it was cancelled, 1 after --timeout. The
    wait continues while the daemon restarts. A recurring task never finishes.

    \b
    Example:
      taskqueue task wait news https://example.com/ --timeout 5m && ./report
    """
    with daemon.client() as client:
        (named,) = taskids_of(client, project, (taskid,))
        found = client.tasks.wait(project, named, timeout=patience)
    if found.state != "success":
        how = found.state if found.state in END_STATUSES else f"not finished, {found.state}"
        say(f"taskqueue task wait: {taskid}: {how}", err=True)
    return END_STATUSES.get(found.state, NOT_OVER_STATUS)


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskid", metavar="TASK")
@json_lines_option
@daemon_options
def parents(project: str, taskid: str, as_json: bool, daemon: Daemon) -> None:
    """List the tasks it waits for.

    Includes tasks that it has waited for before, with the results that they left.

    \b
    Example:
      taskqueue task parents news report-2027-01-31
    """
    from taskqueue.cli.output import tables, task_tables

    with daemon.client() as client:
        (named,) = taskids_of(client, project, (taskid,))
        found = client.tasks.parents(project, named)
        if as_json:
            print_lines(map(task_tables.parent_fields, found))
        else:
            tables.show(task_tables.of_parents(found))


@task.command()
@click.argument("project", type=project_name)
@click.argument("taskid", metavar="TASK")
@json_lines_option
@daemon_options
def children(project: str, taskid: str, as_json: bool, daemon: Daemon) -> None:
    """List the tasks that wait for it.

    Includes tasks that have waited for it before.

    \b
    Example:
      taskqueue task children news prices-2027-01-31
    """
    from taskqueue.cli.output import tables, task_tables

    with daemon.client() as client:
        (named,) = taskids_of(client, project, (taskid,))
        found = client.tasks.children(project, named)
        if as_json:
            print_lines(found)
        else:
            tables.show(task_tables.of_children(found))


def _draw(found: Iterable[TaskReply]) -> None:
    from taskqueue.cli.output import tables
    from taskqueue.cli.output.task_tables import of_attempts
    from taskqueue.terminal.screen import Screen

    console = Screen()
    for task in found:
        console.print(tables.of_fields(_fields(task), long=FULL_ERROR), "", sep="\n")
        if task.history:
            console.print(of_attempts(task.history), "", sep="\n")


@task.command()
@click.argument("project", type=project_name, required=False)
@click.argument("taskids", metavar="[TASK]...", nargs=-1)
@bulk_options
@daemon_options
def retry(project: str | None, taskids: tuple[str, ...], daemon: Daemon, **options: Any) -> int:
    """Run tasks now, with all retries.

    Tasks of every state run. A filter without a state takes failed tasks only.

    \b
    Example:
      taskqueue task retry news https://example.com/ https://example.com/about
      taskqueue task retry news --error-glob '*timeout*' --until 2d
      taskqueue task retry --group papers --state failed --dry-run
    """
    choice = BulkChoice(**options)
    if not _are_named(project, taskids, choice):
        operations.run_bulk(daemon, project, choice, BulkChange("retry"))
        return 0
    with daemon.client() as client:
        outcomes = client.tasks.retry(project, taskids_of(client, project, taskids))
    return _print_outcomes(choice, taskids, outcomes, "will run now", "is being processed already")


@task.command()
@click.argument("project", type=project_name, required=False)
@click.argument("taskids", metavar="[TASK]...", nargs=-1)
@bulk_options
@daemon_options
def cancel(project: str | None, taskids: tuple[str, ...], daemon: Daemon, **options: Any) -> int:
    """Cancel tasks.

    A report by the fetcher of a cancelled task is ignored. A filter without a state takes all unfinished tasks.

    \b
    Example:
      taskqueue task cancel news https://example.com/
      taskqueue task cancel news --url-glob 'https://example.com/calendar/*' --yes
    """
    choice = BulkChoice(**options)
    if not _are_named(project, taskids, choice):
        operations.run_bulk(daemon, project, choice, BulkChange("cancel"))
        return 0
    with daemon.client() as client:
        outcomes = client.tasks.cancel(project, taskids_of(client, project, taskids))
    return _print_outcomes(choice, taskids, outcomes, "cancelled", "had finished already")


@task.command()
@click.argument("project", type=project_name, required=False)
@click.argument("taskids", metavar="[TASK]...", nargs=-1)
@click.option(
    "--priority", type=click.IntRange(-(2**31), 2**31 - 1), required=True, help="New priority; larger runs first."
)
@bulk_options
@daemon_options
def reprioritise(project: str | None, taskids: tuple[str, ...], priority: int, daemon: Daemon, **options: Any) -> int:
    """Change the priority of tasks.

    Unfinished tasks run sooner or later than others.

    \b
    Example:
      taskqueue task reprioritise news https://example.com/ --priority 9
      taskqueue task reprioritise news --priority 9 --url-glob 'https://a.org/*'
    """
    choice = BulkChoice(**options)
    if not _are_named(project, taskids, choice):
        operations.run_bulk(daemon, project, choice, BulkChange("reprioritise", priority))
        return 0
    with daemon.client() as client:
        outcomes = client.tasks.reprioritise(project, taskids_of(client, project, taskids), priority)
    return _print_outcomes(choice, taskids, outcomes, f"has priority {priority:,}", "had finished already")


@task.command()
@click.argument("project", type=project_name, required=False)
@click.option("--at", "exetime", type=times.future, metavar="DURATION|TIME", help="New time of the tasks.")
@click.option("--delay", type=times.seconds, metavar="DURATION", help="New delay of the tasks; 0 is now.")
@bulk_options
@daemon_options
def reschedule(project: str | None, exetime: float | None, delay: float | None, daemon: Daemon, **options: Any) -> None:
    """Change when delayed tasks run.

    A filter without a state takes all ready and delayed tasks. Their bodies, priorities and retries stay the same.

    \b
    Example:
      taskqueue task reschedule news --at 2027-01-31 --url-glob '*/archive/*'
      taskqueue task reschedule news --delay 0 --error-glob 'HTTP 503*'
    """
    if (exetime is None) == (delay is None):
        raise click.UsageError("say when, with --at or --delay")
    choice = BulkChoice(**options)
    operations.check_choice(project, choice)
    operations.run_bulk(daemon, project, choice, BulkChange("reschedule", exetime=exetime, delay=delay))


@task.command()
@click.argument("project", type=project_name)
@click.argument("task", metavar="TASK")
@click.option(
    "--downstream", "scopes", flag_value="downstream", multiple=True,
    help="All tasks that depend on it, too, however far down.",
)  # fmt: skip
@click.option(
    "--upstream-failed", "scopes", flag_value="upstream-failed", multiple=True,
    help="Failed and cancelled tasks that it depends on, too.",
)  # fmt: skip
@click.option(
    "--only-failed", "scopes", flag_value="only-failed", multiple=True,
    help="Failed and cancelled ones of it and what depends on it.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List of the tasks only, in layers.")
@click.option("--no-wait", is_flag=True, help="No waiting; the number of the operation is printed.")
@json_option
@daemon_options
def rerun(
    project: str,
    task: str,
    scopes: tuple[RerunScope, ...],
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
    daemon: Daemon,
) -> None:
    """Run a task and related ones again.

    Each related task runs once, after those of its parents that run again. --upstream-failed goes up to the first
    success, --only-failed goes all the way down. Without such an option the task runs alone, and its parents stay as
    they are. A processing task is taken from its fetcher and runs again. The command returns when all tasks are reset;
    then they run. Ctrl-C only stops the waiting.

    \b
    Example:
      taskqueue task rerun shop prices --downstream --dry-run
      taskqueue task rerun shop prices --downstream
    """
    if len(scopes) > 1:
        raise click.UsageError("choose one of --downstream, --upstream-failed and --only-failed")
    with daemon.client() as client:
        taskid = taskids_of(client, project, [task])[0]
        view = client.tasks.rerun(project, taskid, scope=scopes[0] if scopes else "task", dry_run=dry_run)
        if not no_wait:
            view = client.operations.wait(view.id)
    if as_json:
        print_object(view)
    elif no_wait:
        say(str(operation_number(view)))
    else:
        for line in rerun_lines(view):
            say(line)


def _are_named(project: str | None, taskids: Sequence[str], choice: BulkChoice) -> TypeGuard[str]:
    """Whether tasks are chosen by name, in the project; else by a filter.

    Raises:
        click.UsageError: tasks are chosen in neither way, or in both.
    """
    if not taskids and not choice.filters:
        raise click.UsageError(f"name tasks, or choose them with {operations.FILTERS}")
    if not taskids:
        operations.check_choice(project, choice)
        return False
    if choice != BulkChoice(yes=choice.yes, as_json=choice.as_json):
        raise click.UsageError("name tasks, or choose them by a filter, not both")
    return True


def _print_outcomes(choice: BulkChoice, names: Sequence[str], outcomes: Sequence[str], done: str, ignored: str) -> int:
    """Print a line per task; return exit status 1 if a task or its body is unknown."""
    words = {"done": done, "ignored": ignored, "unknown": "unknown", "bare": BARE}
    missing = [outcome in ("unknown", "bare") for outcome in outcomes]
    if choice.as_json:
        print_lines({"task": name, "outcome": outcome} for name, outcome in zip(names, outcomes, strict=True))
    else:
        for name, outcome, is_missing in zip(names, outcomes, missing, strict=True):
            say(f"{name}: {words[outcome]}", err=is_missing)
    return 1 if any(missing) else 0


def _fields(task: TaskReply) -> dict[str, str]:
    """Rows about a task, without empty ones."""
    schedule = as_plain(task.schedule)
    del schedule["job"]
    error = error_line(task.history[0]) if task.history and task.error else kind_in(task.error)
    fields = {
        "project": task.project,
        "taskid": task.taskid,
        "url": task.url,
        "state": task.state,
        "error": error,
        FULL_ERROR: task.error if task.error != error else "",
        "priority": str(task.priority),
        "depth": str(task.depth) if task.depth else "",
        "retried": str(task.retried) if task.retried else "",
        "put off": f"{task.put_off:,} times" if task.put_off else "",
        "slot": schedule.pop("slot") or "",
        "job": task.job,
        "parents": PARENT_WORDS[task.on_parent_failure],
        "recrawl": _bounds(schedule.pop("recrawl")),
        "due": local(task.exetime),
        "expires": local(schedule.pop("expires_at") or 0.0),
        "pushed": local(task.pushed_at),
        "last crawled": local(task.lastcrawltime),
        "finished": local(task.finished_at),
        "crashes": f"{task.crashes} of its fetchers fell silent while they ran it" if task.crashes else "",
        "dropped": f"{local(task.bare_since)}: its URL, body and history" if task.bare_since else "",
        "lease": _lease(task) if task.session else "",
        "note": note_line(task.note),
        "schedule": " ".join(f"{name}={value}" for name, value in schedule.items() if value),
        "body": packed_text(task.body),
        "result": _result(task),
    }
    return {name: value for name, value in fields.items() if value}


def _lease(task: TaskReply) -> str:
    slow = ", four fifths have passed" if task.history and task.history[0].outcome == "slow" else ""
    return f"{duration_text(task.lease_seconds)} left, held by {task.fetcher}{slow}"


def _bounds(recrawl: Mapping[str, float] | None) -> str:
    return f"every {duration_text(recrawl['min'])} to {duration_text(recrawl['max'])}" if recrawl else ""


def _result(task: TaskReply) -> str:
    result = packed_text(task.result)
    return result or (f"{task.result_bytes} bytes, too many to show beside its body" if task.result_bytes else "")


PAGE: Final = 500
"""Tasks that the daemon lists at once, at most."""


class TaskQuery(NamedTuple):
    """Query for tasks; see ``AsyncClient.tasks.list``."""

    project: str
    states: tuple[TaskState, ...]
    url: str | None
    error: str | None
    since: float | None
    newest: bool
    pushed_since: float | None = None
    pushed_before: float | None = None
    ignore_case: bool = False
    job: str = ""


def pages(client: Client, chosen: TaskQuery, limit: int) -> Iterator[Page[TaskRow]]:
    """Fetch pages of at most ``limit`` tasks in all; if the last page has a ``next``, there are more tasks."""
    after, left = "", limit
    while left:
        page = client.tasks.list(
            chosen.project,
            chosen.states[0] if len(chosen.states) == 1 else chosen.states or None,
            url=chosen.url,
            error=chosen.error,
            since=chosen.since,
            newest=chosen.newest,
            after=after,
            limit=min(left, PAGE),
            pushed_since=chosen.pushed_since,
            pushed_before=chosen.pushed_before,
            ignore_case=chosen.ignore_case,
            job=chosen.job,
        )
        yield page
        if not page.next:
            return
        after, left = page.next, left - len(page.items)


def print_table(found: Iterable[Page[TaskRow]], state: TaskState | Literal[""], *, tells_pushed: bool = False) -> None:
    """Print one table of all pages of tasks in this state (empty: several states), and whether there are more."""
    from taskqueue.cli.output import tables, task_tables

    rows: list[TaskRow] = []
    following = ""
    for page in found:
        rows += page.items
        following = page.next
    tables.show(task_tables.of_tasks(rows, state, tells_pushed=tells_pushed))
    if following:
        say("There are more; --limit shows them.", err=True)


def print_json(found: Iterable[Page[TaskRow]]) -> None:
    """Print one object per line, as the pages arrive."""
    for page in found:
        print_lines(page.items)
