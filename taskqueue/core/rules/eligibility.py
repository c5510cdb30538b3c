"""Which projects could have tasks handed out now, and how many; for those that could not, when to look again.

    room         state, active hours, max_processing, checks        looked at again when one of them changes
    own tokens   rate and burst                                     when there will be one
    shared ones  those of a bucket that several projects share      in turn, as they come

Who can is offered to the rings of ``fair_queue``. A project that lacks something is in no ring and costs nothing.
"""

from __future__ import annotations

from taskqueue.core.projects.project import Project
from taskqueue.core.turn_state import TurnState


def offer(turn: TurnState, project: Project) -> None:
    """Offer the project to fetchers, if it can hand out a task."""
    if may_give(turn, project):
        turn.state.fair_queue.offer(project)


def may_give(turn: TurnState, project: Project) -> bool:
    """Whether the project can hand out a task now, or after a look-up; if not, see ``allowance``."""
    return project.queue.ready.first() is not None and allowance(turn, project) > 0


def allowance(turn: TurnState, project: Project) -> float:
    """Tasks, with a fraction, that the project may hand out now; less than 1 is none.

    If hours or tokens are missing, a timer is set, or the project waits for its shared bucket. Other changes, such as a
    lease that ends, touch the project themselves.
    """
    state, now = turn.state, turn.now
    room = project.room(now.wall, state.environment)
    if room <= 0:
        if not project.hours.open:
            state.wall_timers.note(("hours", project.number), project.hours.until)
        return 0
    tokens = project.bucket.available(now.boot)
    if not tokens:
        state.boot_timers.note(("bucket", project.number), project.bucket.token_at())
        return 0
    shared = project.shared
    if shared is None:
        return min(room, tokens)
    if project.number in shared.waiting:
        return 0
    common = shared.available(project.virtual, project.settings.weight, now.boot)
    if not common:
        shared.wait(project.number, project.virtual)
        state.boot_timers.note(("shared", shared.name), shared.token_at())
    return min(room, tokens, common)


def take_tokens(turn: TurnState, project: Project, count: int) -> None:
    """Take ``count`` tokens, no more than ``allowance`` has just returned."""
    now = turn.now
    project.bucket.take(count, now.boot)
    shared = project.shared
    if shared is not None:
        project.virtual = shared.take(count, project.virtual, project.settings.weight, now.boot)
        turn.drawn[shared.name] = shared


def recall(turn: TurnState) -> None:
    """Offer the next project that waits for a shared bucket, for each bucket with tokens.

    A project whose tasks nobody wants now waits in its rings instead, and the next one is offered, too.
    """
    state = turn.state
    for shared in state.shared.values():
        while shared.waiting and shared.bucket.available(turn.now.boot):
            number = shared.next_waiting()
            project = None if number is None else state.projects.by_number.get(number)
            if project is not None and may_give(turn, project) and state.fair_queue.offer(project):
                break
        # Whoever took the last token may want no more, so that nobody but this asks for the next one.
        state.boot_timers.note(("shared", shared.name), shared.token_at())
