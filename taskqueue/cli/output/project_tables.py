"""Tables of projects: counts and rates, pauses, remaining time, cron entries and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final

from rich.table import Table

from taskqueue.cli.input.times import ago, local, paused_until
from taskqueue.cli.output.tables import STATES, STYLES, bare_table
from taskqueue.display.counts import projects
from taskqueue.display.projects import UNKNOWN, is_empty_setting, remaining_text, said_by, schedule_of, setting_text
from taskqueue.protocol.projects import Project
from taskqueue.settings.flat_names import flat
from taskqueue.terminal.screen import Text

NAME_CHARS = 8
"""Characters of a shared bucket's name in a table."""

PAUSES_SHOWN = 5
REMAINING_SHOWN: Final = 30

REMAINING_TOLD: Final = ("stopped", "paused", "out-of-hours", "no-rate")
"""Reasons without a remaining time of their own here: the table of projects or another sentence shows them."""


def of_projects(views: Iterable[Project], sort: str = "", numbers: Sequence[int] = ()) -> Table:
    """Make a table with a row per project: tasks by state, and the rate.

    Args:
        sort: order of the rows; if no column shows it, a column of ``numbers`` replaces burst, else one of blocked
            tasks, if there are any.
    """
    shown = list(views)
    first = [sort.replace("_", " ")] if numbers and sort not in STATES else []
    blocked = ["blocked"] if not first and any(view.counts.blocked for view in shown) else []
    last = [] if first or blocked else ["burst"]
    table = bare_table(["project", "state"], [*first, *blocked, *STATES, "rate", *last], folded="rate", spare=last)
    for place, view in enumerate(shown):
        number = [Text(f"{numbers[place]:,}", "bold")] if first else []
        burst = [_burst(view)] if last else []
        table.add_row(*_names(view), *number, *_counts(view, [*blocked, *STATES]), rate(view), *burst)
    return table


def _names(view: Project) -> Iterator[Text]:
    yield Text(view.name, style="bold")
    yield Text(view.state, style=STYLES[view.state])


def _counts(view: Project, states: Iterable[str]) -> Iterator[Text]:
    for name in states:
        count: int = getattr(view.counts, name)
        yield Text(f"{count:,}", style=STYLES.get(name, "") if count else "dim")


def rate(view: Project) -> Text:
    """Format the project's own rate, unless its shared bucket is the only limit, and the shared bucket's name."""
    own, shared = view.settings["rate"], view.shared
    paces = [f"{setting_text(own)}/s"] if shared is None or own != inf else []
    return Text(" ".join([*paces, f"{_brief(shared.name)} {setting_text(shared.rate)}/s"] if shared else paces))


def _burst(view: Project) -> Text:
    shared = view.shared
    return Text(
        setting_text(view.settings["burst"] if shared is None or view.settings["rate"] != inf else shared.burst)
    )


def _brief(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 2]}.."


def of_pauses(views: Iterable[Project]) -> Table:
    """Make a table of projects that paused themselves or are paused for a time: why, and what comes next; no header.

    At most PAUSES_SHOWN.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    paused = [view for view in views if view.reason or view.paused_until]
    for view in paused[:PAUSES_SHOWN]:
        table.add_row(Text(view.name, style="bold"), Text(_of_pause(view), style="yellow"))
    if len(paused) > PAUSES_SHOWN:
        table.add_row(Text("…"), Text(f"and {len(paused) - PAUSES_SHOWN:,} more"))
    return table


def _of_pause(view: Project) -> str:
    if view.paused_until:
        return paused_until(view.paused_until)
    if view.state == "paused" and not view.check_at:
        return view.reason
    then = f"next check {local(view.check_at)}" if view.state == "paused" else "is being checked"
    return f"{view.reason}; {then}"


def of_remaining(views: Iterable[Project]) -> Table:
    """Make a table of the remaining time of unfinished projects; no header, at most REMAINING_SHOWN rows.

    Projects with a reason of REMAINING_TOLD are left out; those with too few finished tasks share a row.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    known = [(view.name, view.remaining) for view in views if view.remaining]
    told = [
        (name, text) for name, each in known if each.reason not in REMAINING_TOLD and (text := remaining_text(each))
    ]
    few = [name for name, each in known if each.reason == "too-few"]
    if len(few) > 1:
        told = [row for row in told if row[0] not in few]
        told.insert(0, (projects(len(few)), f"time unknown: {UNKNOWN['too-few']}"))
    for name, text in told[:REMAINING_SHOWN]:
        table.add_row(Text(name, style="bold"), Text(text))
    if len(told) > REMAINING_SHOWN:
        table.add_row(Text("…"), Text(f"and {len(told) - REMAINING_SHOWN:,} more: taskqueue project show NAME"))
    return table


def of_still(sentence: str) -> Text:
    """Style a sentence on a project that dispatches nothing."""
    return Text(sentence, "yellow")


def of_cron(views: Iterable[Project]) -> Table:
    """Make a table with a row per cron entry of each project, in this machine's time zone; 80 columns."""
    table = bare_table(["project", "entry", "next", "last"], ["ran", "skipped"], ["when"])
    for view in views:
        for entry in view.cron:
            times = local(entry.next_at) or "never", ago(entry.last_at) or "not yet"
            entries = view.settings.get("cron")
            schedule = schedule_of(entries.get(entry.entry, {}) if isinstance(entries, dict) else {})
            cells = (view.name, entry.entry, *times, f"{entry.ran:,}", f"{entry.skipped:,}", schedule)
            table.add_row(*map(Text, cells))
    return table


def cron_lines(views: Iterable[Project]) -> Iterator[str]:
    """Yield which graphs have ticks that wait, and why the last tick of a graph was skipped."""
    for view in views:
        for entry in view.cron:
            if entry.waiting:
                yield f"{view.name}: {entry.entry}: ticks that wait for the end of an earlier flow: {entry.waiting}"
            if entry.problem:
                yield f"{view.name}: {entry.entry}: the last tick was skipped: {entry.problem}"


def of_settings(view: Project) -> Table:
    """Make a table with a row per setting, or key of a table, with its source."""
    table = bare_table(["setting", "said by"], [], ["value"])
    for name, value in flat(view.settings):
        shown = Text(setting_text(value), "dim" if is_empty_setting(value) else "bold")
        table.add_row(Text(name), Text(said_by(view, name), "dim"), shown)
    return table
