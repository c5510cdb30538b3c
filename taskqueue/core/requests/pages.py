"""Pages of projects and of fetchers, in the order of the request.

By name, a page of projects continues after the last project of the previous page, and costs as much as its rows. Any
other order is computed for each page from counters: for three thousand projects in 0.3 ms; by events of the last five
minutes, if all of them had some, in 5 ms. These pages skip a number of rows (``skip``), so rows that move between two
pages are shown twice or not at all.

Largest numbers come first; equal projects by name, equal fetchers by pseudonym. A filter is a part of a name, in any
case. It is not a glob because a hostile one would cost more over ten thousand names than a turn may.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from typing import Final, NamedTuple, TypeVar

from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.task import STATE_NAMES
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.choices import FetcherSort, ProjectSort
from taskqueue.protocol.daemon import StatusShow
from taskqueue.protocol.fetchers import Fetchers
from taskqueue.protocol.insight import Stats
from taskqueue.protocol.values import EventTotals

View = TypeVar("View")

LATELY: Final = "_5m"
"""Suffix of sort orders by events of the last five minutes."""


class ProjectPage(NamedTuple):
    """Page of the matching projects.

    Attributes:
        found: number of all matching projects.
        more: whether others follow.
        numbers: the number that each is sorted by; empty: by name.
    """

    projects: list[Project]
    found: int
    more: bool
    numbers: Sequence[int] = ()


class FetcherPage(NamedTuple):
    """Page of the matching fetchers, and all matching ones."""

    sessions: list[Session]
    found: list[Session]
    more: bool


def of_projects(turn: TurnState, message: StatusShow) -> ProjectPage:
    """Select the projects of a status request."""
    state = turn.state
    names = _names(turn, message.group, message.projects)
    if message.filter:
        part = message.filter.lower()
        names = [name for name in names if part in name.lower()]
    found = len(names)
    names = names[bisect_right(names, message.after) :]
    end = message.skip + message.limit
    more = end < len(names)
    if message.sort == "name":
        return ProjectPage([state.projects.by_name[name] for name in names[message.skip : end]], found, more)
    number = _number_of_project(turn, message.sort)
    page = nlargest(end, names, number)[message.skip :]
    return ProjectPage([state.projects.by_name[name] for name in page], found, more, [number(name) for name in page])


def of_stats(turn: TurnState, message: Stats) -> ProjectPage:
    """Select the projects of a stats request."""
    state, names = turn.state, _names(turn, message.group)
    first = bisect_right(names, message.after)
    page = names[first : first + message.limit]
    return ProjectPage([state.projects.by_name[name] for name in page], len(names), first + message.limit < len(names))


def of_fetchers(turn: TurnState, message: Fetchers) -> FetcherPage:
    """Select the fetchers that match the filter and, if projects or a group are named, want their tasks."""
    found = seen_fetchers(turn)
    if message.project or message.projects or message.group:
        wanted = frozenset([message.project] if message.project else _names(turn, message.group, message.projects))
        found = [each for each in found if each.interest is None or not each.interest.isdisjoint(wanted)]
    if message.filter:
        part = message.filter.lower()
        found = [each for each in found if part in (each.label).lower() or part in each.address]
    left = [session for session in found if session.pseudonym > message.after] if message.after else found
    end = message.skip + message.limit
    page = nsmallest(end, left, _order_of_fetchers(turn.now, message.sort))[message.skip :]
    return FetcherPage(page, found, end < len(left))


def seen_fetchers(turn: TurnState) -> list[Session]:
    """Return the connected fetchers that the sender of the request sees."""
    return [each for each in turn.state.sessions.values() if each.fetches and sees_fetcher(turn, each)]


def sees_fetcher(turn: TurnState, session: Session) -> bool:
    """Whether the sender of the request reaches all projects that a fetcher wants, or has a task of."""
    scope = turn.caller.scope
    if scope is None:
        return True
    if session.interest is None or not all(map(scope.has, session.interest)):
        return False  # before its leases are looked at, because most fetchers may be those of others
    by_number = turn.state.projects.by_number
    leased = dict.fromkeys(task.project for task in session.leases.values())
    has = dict.fromkeys(by_number[number].name for number in leased)
    has.update((lease.project, None) for lease in session.ended.values() if lease.project)
    if session.hung is not None:
        has[session.hung.project] = None
    return bool(session.interest or has) and all(map(scope.has, has))


def that_fit(state: State, views: Iterable[View], room: int) -> list[View]:
    """Take the first views that fit into ``room`` bytes, at least one, so that paging advances."""
    fitting: list[View] = []
    for view in views:
        room -= len(state.environment.pack(view))
        if room < 0 and fitting:
            break
        fitting.append(view)
    return fitting


def _names(turn: TurnState, group: str, named: Sequence[str] = ()) -> list[str]:
    """Sort the names of the named projects, or of all that the sender of the request reaches, that are in the group if
    one is given.

    Raises:
        Rejected: a named project is unknown.
    """
    state, scope = turn.state, turn.caller.scope
    names = state.projects.within(scope)
    if group:
        in_group = [project.name for project in state.projects.in_group(group)]
        names = in_group if scope is None else scope.among(in_group)
    wanted = {state.projects.named(name).name for name in named}
    return [name for name in names if name in wanted] if wanted else names


def _number_of_project(turn: TurnState, sort: ProjectSort) -> Callable[[str], int]:
    projects = turn.state.projects.by_name
    if sort.endswith(LATELY):
        event = EventTotals.__struct_fields__.index(sort.removesuffix(LATELY))
        return lambda name: projects[name].counters.lately(event, turn.now.wall)
    tasks = STATE_NAMES.index(sort)
    return lambda name: projects[name].queue.counts[tasks]


def _order_of_fetchers(now: Now, sort: FetcherSort) -> Callable[[Session], tuple[float | str, str]]:
    """Make the sort key; equals are sorted by pseudonym, so that rows keep their places."""
    match sort:
        case "session":
            return lambda session: (session.pseudonym, "")
        case "name":
            return lambda session: (session.label, session.pseudonym)
        case "capacity":
            return lambda session: (-session.capacity, session.pseudonym)
        case "holds":
            return lambda session: (-len(session.leases), session.pseudonym)
        case "oldest":
            return lambda session: (-session.oldest_seconds(now.boot), session.pseudonym)
        case "done":
            return lambda session: (-session.done, session.pseudonym)
        case "failed":
            return lambda session: (-session.failed, session.pseudonym)
        case "hung":
            return lambda session: (-session.hung_seconds(now.boot), session.pseudonym)
        case "silent":
            return lambda session: (session.heard_at, session.pseudonym)
