"""``taskqueue slot``: the slots of a project, such as its hosts, each with a pace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.json_values import without_envelope
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.choices import SlotSort
    from taskqueue.protocol.slots import SlotFact, SlotListReply


@click.group()
def slot() -> None:
    """Show the slots of a project, and say how one of them goes.

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


FACTS = ("delay", "rate", "burst", "max-processing", "max-tasks", "block-until")


@slot.command("set")
@click.argument("project", type=project_name)
@click.argument("name")
@click.option("--delay", help="Time from one hand-out to the next, such as 0.5 or 10s; auto: as fast as it answers.")
@click.option("--rate", type=click.FloatRange(min=0.0001), help="Instead: tasks a second, on average; inf: no delay.")
@click.option("--burst", type=click.FloatRange(1, 1e6), help="With a rate: tasks at once after a quiet time.")
@click.option(
    "--max-processing", type=click.FloatRange(min=1), help="Tasks that fetchers have at once; inf: any number."
)
@click.option("--max-tasks", type=click.FloatRange(min=1), help="Tasks after which new ones are rejected; inf: never.")
@click.option("--block-until", help="Hand out nothing before: a time, or a duration from now; inf: until it is unset.")
@click.option("--unset", multiple=True, type=click.Choice(FACTS), help="Don't say this any more; may be repeated.")
@daemon_options
def set_slot(
    project: str,
    name: str,
    delay: str | None,
    rate: float | None,
    burst: float | None,
    max_processing: float | None,
    max_tasks: float | None,
    block_until: str | None,
    unset: tuple[str, ...],
    url: str,
    timeout: float,
) -> None:
    """Say how one slot goes, such as a host: now, and across restarts. It need not have had a task yet.

    What is said of a slot wins over the settings of its project. --unset block-until ends every pause of the slot, also
    a back-off, or one that its host has asked for.

    \b
    Example:
      taskqueue slot set news example.org --delay 10s
      taskqueue slot set news example.org --block-until 2h
      taskqueue slot set news example.org --block-until "2027-01-31 18:00"
      taskqueue slot set news example.org --unset delay --unset block-until
    """
    facts = cast("list[SlotFact]", [each.replace("-", "_") for each in unset])
    until = None if block_until is None else times.until(block_until)
    pause: float | Literal["auto"] | None = None
    if delay is not None:
        pause = "auto" if delay == "auto" else times.seconds(delay)
    with Daemon(url, timeout).client() as client:
        found = client.slots.set(
            project, name, delay=pause, rate=rate, burst=burst, max_processing=max_processing, max_tasks=max_tasks,
            block_until=until, unset=facts,
        )  # fmt: skip
    from taskqueue.cli.output import slot_tables, tables

    tables.show(tables.of_fields(slot_tables.fields_of(found)))
