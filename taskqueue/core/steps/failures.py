"""Failed attempts, timeouts and crashes included: dropped if too many or too old, and counted.

An attempt counts whether or not its task is retried.

    attempt fails ──lease_end──► put with the turn
    page of the first ones ──step_old──► old ones are dropped
    request ──begin──► in progress: page ──step──► page ──► … ──► answered, when all are counted

Rules of counting:
1. All failures before the request are counted. A turn scans one page, for one request; requests take turns.
2. A repeat of a request in progress changes nothing.
3. Failures of deleted projects are not counted; a reset project has no earlier failures.
4. A request whose session is cut off meanwhile is refused, as its sender may do less by now.
"""

from __future__ import annotations

from collections.abc import Container
from math import inf
from typing import Final

from taskqueue.core.model.attempt_records import FailuresRef, FoundFailures
from taskqueue.core.model.failure_groups import FailureCount, FailureGroups, Group
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.session import Session
from taskqueue.core.model.task import NO_FLOOR, SEQ_BITS, key_time, time_key
from taskqueue.core.model.waiters import refusal_of
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.requests.pages import that_fit
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.insight import FailureGroup, FailureList, FailuresReply

# ------------------------------------------------------------------------------------------------ drop


OLD_FAILURES: Final = 1024
"""Failures scanned per turn, and dropped if they are old: 2 ms."""

_END: Final = NO_FLOOR - 1


def need_old(turn: TurnState, wanted: Needs) -> None:
    """Look up the first failures, because some of them are old."""
    turn.due.old_failures = FailuresRef(turn.state.failures.low, _END, OLD_FAILURES)
    wanted.failures.append(turn.due.old_failures)


def step_old(turn: TurnState) -> None:
    """Drop the old failures that were looked up."""
    wanted = turn.due.old_failures
    if wanted is not None:
        _drop_old(turn, turn.found.failures[wanted])


def _drop_old(turn: TurnState, page: FoundFailures) -> None:
    state, now = turn.state, turn.now
    log, kept = state.failures, turn.changes.writes
    old = log.old_of(page.failures, now.wall)
    following = page.failures[old].key if old < len(page.failures) else page.next
    if old:
        kept.failures_from = page.failures[old - 1].key + 1
    # Failures of this turn are not on the page, and may be before it: drops come before puts.
    log.begin_with(min([key for key in (following, *(new.key for new in kept.failures)) if key], default=0))
    state.wall_timers.note(("failures", 0), log.old_at)
    turn.more |= log.is_over(now.wall)


# ------------------------------------------------------------------------------------------------ count


PAGE_FAILURES: Final = 512
"""Failures counted per turn: 1 ms, or 2.5 ms if each has an error of its own."""

COUNTS_MOST: Final = 64
"""Requests in progress, at most."""


def begin(turn: TurnState, session: Session, request: FailureList) -> None:
    """Begin to count; the reply follows in a later turn.

    Raises:
        Rejected: the project is unknown, or too many requests are in progress.
    """
    state = turn.state
    project = state.projects.named(request.project).number if request.project is not None else 0
    at = session.id, request.n
    if at in state.failure_counts:
        return
    if len(state.failure_counts) >= COUNTS_MOST:
        raise Rejected("full", f"failures are being counted for {COUNTS_MOST} other requests already; ask again")
    since = max(request.since, 0.0 if state.failures.at == inf else state.failures.at)
    start, end = time_key(since, 0), time_key(turn.now.wall, 0) + (1 << SEQ_BITS)
    groups = FailureGroups(request.by)
    state.pending.begin("failures")
    state.failure_counts[at] = FailureCount(
        session, request.n, project, since, request.limit, start, end, groups, session.cuts, turn.caller.scope
    )


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next page of the request whose turn it is."""
    turn.due.counted = next(iter(turn.state.failure_counts.values()), None)
    if turn.due.counted is not None:
        wanted.failures.append(_page_ref(turn.due.counted))


def step(turn: TurnState) -> None:
    """Count the failures of the page, and reply if it was the last one."""
    state = turn.state
    count = turn.due.counted
    if count is not None:
        at = count.session.id, count.n
        if refusal := refusal_of(count.session, count.n, count.cuts):
            del state.failure_counts[at]
            turn.send(count.session, refusal, after_sync=False)
        elif _count(turn, count):
            state.failure_counts.move_to_end(at)
        else:
            del state.failure_counts[at]
            turn.send(count.session, _reply(state, count), after_sync=False)
    turn.more |= bool(state.failure_counts)


def _count(turn: TurnState, count: FailureCount) -> bool:
    """Count the failures of the page; return whether there are more."""
    page = turn.found.failures[_page_ref(count)]
    count.groups.add(page.failures, _projects_of(turn.state, count, page))
    count.start = page.next
    return page.next != 0


def _projects_of(state: State, count: FailureCount, page: FoundFailures) -> Container[int]:
    """Return the numbers of the projects on the page whose failures are counted."""
    by_number, scope = state.projects.by_number, count.scope
    if count.project:
        return (count.project,)
    if scope is None:
        return by_number
    found = dict.fromkeys(each.failure.project for each in page.failures)
    return {number: None for number in found if number in by_number and scope.has(by_number[number].name)}


def _page_ref(count: FailureCount) -> FailuresRef:
    return FailuresRef(count.start, count.end, PAGE_FAILURES)


def _reply(state: State, count: FailureCount) -> FailuresReply:
    views = (_view(state, name, group) for name, group in count.groups.largest(count.limit))
    return FailuresReply(
        n=count.n,
        since=count.since,
        failures=count.groups.failures,
        count=count.groups.count,
        groups=that_fit(state, (view for view in views if view is not None), room=state.config.max_message // 2),
    )


def _view(state: State, name: str | int, group: Group) -> FailureGroup | None:
    """Make the view of a group; None if its project was deleted meanwhile."""
    key, failure = group.last
    project = state.projects.by_number.get(failure.project)
    if project is None:
        return None
    return FailureGroup(
        name=name if isinstance(name, str) else project.name,
        failures=group.failures,
        first_at=key_time(group.first),
        last_at=key_time(key),
        project=project.name,
        taskid=failure.taskid,
        host=failure.host,
        fetcher=failure.fetcher,
        error=failure.error,
    )


REQUESTS: Final = (RequestRule(FailureList, asked_by(begin), keeps=False),)
