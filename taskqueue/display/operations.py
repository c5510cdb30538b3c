"""Words for an operation: its action, progress and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from taskqueue.display.counts import STATES, projects, tasks

if TYPE_CHECKING:
    from taskqueue.protocol.values import Operation, RerunLayer, UndoProgress

DONE: Final = {
    "retry": "retried",
    "cancel": "cancelled",
    "reprioritise": "reprioritised",
    "reschedule": "rescheduled",
}
"""Past participles by action, for tasks."""

DONE_WITH_PROJECTS: Final = {
    "pause": "paused",
    "resume": "resumed",
    "stop": "stopped",
    "start": "started",
    "clear": "cleared",
    "reset": "reset",
    "delete": "deleted",
}


def number(view: Operation) -> int:
    """Return the number that users see: the operation's number, or its id if it is older than numbers."""
    return view.number or view.id


def action(view: Operation) -> str:
    """Name the action of an operation."""
    return f"dry {view.action}" if view.dry_run else view.action


def progress(view: Operation) -> str:
    """Describe the progress; tasks that arrive later are scanned, too, so ``seen`` may exceed ``known``."""
    if view.ended_at:
        return "cancelled" if view.cancelled else "ended"
    return f"{min(view.seen / max(view.known, 1), 0.99):.0%}"


def outcome(view: Operation) -> str:
    """Describe the outcome: ``retried 1,204 tasks of 20,311 scanned (operation 17)``, ``paused 12 projects``."""
    if view.action in DONE_WITH_PROJECTS:
        left_out = f", left {view.seen - view.matched:,} as they were" if view.matched < view.seen else ""
        return f"{DONE_WITH_PROJECTS[view.action]} {projects(view.matched)}{left_out}"
    if view.action == "rerun":
        return f"{'would reset' if view.dry_run else 'reset'} {tasks(view.matched)} (operation {number(view)})"
    if view.undo is not None:
        return undo_lines(view)[0]
    what = f"would {view.action}" if view.dry_run else DONE[view.action]
    return f"{what} {tasks(view.matched)} of {view.seen:,} scanned (operation {number(view)})"


def rerun_lines(view: Operation) -> list[str]:
    """Describe a rerun: the layers of a dry run, then the number of tasks."""
    rerun = view.rerun
    lines = []
    if rerun is not None and view.dry_run:
        lines += [f"layer {place}: {_layer(layer)}" for place, layer in enumerate(rerun.layers, 1)]
        if rerun.depth > len(rerun.layers):
            lines.append(f"and {rerun.depth - len(rerun.layers):,} layers more")
    verb = "would run" if view.dry_run else "runs" if view.matched == 1 else "run"
    passed = f", {tasks(rerun.passed)} passed by" if rerun is not None and rerun.passed else ""
    cancelled = "cancelled: " if view.cancelled else ""
    lines.append(f"{cancelled}{tasks(view.matched)} {verb} again{passed} (operation {number(view)})")
    return lines


def undo_lines(view: Operation) -> list[str]:
    """Describe an undo: the tasks brought back, then those that were not, then what else stays as it is."""
    undo = view.undo
    if undo is None:
        return []
    counts = ", ".join(f"{count:,} {state}" for state in STATES if (count := getattr(undo.counts, state)))
    of = f"{undo.action} (operation {undo.of})"
    lines = [f"brought back {view.matched:,} of {tasks(view.known)} from {of}{': ' if counts else ''}{counts}"]
    if undo.ran:
        lines.append(f"{tasks(undo.ran)} of the ready ones had been running")
    if undo.changed:
        lines.append(f"{tasks(undo.changed)} left as {_are(undo.changed)}: changed since")
    if undo.gone:
        lines.append(f"{tasks(undo.gone)} gone since")
    return lines + _staying(undo)


def _staying(undo: UndoProgress) -> list[str]:
    """Describe other effects, which no undo takes back."""
    lines = []
    if undo.children:
        named = _named(undo.children_named, undo.children)
        lines.append(
            f"{tasks(undo.children)} failed since because of a cancelled parent, until it has succeeded: {named}"
        )
    if undo.finished:
        named = ", ".join(undo.finished_named)
        lines.append(f"projects that finished since, with event and on_finished, which stay: {named}")
    if undo.flows:
        lines.append(f"flows that ended since, and run on: {_named(undo.flows_named, undo.flows)}")
    return lines


def _named(names: list[str], count: int) -> str:
    return ", ".join(names) + (f" and {count - len(names):,} more" if count > len(names) else "")


def _are(count: int) -> str:
    return "it is" if count == 1 else "they are"


def undoable(view: Operation) -> str:
    """Say whether an operation can be undone, if it ever could; its undo may not have ended."""
    if view.undone_by:
        return f"operation {view.undone_by} undoes it"
    if view.no_undo:
        return f"not any more: {view.no_undo}"
    return f"{tasks(view.rows)}, by: taskqueue operation undo {number(view)}" if view.rows and view.ended_at else ""


def _layer(layer: RerunLayer) -> str:
    rest = layer.tasks - len(layer.taskids)
    if not layer.taskids:
        return tasks(layer.tasks)
    return ", ".join(layer.taskids) + (f" and {rest:,} more" if rest else "")
