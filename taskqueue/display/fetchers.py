"""Columns and words for fetchers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from taskqueue.display.columns import ListColumn
from taskqueue.display.counts import brief
from taskqueue.display.notes import SHORT_BAR_CHARS, note_line
from taskqueue.protocol.daemon import DaemonStatus
from taskqueue.protocol.fetchers import Fetcher, FetcherPage
from taskqueue.texts.hung_places import brief_hung, hung_sentence, task_of
from taskqueue.texts.units import duration_text


def name_of(view: Fetcher) -> str:
    """Return the fetcher's name, or its pseudonym if it has none."""
    return view.name or view.session


def _places(view: Fetcher) -> str:
    """Format held tasks and capacity: ``3/16``, or ``16/16+3`` with 3 tasks beyond its places."""
    hung = view.hung.places if view.hung is not None else 0
    beyond = min(view.holds, max(0, view.holds + hung + view.free - view.capacity))
    return f"{view.holds - beyond:,}/{view.capacity:,}" + (f"+{beyond:,}" if beyond else "")


COLUMNS: Final[tuple[ListColumn[Fetcher], ...]] = (
    ListColumn("fetcher", name_of, "name", words=True),
    ListColumn("state", lambda view: "draining" if view.draining else "", words=True),
    ListColumn("holds", _places, "holds"),
    ListColumn(
        "hung", lambda view: brief_hung(view.hung.places, view.hung.seconds) if view.hung is not None else "", "hung"
    ),
    ListColumn("slow", lambda view: f"{view.slow:,}" if view.slow else ""),
    ListColumn("oldest", lambda view: duration_text(view.oldest_seconds) if view.holds else "", "oldest"),
    ListColumn("done", lambda view: f"{view.done:,}", "done"),
    ListColumn("failed", lambda view: f"{view.failed:,}", "failed"),
    ListColumn("silent", lambda view: duration_text(view.silent_seconds), "silent"),
    ListColumn("note", lambda view: note_line(view.note, SHORT_BAR_CHARS), words=True),
    ListColumn("priority", lambda view: str(view.priority)),
    ListColumn("address", lambda view: view.address, words=True),
    ListColumn("projects", lambda view: wishes(view.projects), words=True),
)


def wishes(projects: Iterable[str] | None) -> str:
    """List the projects whose tasks a fetcher takes."""
    return "any" if projects is None else ", ".join(projects)


def held(reply: FetcherPage) -> str:
    """Describe fetchers and their tasks: ``12 fetchers hold 50 of 120``, or ``… and 3 beyond, 16 hung, 2 slow``."""
    who = "1 fetcher holds" if reply.found == 1 else f"{reply.found:,} fetchers hold"
    hung = f", {brief(reply.hung)} hung" if reply.hung else ""
    slow = f", {brief(reply.slow)} slow" if reply.slow else ""
    return f"{who} {of_places(reply)}{hung}{slow}"


def of_places(reply: FetcherPage | DaemonStatus) -> str:
    """Format tasks in places, and those beyond: ``50 of 120``, or ``50 of 120 and 3 beyond``."""
    beyond = f" and {brief(reply.beyond)} beyond" if reply.beyond else ""
    return f"{brief(reply.holds - reply.beyond)} of {brief(reply.capacity)}{beyond}"


def hanging(views: Iterable[Fetcher]) -> list[Fetcher]:
    """Return the fetchers with hung places, the one that has hung longest first."""
    return sorted((view for view in views if view.hung), key=lambda view: -view.hung.seconds if view.hung else 0.0)


def hung_words(view: Fetcher) -> str:
    """Describe the hung places of a fetcher, without a full stop; empty if there are none."""
    hung = view.hung
    if hung is None:
        return ""
    task = task_of(hung.project, hung.taskid, hung.url)
    return hung_sentence(hung.places, view.slots, [name_of(view)], hung.seconds, task)
