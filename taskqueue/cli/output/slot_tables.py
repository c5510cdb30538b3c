"""Tables of slots for people."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import inf

from rich.table import Table

from taskqueue.cli.input.times import local
from taskqueue.cli.output.tables import bare_table
from taskqueue.protocol.slots import DivisionView, SlotReply, SlotView
from taskqueue.protocol.tasks import TaskRow
from taskqueue.terminal.screen import Text
from taskqueue.units import duration_text

NAMELESS = "(no host)"
"""The slot of the tasks that nothing tells apart."""

PLACES = {"ready": "green", "waiting": "yellow"}


def of_slots(slots: Iterable[SlotView]) -> Table:
    """A row a slot; how many tasks it has had, if that is limited for any of them."""
    shown = list(slots)
    is_limited = any(slot.max_tasks is not None for slot in shown)
    counts = ["ready", "processing", "errors", "delay"] + ["tasks"] * is_limited
    table = bare_table(["slot", "place"], counts, ["until"])
    for slot in shown:
        numbers = [_ready(slot), f"{slot.processing:,}", f"{slot.errors:,}", _delay(slot)]
        table.add_row(
            Text(slot.name or NAMELESS, style="bold"),
            Text(slot.place, style=PLACES.get(slot.place, "")),
            *map(Text, numbers + [_tasks(slot)] * is_limited),
            Text(_until(slot)),
        )
    return table


def of_next(tasks: Sequence[TaskRow]) -> Table:
    """The next tasks of a slot."""
    table = bare_table(["next task"], ["priority"], ["url"])
    for task in tasks:
        table.add_row(Text(task.taskid), Text(f"{task.priority:,}"), Text(task.url))
    return table


def fields_of(found: SlotReply) -> dict[str, str]:
    """What is to be said of a slot."""
    slot, sources = found.slot, found.sources
    chosen = ", ".join(f"{name} {value}" for name, value in found.chosen.items())
    fields = {
        "slot": slot.name or NAMELESS,
        "place": slot.place,
        "may go on": _at(slot.until),
        "blocked": _at(slot.blocked_until),
        "backs off": f"{_at(slot.backoff_until)}, for {slot.backoff} in a row" if slot.backoff_until else "",
        "ready tasks": _ready(slot),
        "processing": f"{slot.processing:,} of {_most(slot.max_processing)}{_said(sources, 'max_processing')}",
        "tasks so far": f"{_tasks(slot)}{_said(sources, 'max_tasks')}" if slot.max_tasks is not None else "",
        "delay": f"{_delay(slot)}{_said(sources, 'delay')}",
        "burst": f"{slot.burst:g}{_said(sources, 'burst')}" if slot.burst != 1 else "",
        "errors": f"{slot.errors:,}",
        "a person set": chosen,
        "number": str(slot.number),
    }
    return {name: value for name, value in fields.items() if value}


def of_division(view: DivisionView) -> str:
    """How a project is divided, in words."""
    places = ((view.ready, "ready"), (view.waiting, "waiting"), (view.parked, "parked"))
    there = ", ".join(f"{count:,} {place}" for count, place in places if count) or "none in memory"
    stored = ", more in the store" if view.stored else ""
    moving = "; ready tasks are still being moved to them" if view.moving else ""
    if view.by == "none":
        return "none any more; ready tasks are still being moved" if view.moving else ""
    return f"by {view.by}: {there}{stored}{moving}"


def _ready(slot: SlotView) -> str:
    return f"{slot.ready:,}{'+' if slot.more else ''}"


def _tasks(slot: SlotView) -> str:
    """How many tasks have been new in it, of how many."""
    return f"{slot.taken:,}" if slot.max_tasks is None else f"{slot.taken:,} of {slot.max_tasks:,.0f}"


def _delay(slot: SlotView) -> str:
    seconds = f"{slot.delay:.3g} s" if slot.delay < 10 else duration_text(slot.delay)
    return f"{seconds} (auto)" if slot.auto else seconds


def _most(most: float) -> str:
    return "any number" if most == inf else f"{most:,.0f}"


def _said(sources: dict[str, str], number: str) -> str:
    """Who says a number of the pace."""
    source = sources.get(number, "")
    if source in ("", "project"):
        return " (as the project says)" if source else ""
    return " (set by a person)" if source == "person" else f' (as "{source}" in the setting slots says)'


def _until(slot: SlotView) -> str:
    """What a slot waits for."""
    if slot.blocked_until:
        return f"blocked {_in(slot.blocked_until)}"
    if slot.backoff_until:
        return f"backs off {_in(slot.backoff_until)}"
    return _in(slot.until)


def _in(at: float) -> str:
    """When something is over; empty: it is already."""
    if at == inf:
        return "until somebody lifts it"
    left = at - time.time()
    return f"in {duration_text(left)}" if left > 0 else ""


def _at(at: float) -> str:
    """When something is over, with the date if that is not soon."""
    return f"{_in(at)} ({local(at)})" if time.time() + 60 < at < inf else _in(at)
