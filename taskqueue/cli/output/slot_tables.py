"""Tables of slots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

from rich.table import Table

from taskqueue.cli.input.times import local
from taskqueue.cli.output.tables import bare_table, of_columns
from taskqueue.display.columns import ListColumn
from taskqueue.display.slots import columns_of, delay, name_of, ready, tasks_so_far
from taskqueue.protocol.slots import Slot, SlotDetails, SlotDivision
from taskqueue.protocol.tasks import TaskRow
from taskqueue.terminal.screen import Text
from taskqueue.texts.units import duration_text

PLACES = {"ready": "green", "waiting": "yellow"}


def of_slots(slots: Sequence[Slot]) -> Table:
    """Make a table with a row per slot; with the number of tasks ever, if it is limited for any slot."""
    columns = [*columns_of(slots), ListColumn("until", _until, words=True)]
    styles = {"slot": lambda slot: "bold", "place": lambda slot: PLACES.get(slot.place, "")}
    return of_columns(columns, slots, styles=styles, folded=("until",))


def of_next(tasks: Sequence[TaskRow]) -> Table:
    """Make a table of the next tasks of a slot."""
    table = bare_table(["next task"], ["priority"], ["url"])
    for task in tasks:
        table.add_row(Text(task.taskid), Text(f"{task.priority:,}"), Text(task.url))
    return table


def fields_of(found: SlotDetails) -> dict[str, str]:
    """Rows about a slot."""
    slot, sources = found.slot, found.sources
    chosen = ", ".join(f"{name} {value}" for name, value in found.chosen.items())
    fields = {
        "slot": name_of(slot),
        "place": slot.place,
        "may go on": _at(slot.until),
        "blocked": _at(slot.blocked_until),
        "backs off": f"{_at(slot.backoff_until)}, for {slot.backoff} in a row" if slot.backoff_until else "",
        "ready tasks": ready(slot),
        "processing": f"{slot.processing:,} of {_most(slot.max_processing)}{_said(sources, 'max_processing')}",
        "tasks so far": f"{tasks_so_far(slot)}{_said(sources, 'max_tasks')}" if slot.max_tasks is not None else "",
        "delay": f"{delay(slot)}{_said(sources, 'delay')}",
        "burst": f"{slot.burst:g}{_said(sources, 'burst')}" if slot.burst != 1 else "",
        "errors": f"{slot.errors:,}",
        "a person set": chosen,
        "number": str(slot.number),
    }
    return {name: value for name, value in fields.items() if value}


def of_division(view: SlotDivision) -> str:
    """Describe how a project is divided."""
    places = ((view.ready, "ready"), (view.waiting, "waiting"), (view.parked, "parked"))
    there = ", ".join(f"{count:,} {place}" for count, place in places if count) or "none in memory"
    stored = ", more in the store" if view.stored else ""
    moving = "; ready tasks are still being moved to them" if view.moving else ""
    if view.by == "none":
        return "none any more; ready tasks are still being moved" if view.moving else ""
    return f"by {view.by}: {there}{stored}{moving}"


def _most(most: float) -> str:
    return "any number" if most == inf else f"{most:,.0f}"


def _said(sources: dict[str, str], number: str) -> str:
    """Describe the source of a number of the pace."""
    source = sources.get(number, "")
    if source in ("", "project"):
        return " (as the project says)" if source else ""
    return " (set by a person)" if source == "person" else f' (as "{source}" in the setting slots says)'


def _until(slot: Slot) -> str:
    """Describe what a slot waits for."""
    if slot.blocked_until:
        return f"blocked {_in(slot.blocked_until)}"
    if slot.backoff_until:
        return f"backs off {_in(slot.backoff_until)}"
    return _in(slot.until)


def _in(at: float) -> str:
    """Format the time until a moment; empty if it has passed."""
    if at == inf:
        return "until it is unset"
    left = at - time.time()
    return f"in {duration_text(left)}" if left > 0 else ""


def _at(at: float) -> str:
    """Format a moment, with the date if it is not soon."""
    return f"{_in(at)} ({local(at)})" if time.time() + 60 < at < inf else _in(at)
