"""``taskqueue operation``: bulk operations, under way or ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object

if TYPE_CHECKING:
    from taskqueue.protocol.operations import OperationView

LARGEST_ID = 2**63 - 1


def operation_id(written: str) -> int:
    """The id that an operation can have.

    Raises:
        click.BadParameter: it is none.
    """
    if not (written.isascii() and written.isdigit() and int(written) <= LARGEST_ID):
        raise click.BadParameter(f'"{written}" is no id of an operation; `taskqueue operation list` has them')
    return int(written)


@click.group()
def operation() -> None:
    """Show bulk operations: how far they are, and what came of them; cancel them.

    `taskqueue task` and `taskqueue flow rerun` begin them. They go on without anybody waiting, also over a restart of
    the daemon; the last 100 that ended are remembered.

    \b
    Example:
      taskqueue operation list
    """


@operation.command("list")
@json_lines_option
@daemon_options
def list_operations(as_json: bool, url: str, timeout: float) -> None:
    """List all that are remembered, the newest first.

    \b
    Example:
      taskqueue operation list
    """
    with Daemon(url, timeout).client() as client:
        views = client.operations.list()
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import tables, task_tables

    tables.show(task_tables.of_operations(views))


@operation.command()
@click.argument("number", metavar="ID", type=operation_id)
@json_option
@daemon_options
def show(number: int, as_json: bool, url: str, timeout: float) -> None:
    """Show one.

    \b
    Example:
      taskqueue operation show 17592186044417
    """
    with Daemon(url, timeout).client() as client:
        view = client.operations.show(number)
    if as_json:
        print_object(view)
        return
    from taskqueue.cli.output import tables
    from taskqueue.terminal.screen import Screen

    Screen().print(tables.of_fields(_fields(view)))


@operation.command()
@click.argument("number", metavar="ID", type=operation_id)
@json_option
@daemon_options
def cancel(number: int, as_json: bool, url: str, timeout: float) -> None:
    """End one where it is.

    What it has changed stays changed. A rerun leaves no trace if it has not reset any task yet; what it has reset runs.

    \b
    Example:
      taskqueue operation cancel 17592186044417
    """
    with Daemon(url, timeout).client() as client:
        view = client.operations.cancel(number)
    if as_json:
        print_object(view)
    else:
        from taskqueue.display.operations import outcome
        from taskqueue.terminal.lines import say

        say(f"cancelled: {outcome(view)}")


def _fields(view: OperationView) -> dict[str, str]:
    from taskqueue.cli.input.times import local
    from taskqueue.cli.output.task_tables import chosen
    from taskqueue.display.operations import action, outcome, progress

    fields = {
        "id": str(view.id),
        "action": action(view),
        "projects": ", ".join(view.projects),
        "filter": chosen(view),
        "new priority": "" if view.priority is None else str(view.priority),
        "new time": "" if view.exetime is None else local(view.exetime) or "at once",
        "state": progress(view),
        "looked at": f"{view.seen:,} of about {max(view.known, view.seen):,}",
        "matched": f"{view.matched:,}",
        "began": local(view.began_at),
        "ended": local(view.ended_at),
        "outcome": outcome(view) if view.ended_at else "",
    }
    return {name: value for name, value in fields.items() if value}
