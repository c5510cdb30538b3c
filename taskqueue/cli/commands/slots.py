"""``taskqueue slot``: show and set the slots of a project, such as its hosts, each with its own pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast, get_args

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.json_values import without_envelope
from taskqueue.protocol.slots import SlotFact
from taskqueue.terminal.lines import say
from taskqueue.texts.suggestions import there_are

if TYPE_CHECKING:
    from taskqueue.protocol.choices import SlotSort
    from taskqueue.protocol.slots import SlotDetails, SlotPage


@click.group()
def slot() -> None:
    """List, show and set slots.

    The setting slot.by divides a project into slots: one per host or registered domain, or as its tasks name them. Each
    slot has its own pace, so that no host gets requests too often.

    \b
    Example:
      taskqueue slot list news
    """


@slot.command("list")
@click.argument("project", type=project_name)
@click.option(
    "--sort", type=click.Choice(["backlog", "errors", "delay", "name"]), default="backlog", show_default=True,
    help="Number that comes first where it is largest, or name.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Number of rows, at most.")
@click.option("--stored", is_flag=True, help="Slots that are in the store only, too.")
@json_lines_option
@daemon_options
def list_slots(project: str, sort: SlotSort, limit: int, stored: bool, as_json: bool, daemon: Daemon) -> None:
    """List slots: pace, state, backlog.

    Shows the slots in memory, among them all that may dispatch next. Their ready tasks in memory are counted; a + means
    that the store has more. With --stored the daemon scans all slots step by step, about a second per million ready
    tasks; with very many, add --timeout 10m.

    A slot is ready, waiting until a time, parked until one of its tasks ends or its next ones are read, or stored only.

    \b
    Example:
      taskqueue slot list news
      taskqueue slot list news --sort errors --limit 5
      taskqueue slot list news --stored --timeout 10m
      taskqueue slot list news --sort delay --json | jq -r .name
    """
    with daemon.client() as client:
        found = client.slots.list(project, sort=sort, limit=limit, stored=stored)
    if as_json:
        print_lines(found.slots)
        return
    from taskqueue.cli.output import slot_tables, tables

    tables.show(slot_tables.of_slots(found.slots))
    if found.slots:
        say(_summary(found, stored=stored, sort=sort), err=True)


def _summary(found: SlotPage, *, stored: bool, sort: SlotSort) -> str:
    """Describe the number of slots, and how many are not shown."""
    what = "1 slot" if found.count == 1 else f"{found.count:,} slots"
    where = (" with ready tasks" if sort == "backlog" else " in all") if stored else " in memory"
    hidden = found.count - len(found.slots)
    more = f" There are {hidden:,} more rows; --limit shows them." if hidden > 0 else ""
    return f"{what}{where}, by {found.by}.{more}"


@slot.command()
@click.argument("project", type=project_name)
@click.argument("name", metavar="SLOT")
@json_option
@daemon_options
def show(project: str, name: str, as_json: bool, daemon: Daemon) -> None:
    """Show the pace of a slot and its next tasks.

    Shows its pace and who set it, and what the slot waits for.

    \b
    Example:
      taskqueue slot show news example.org
    """
    with daemon.client() as client:
        found = client.slots.get(project, name)
    if as_json:
        print_object(without_envelope(found))
        return
    from taskqueue.cli.output import slot_tables, tables

    tables.show(tables.of_fields(slot_tables.fields_of(found)))
    if found.tasks:
        tables.show(slot_tables.of_next(found.tasks))


FACTS: Final = get_args(SlotFact)


@slot.command("set")
@click.argument("project", type=project_name)
@click.argument("name", metavar="SLOT")
@click.option("--delay", metavar="DURATION", help="Time from one dispatch to the next, or auto.")
@click.option("--rate", type=click.FloatRange(min=0.0001), help="Tasks a second, on average; inf: no delay.")
@click.option("--burst", type=click.FloatRange(1, 1e6), help="Tasks at once after a quiet time, with a rate.")
@click.option("--max-processing", type=click.FloatRange(min=1), help="Tasks that fetchers hold at once; inf: no limit.")
@click.option("--max-tasks", type=click.FloatRange(min=1), help="Tasks after which new ones are rejected; inf: never.")
@click.option(
    "--block-until", metavar="DURATION|TIME", type=times.future_or_never, help="End of a pause; inf: until it is unset."
)
@daemon_options
def set_slot(
    project: str,
    name: str,
    delay: str | None,
    rate: float | None,
    burst: float | None,
    max_processing: float | None,
    max_tasks: float | None,
    block_until: float | None,
    daemon: Daemon,
) -> None:
    """Override the pace of a slot.

    The override applies at once, survives restarts, and wins over the project's settings. The slot may be new.

    \b
    Example:
      taskqueue slot set news example.org --delay 10s
      taskqueue slot set news example.org --block-until 2h
      taskqueue slot set news example.org --block-until "2027-01-31 18:00"
    """
    pause: float | Literal["auto"] | None = None
    if delay is not None:
        pause = "auto" if delay == "auto" else times.seconds(delay)
    with daemon.client() as client:
        found = client.slots.set(
            project, name, delay=pause, rate=rate, burst=burst, max_processing=max_processing, max_tasks=max_tasks,
            block_until=block_until,
        )  # fmt: skip
    _print_fields(found)


def slot_fact(written: str) -> SlotFact:
    """Parse the key of an override, such as ``max_processing``.

    Raises:
        click.BadParameter: no override has this name.
    """
    key = written.replace("-", "_")
    if key not in FACTS:
        raise click.BadParameter(f'"{written}" is not a key of a slot; {there_are(key, FACTS)}')
    return cast("SlotFact", key)


@slot.command()
@click.argument("project", type=project_name)
@click.argument("name", metavar="SLOT")
@click.argument("keys", metavar="[KEY]...", nargs=-1, type=slot_fact)
@daemon_options
def unset(project: str, name: str, keys: tuple[SlotFact, ...], daemon: Daemon) -> None:
    """Remove overrides of a slot.

    Forgets what `set` said of these keys, or of all if none is named: delay, rate, burst, max_processing, max_tasks,
    block_until. With block_until, every pause of the slot ends, back-offs and pauses that its host asked for included.

    \b
    Example:
      taskqueue slot unset news example.org delay block_until
    """
    with daemon.client() as client:
        found = client.slots.unset(project, name, keys)
    _print_fields(found)


def _print_fields(found: SlotDetails) -> None:
    from taskqueue.cli.output import slot_tables, tables

    tables.show(tables.of_fields(slot_tables.fields_of(found)))
