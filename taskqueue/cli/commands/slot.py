"""``taskqueue slot``: the slots of a project, such as its hosts, each with a pace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.output.json_output import (
    json_lines_option,
    json_option,
    print_lines,
    print_object,
    without_envelope,
)
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.choices import SlotSort
    from taskqueue.protocol.replies import SlotListReply


@click.group()
def slot() -> None:
    """Show the slots of a project.

    With its setting slot a project is divided into slots: one per host or registered domain, or as its tasks name them.
    Each has a pace of its own, so that no host is asked too often.

    \b
    Example:
      taskqueue slot list news
    """


@slot.command("list")
@click.argument("project", type=project_name)
@click.option(
    "--by", type=click.Choice(["backlog", "errors", "delay", "name"]), default="backlog", show_default=True,
    help="The most ready tasks, the most errors or the longest delay first; or by name.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows, at most.")
@click.option("--all", "everything", is_flag=True, help="Look at those, too, that are in the store only.")
@json_lines_option
@daemon_options
def list_slots(
    project: str, by: SlotSort, limit: int, everything: bool, as_json: bool, url: str, timeout: float
) -> None:
    """List the slots of a project: where each is, and what waits for it.

    Those in memory are shown at once: all that may go on next are there. Of their ready tasks those in memory are
    counted; a + says that the store has more. With --all the daemon looks at all slots, step by step, which takes
    about a second for a million ready tasks: give it --timeout 600 if there are very many.

    A slot is ready, waiting until a time, parked until a task of it has ended or its next ones are read, or only
    stored.

    \b
    Example:
      taskqueue slot list news
      taskqueue slot list news --by errors --limit 5
      taskqueue slot list news --all --timeout 600
      taskqueue slot list news --by delay --json | jq -r .name
    """
    with Daemon(url, timeout).client() as client:
        found = client.slots.list(project, by=by, limit=limit, all=everything)
    if as_json:
        print_lines(found.slots)
        return
    from taskqueue.cli.output import slot_tables, tables

    tables.show(slot_tables.of_slots(found.slots))
    if found.slots:
        say(_summary(found, everything=everything, by=by), err=True)


def _summary(found: SlotListReply, *, everything: bool, by: SlotSort) -> str:
    """How many there are, and what of that is not shown."""
    what = "1 slot" if found.count == 1 else f"{found.count:,} slots"
    where = (" with ready tasks" if by == "backlog" else " in all") if everything else " in memory"
    hidden = found.count - len(found.slots)
    more = f" There are {hidden:,} more rows; --limit shows them." if hidden > 0 else ""
    return f"{what}{where}, by {found.by}.{more}"


@slot.command()
@click.argument("project", type=project_name)
@click.argument("name")
@json_option
@daemon_options
def show(project: str, name: str, as_json: bool, url: str, timeout: float) -> None:
    """Show all that is known of one slot: its pace and who says so, what it waits for, its next tasks.

    \b
    Example:
      taskqueue slot show news example.org
    """
    with Daemon(url, timeout).client() as client:
        found = client.slots.show(project, name)
    if as_json:
        print_object(without_envelope(found))
        return
    from taskqueue.cli.output import slot_tables, tables

    tables.show(tables.of_fields(slot_tables.fields_of(found)))
    if found.tasks:
        tables.show(slot_tables.of_next(found.tasks))
