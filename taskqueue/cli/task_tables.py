"""Tables for people: lists of tasks, their attempts, bulk operations. All fit into 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from taskqueue.cli.tables import STYLES, bare_table
from taskqueue.cli.times import ago, duration, local
from taskqueue.client.task import default_taskid
from taskqueue.core.views import Attempt, OperationView, TaskRow


def of_tasks(rows: Iterable[TaskRow]) -> Table:
    """A row a task, named as ``task show`` takes it: by its url, or by its taskid with the url behind it."""
    table = bare_table(["when"], ["priority", "retried"], ["task"])
    for row in rows:
        name = row.url if row.taskid == default_taskid(row.url) else f"{row.taskid}  {row.url}"
        table.add_row(*map(Text, (local(row.at) or "now", f"{row.priority}", f"{row.retried}", name)))
    return table


def of_attempts(attempts: Iterable[Attempt]) -> Table:
    """A row an attempt to run a task; of an error the last line, which says what a traceback comes to."""
    table = bare_table(["when", "outcome"], ["took"], ["fetcher", "error"])
    for attempt in attempts:
        outcome = Text(attempt.outcome, style=STYLES.get(attempt.outcome, "red"))
        took = duration(attempt.seconds) if attempt.fetcher else ""
        table.add_row(
            Text(local(attempt.at)),
            outcome,
            *map(Text, (took, attempt.fetcher, attempt.error.strip().rpartition("\n")[2])),
        )
    return table


def of_operations(views: Iterable[OperationView]) -> Table:
    """A row a bulk operation: how far it is, and of which tasks: projects and filter."""
    table = bare_table(["id", "action", "began", "state"], ["looked at", "matched"], ["tasks of"])
    for view in views:
        words = (str(view.id), action(view), ago(view.began_at), progress(view))
        tasks = f"{', '.join(view.projects)} {chosen(view)}".strip()
        table.add_row(*map(Text, (*words, f"{view.seen:,}", f"{view.matched:,}", tasks)))
    return table


def action(view: OperationView) -> str:
    """What it does."""
    return f"dry {view.action}" if view.dry_run else view.action


def chosen(view: OperationView) -> str:
    """Its filter, in the options that say it; "" if it has none."""
    said = view.filter
    options = [f"--state {state}" for state in said.states]
    globs = (("--url-glob", said.url), ("--error-glob", said.error))
    options += [f"{option} {shlex.quote(glob)}" for option, glob in globs if glob]
    return " ".join([*options, f"before {local(said.before)}"] if said.before else options)


def progress(view: OperationView) -> str:
    """``ended``, or how far it is; what came after it began is looked at, too, so it may know less than it sees."""
    return "ended" if view.ended_at else f"{min(view.seen / max(view.known, 1), 0.99):.0%}"
