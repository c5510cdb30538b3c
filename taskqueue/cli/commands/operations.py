"""``taskqueue operation``, and the start of an operation: one action on many tasks, chosen by a filter.

    options ──► dry run, which counts ──► confirmation ──► operation ──► progress bar ──► outcome
                                                              └── --no-wait: its number, for ``taskqueue operation``

The actions on tasks in ``tasks`` take the same options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import END_STATUSES, NOT_OVER_STATUS, Daemon, daemon_options, waiting_options
from taskqueue.cli.input.names import group_option
from taskqueue.cli.input.stdin import confirm, require_terminal
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.counts import tasks
from taskqueue.display.operations import DONE, outcome, undo_lines, undoable
from taskqueue.display.operations import number as operation_number
from taskqueue.display.operations import progress as progress_text
from taskqueue.protocol.choices import LIVE_STATES, STATES, WAITING_STATES, TaskState
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.values import BulkAction, Operation

Command = TypeVar("Command", bound=Callable[..., object])

LARGEST_ID = 2**63 - 1


def operation_id(written: str) -> int:
    """Parse the number or id of an operation.

    Raises:
        click.BadParameter: it is neither.
    """
    if not (written.isascii() and written.isdigit() and int(written) <= LARGEST_ID):
        raise click.BadParameter(f'"{written}" is no number or id of an operation; `taskqueue operation list` has them')
    return int(written)


@click.group()
def operation() -> None:
    """Show, wait for, cancel and undo operations.

    `taskqueue task` begins them, and so do actions on groups. They run on without a waiting client, and after a restart
    of the daemon. The last 100 that ended are kept.

    \b
    Example:
      taskqueue operation list
    """


@operation.command("list")
@json_lines_option
@daemon_options
def list_operations(as_json: bool, daemon: Daemon) -> None:
    """List bulk operations.

    Newest first; the last 100 that ended are kept.

    \b
    Example:
      taskqueue operation list
    """
    with daemon.client() as client:
        views = client.operations.list()
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import tables, task_tables

    tables.show(task_tables.of_operations(views))


@operation.command()
@click.argument("number", metavar="NUMBER|ID", type=operation_id)
@json_option
@daemon_options
def show(number: int, as_json: bool, daemon: Daemon) -> None:
    """Show a bulk operation.

    \b
    Example:
      taskqueue operation show 3
    """
    with daemon.client() as client:
        view = client.operations.get(number)
    if as_json:
        print_object(view)
        return
    from taskqueue.cli.output import tables
    from taskqueue.terminal.screen import Screen

    Screen().print(tables.of_fields(_fields(view)))


@operation.command()
@click.argument("number", metavar="NUMBER|ID", type=operation_id)
@json_option
@waiting_options
def wait(number: int, as_json: bool, patience: float, daemon: Daemon) -> int:
    """Wait until a bulk operation has ended.

    The exit status is 0 if the operation completed, 4 if it was cancelled, 1 after --timeout. The wait continues while
    the daemon restarts.

    \b
    Example:
      taskqueue operation wait 3 && ./report
    """
    with daemon.client() as client:
        view = client.operations.get(number)
        with _bar(view) as progress:
            view = client.operations.wait(view.id, progress, patience)
    if as_json:
        print_object(view)
    elif not view.ended_at:
        say(f"taskqueue operation wait: {number} has not ended, {progress_text(view)}", err=True)
    else:
        say(f"{'cancelled: ' * view.cancelled}{outcome(view)}")
    if not view.ended_at:
        return NOT_OVER_STATUS
    return END_STATUSES["cancelled" if view.cancelled else "success"]


@operation.command()
@click.argument("number", metavar="NUMBER|ID", type=operation_id)
@json_option
@daemon_options
def cancel(number: int, as_json: bool, daemon: Daemon) -> None:
    """Cancel a bulk operation.

    It stops where it is, and what it has changed stays changed. Tasks that a rerun has reset still run; if it has reset
    none yet, it leaves no trace.

    \b
    Example:
      taskqueue operation cancel 3
    """
    with daemon.client() as client:
        view = client.operations.cancel(number)
    if as_json:
        print_object(view)
    else:
        say(f"cancelled: {outcome(view)}")


@operation.command()
@click.argument("number", metavar="NUMBER|ID", type=operation_id)
@click.option("--yes", is_flag=True, help="Undo without asking.")
@click.option("--no-wait", is_flag=True, help="Print the undo's number instead of waiting for its end.")
@json_option
@daemon_options
def undo(number: int, yes: bool, no_wait: bool, as_json: bool, daemon: Daemon) -> None:
    """Undo a bulk change of tasks.

    Tasks of a retry, cancel, reprioritise or reschedule get back the state, due time, priority and retries that they
    had; those that ran come back ready. Tasks that have changed since stay as they are. Children that failed, events of
    finished projects and ends of flows stay, too, and are named. The last 10 such operations can be undone, for 7 days
    and up to 2,000,000 tasks in all. An undo can't be undone.

    \b
    Example:
      taskqueue operation undo 3 --yes
    """
    if not yes:
        require_terminal()
    with daemon.client() as client:
        if not yes:
            of = client.operations.get(number)
            confirm(f"Undo operation {operation_number(of)}, {of.action} of {tasks(of.rows)}?", "nothing was undone")
        view = client.operations.undo(number)
        if not no_wait:
            view = _wait_with_bar(client, view)
    if as_json:
        print_object(view)
    elif no_wait:
        say(str(operation_number(view)))
    else:
        for line in undo_lines(view):
            say(line)


def _fields(view: Operation) -> dict[str, str]:
    from taskqueue.cli.input.times import local
    from taskqueue.cli.output.task_tables import chosen
    from taskqueue.display.operations import action

    fields = {
        "number": str(view.number or ""),
        "id": str(view.id),
        "action": action(view),
        "projects": ", ".join(view.projects),
        "filter": chosen(view),
        "new priority": "" if view.priority is None else str(view.priority),
        "new time": "" if view.exetime is None else local(view.exetime) or "at once",
        "state": progress_text(view),
        "scanned": f"{view.seen:,} of about {max(view.known, view.seen):,}",
        "matched": f"{view.matched:,}",
        "began": local(view.began_at),
        "ended": local(view.ended_at),
        "outcome": "; ".join(undo_lines(view)) or outcome(view) if view.ended_at else "",
        "undo": undoable(view),
    }
    return {name: value for name, value in fields.items() if value}


LIKELY: Final[dict[BulkAction, tuple[TaskState, ...]]] = {
    "retry": ("failed", "delayed"),
    "cancel": LIVE_STATES,
    "reprioritise": LIVE_STATES,
    "reschedule": WAITING_STATES,
}
"""States in which an action makes sense; without a state, retry takes the first of them only."""

FILTERS: Final = "--state, --url-glob, --error-glob, --since, --until, --pushed-since, --pushed-before or --job"


class BulkChange(NamedTuple):
    """Action; reprioritise has a ``priority``, reschedule an ``exetime`` (unix seconds) or ``delay`` (seconds)."""

    action: BulkAction
    priority: int = 0
    exetime: float | None = None
    delay: float | None = None


class BulkChoice(NamedTuple):
    """Values of ``bulk_options``: which tasks, and how to proceed.

    Attributes:
        until, since, pushed_since, pushed_before: unix seconds, None if not given; see
            ``protocol.values.TaskFilter``.
    """

    group: str | None = None
    states: tuple[TaskState, ...] = ()
    url_glob: str = ""
    error_glob: str = ""
    ignore_case: bool = False
    until: float | None = None
    since: float | None = None
    pushed_since: float | None = None
    pushed_before: float | None = None
    job: str = ""
    dry_run: bool = False
    yes: bool = False
    no_wait: bool = False
    as_json: bool = False

    @property
    def filters(self) -> bool:
        """Whether any filter on tasks is set."""
        of_time = self.until or self.since or self.pushed_since or self.pushed_before
        return bool(self.states or self.url_glob or self.error_glob or of_time or self.job)


IGNORE_CASE: Final = click.option("--ignore-case", is_flag=True, help="Match of letters of either case in patterns.")

PUSHED_OPTIONS: Final = (
    click.option("--pushed-since", metavar="DURATION|TIME", type=times.past, help="Earliest time of the first push."),
    click.option("--pushed-before", metavar="DURATION|TIME", type=times.past, help="Latest time of the first push."),
)

job_option = click.option("--job", metavar="NAME", default="", help="Job that the tasks came by.")

OPTIONS: Final = (
    click.option(
        "--state",
        "states",
        metavar="STATE",
        type=click.Choice(STATES),
        multiple=True,
        help="State of the tasks (repeatable).",
    ),
    click.option("--url-glob", metavar="GLOB", default="", help="Pattern of the URLs, such as 'https://a.org/*'."),
    click.option("--error-glob", metavar="GLOB", default="", help="Pattern of the last errors, such as '*timeout*'."),
    IGNORE_CASE,
    click.option(
        "--since",
        metavar="DURATION|TIME",
        type=times.past,
        default=None,
        help="Earliest time of the end or last run.",
    ),
    click.option(
        "--until",
        metavar="DURATION|TIME",
        type=times.past,
        default=None,
        help="Latest time of the end or last run.",
    ),
    *PUSHED_OPTIONS,
    job_option,
    click.option("--dry-run", is_flag=True, help="Count of the tasks only; nothing is changed."),
    click.option("--yes", is_flag=True, help="Yes to the question that would be asked."),
    json_option,
    click.option("--no-wait", is_flag=True, help="No waiting; the number of the operation is printed."),
)


def pushed_options(command: Command) -> Command:
    """Add options for the time of a task's first push."""
    for option in reversed(PUSHED_OPTIONS):
        command = option(command)
    return command


def bulk_options(command: Command) -> Command:
    """Add the options of a ``BulkChoice`` to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return group_option(command)


def check_choice(project: str | None, choice: BulkChoice) -> None:
    """Check that the options say which tasks to change.

    Raises:
        click.UsageError: they don't.
    """
    if bool(project) == bool(choice.group):
        raise click.UsageError("name a project, or a group with --group")
    if not choice.filters:
        raise click.UsageError(f"choose tasks with {FILTERS}")


def run_bulk(daemon: Daemon, project: str | None, choice: BulkChoice, change: BulkChange) -> None:
    """Run the operation, and print the number of affected tasks."""
    asks = not (choice.yes or choice.dry_run)
    if asks:
        require_terminal()
    with daemon.client() as client:
        if asks and not _is_confirmed(client, project, choice, change):
            return
        view = _begin(client, project, choice, change, dry_run=choice.dry_run)
        if choice.no_wait:
            _print_outcome(view, str(operation_number(view)), choice)
        else:
            view = _wait_with_bar(client, view)
            _print_outcome(view, _outcome(view, choice, change), choice)
            _hint_at_other_states(client, project, choice, change, view)


def _print_outcome(view: Operation, words: str, choice: BulkChoice) -> None:
    if choice.as_json:
        print_object(view)
    else:
        say(words)


def _outcome(view: Operation, choice: BulkChoice, change: BulkChange) -> str:
    """Describe the outcome: what changed, or ``no failed task matched (73 scanned)``."""
    if view.matched or view.cancelled:
        return outcome(view)
    states = _meant(choice, change)
    return f"no {' or '.join(states)} task matched ({view.seen:,} scanned)"


def _meant(choice: BulkChoice, change: BulkChange) -> Sequence[TaskState]:
    """States of the tasks to change: those given, else, for a retry, the first of the likely ones."""
    return choice.states or LIKELY[change.action][: 1 if change.action == "retry" else None]


def _hint_at_other_states(
    client: Client, project: str | None, choice: BulkChoice, change: BulkChange, view: Operation
) -> None:
    """If no task matched, print how many would in other states."""
    meant = _meant(choice, change)
    others = tuple(state for state in LIKELY[change.action] if state not in meant)
    if view.matched or not others:
        return
    elsewhere = choice._replace(states=others)
    found = _wait_with_bar(client, _begin(client, project, elsewhere, change, dry_run=True)).matched
    if found:
        options = " ".join(f"--state {state}" for state in others)
        one = "is" if found == 1 else "are"
        say(f"But {tasks(found)} that {one} {' or '.join(others)} would match: {options}", err=True)
    if change.action != "retry":
        return
    # The daemon refuses to retry ready tasks, so another action counts them.
    ready_ones, counted = choice._replace(states=("ready",)), BulkChange("reprioritise")
    ready = _wait_with_bar(client, _begin(client, project, ready_ones, counted, dry_run=True))
    if ready.matched:
        verb = "matches, and" if ready.matched == 1 else "match, and"
        say(f"{tasks(ready.matched)} of those that are ready {verb} will run anyway.", err=True)


def _is_confirmed(client: Client, project: str | None, choice: BulkChoice, change: BulkChange) -> bool:
    """Count the tasks and ask the user; False if there are none.

    Raises:
        click.ClickException: the user declined.
    """
    counted = _wait_with_bar(client, _begin(client, project, choice, change, dry_run=True))
    if not counted.matched:
        _print_outcome(counted, _outcome(counted, choice, change), choice)
        _hint_at_other_states(client, project, choice, change, counted)
        return False
    confirm(f"{change.action.capitalize()} {tasks(counted.matched)}?", f"nothing was {DONE[change.action]}")
    return True


def _begin(client: Client, project: str | None, choice: BulkChoice, change: BulkChange, *, dry_run: bool) -> Operation:
    return client.operations.start(
        change.action,
        project=project,
        group=choice.group or "",
        states=choice.states,
        url=choice.url_glob,
        error=choice.error_glob,
        ignore_case=choice.ignore_case,
        until=choice.until,
        since=choice.since,
        pushed_since=choice.pushed_since,
        pushed_before=choice.pushed_before,
        job=choice.job,
        priority=change.priority,
        exetime=change.exetime,
        delay=change.delay,
        dry_run=dry_run,
    )


def _wait_with_bar(client: Client, view: Operation) -> Operation:
    with _bar(view) as progress:
        return client.operations.wait(view.id, progress)


@contextmanager
def _bar(view: Operation) -> Iterator[Callable[[Operation], object] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from taskqueue.terminal.screen import Screen

    text = "{task.completed:,} of {task.total:,} scanned, {task.fields[matched]:,} matched"
    columns = (BarColumn(), TextColumn(text), TimeElapsedColumn())
    with Progress(*columns, console=Screen(err=True), transient=True) as bar:
        row = bar.add_task("", total=max(view.known, 1), matched=0)
        yield lambda seen: bar.update(row, completed=seen.seen, total=max(seen.known, seen.seen), matched=seen.matched)
