"""Tables of tasks, attempts and bulk operations, in 80 columns."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Sequence

from rich.table import Table

from taskqueue.cli.input.times import ago, local
from taskqueue.cli.output.tables import STYLES, bare_table
from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.display.operations import action, progress
from taskqueue.display.tasks import error_line, packed_text
from taskqueue.protocol.packed_json import packed
from taskqueue.protocol.tasks import Child, TaskRow
from taskqueue.protocol.values import Attempt, Operation
from taskqueue.terminal.screen import Text
from taskqueue.texts.units import duration_text
from taskqueue.types import Parent


def of_tasks(rows: Sequence[TaskRow], state: str = "", *, tells_pushed: bool = False) -> Table:
    """Make a table with a row per task, named as ``task show`` takes it: by URL, or by taskid with the URL behind it.

    With several states the state comes first. Empty columns are left out: priority, number of times put off in a row,
    kind of the last error, and, of processing tasks, how long they are held and by which fetcher. Blocked tasks have no
    time. The time of the first push is shown on request.
    """
    mixed = any(row.state for row in rows)
    held = not mixed and any(row.lease_seconds for row in rows)
    columns: dict[str, Callable[[TaskRow], str]] = {
        "held": lambda row: duration_text(max(0.0, time.time() - row.at)),
        "left": lambda row: duration_text(row.lease_seconds),
        "fetcher": lambda row: row.fetcher,
    }
    words = columns if held else {"when": lambda row: local(row.at) or "now"}
    if state == "blocked":
        words = {}
    if mixed:
        words = {"state": lambda row: row.state, "when": _when}
    if tells_pushed:
        words = {**words, "pushed": lambda row: local(row.pushed_at) or "unknown"}
    numbers: dict[str, Callable[[TaskRow], str]] = {
        "priority": lambda row: f"{row.priority}",
        "retried": lambda row: f"{row.retried}",
        "put off": lambda row: f"{row.put_off:,}",
    }
    if not any(row.put_off for row in rows):
        del numbers["put off"]
    if not any(row.priority for row in rows):
        del numbers["priority"]
    more: dict[str, Callable[[TaskRow], str]] = {"task": _name}
    if any(row.error for row in rows):
        more["error"] = error_line
    table = bare_table(words, numbers, more)
    for row in rows:
        table.add_row(*(Text(cell(row)) for cell in (*words.values(), *numbers.values(), *more.values())))
    return table


def _when(row: TaskRow) -> str:
    """Format when a task was dispatched, is due, or ended; empty for a blocked task."""
    return "" if row.state == "blocked" else local(row.at) or "now"


def _name(row: TaskRow) -> str:
    return row.url if row.taskid == default_taskid(row.url) else f"{row.taskid}  {row.url}"


def of_attempts(attempts: Iterable[Attempt]) -> Table:
    """Make a table with a row per attempt, with the kind of its error."""
    table = bare_table(["when", "outcome"], ["took"], ["fetcher", "error"])
    for attempt in attempts:
        outcome = Text(attempt.outcome, style=STYLES.get(attempt.outcome, "red"))
        took = duration_text(attempt.seconds) if attempt.seconds else ""
        table.add_row(
            Text(local(attempt.at)),
            outcome,
            *map(Text, (took, attempt.fetcher, error_line(attempt))),
        )
    return table


def of_parents(parents: Iterable[Parent]) -> Table:
    """Make a table with a row per parent."""
    table = bare_table(["state", "waited for"], [], ["task", "result"])
    for each in parents:
        state = Text(each.state, style=STYLES.get(each.state, ""))
        named = f"{each.project or 'deleted'}/{each.taskid}"
        table.add_row(state, Text("" if each.satisfied else "yes"), Text(named), Text(packed_text(packed(each.result))))
    return table


def of_children(children: Iterable[Child]) -> Table:
    """Make a table with a row per child."""
    table = bare_table(["state", "waits"], [], ["task"])
    for each in children:
        state = Text(each.state, style=STYLES.get(each.state, ""))
        table.add_row(state, Text("yes" if each.waits else ""), Text(f"{each.project}/{each.taskid}"))
    return table


def parent_fields(parent: Parent) -> dict[str, object]:
    """Make the JSON object of a parent."""
    fields = {name: getattr(parent, name) for name in ("project", "taskid", "state", "satisfied")}
    return fields | {"result": packed(parent.result)}


def of_operations(views: Iterable[Operation]) -> Table:
    """Make a table with a row per bulk operation: progress, projects and filter; the id is left out without room."""
    table = bare_table(["number", "id", "action", "began", "state"], ["scanned", "matched"], ["tasks of"], spare=["id"])
    for view in views:
        cells = (str(view.number or ""), str(view.id), action(view), ago(view.began_at), progress(view))
        tasks = f"{', '.join(view.projects)} {chosen(view)}".strip()
        table.add_row(*map(Text, (*cells, f"{view.seen:,}", f"{view.matched:,}", tasks)))
    return table


def chosen(view: Operation) -> str:
    """Format the operation's filter as command-line options; empty without a filter."""
    said = view.filter
    options = [f"--state {state}" for state in said.states]
    globs = (("--url-glob", said.url), ("--error-glob", said.error))
    options += [f"{option} {shlex.quote(glob)}" for option, glob in globs if glob]
    options += ["--ignore-case"] * said.ignore_case
    times = (
        ("--since", said.since),
        ("--until", said.before),
        ("--pushed-since", said.pushed_since),
        ("--pushed-before", said.pushed_before),
    )
    options += [f"--job {said.job}"] if said.job else []
    return " ".join([*options, *(f"{option} {shlex.quote(local(at))}" for option, at in times if at)])
