"""The log: who changed what, and how many tasks that was about. For people, long after.

    project-set, -unset, -do, group-do, task-retry, -cancel, bulk, SIGHUP ──► an entry in the commit of the change

Rules:
1. What is refused has no entry, nor has a retry or a cancel that finds no task to change; a repeat has no second. What
   is said of a project, such as a pause, has one even if it was so already.
2. What an operation does has an entry for each project that it changed, with the name of who began it; a bulk
   operation has one when it begins, too. A dry run has none.
3. The values of tables, such as ``fetch``, are not told: they may hold passwords.
4. LOG_MOST entries are kept. Producers and fetchers, who do their work, have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import astuple

from taskqueue.core.parts.change_record import ChangeRecord
from taskqueue.core.request_rule import RequestRule, Who, asked
from taskqueue.core.state import State
from taskqueue.core.tasks.needs import LOG_MOST, LogRef, Needs
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.message_room import room_in
from taskqueue.protocol.replies import LogReply
from taskqueue.protocol.requests import Log
from taskqueue.protocol.views import LogEntry

LOOKED_AT = 1000
"""Entries examined for a page: reading them takes about 2 ms."""

DETAIL_CHARS: Final = 400


RELOADER: Final = Who("SIGHUP", "")
"""The author of a config reload: the signal does not say who sent it."""


def note(
    turn: TurnState,
    by: Who,
    what: str,
    *,
    project: str = "",
    group: str = "",
    count: int = 0,
    detail: str = "",
) -> None:
    """Log a change; see ``ChangeRecord``."""
    state = turn.state
    change = ChangeRecord(state.next_log, turn.now.wall, what, *by, project, group, count, cut(detail))
    state.next_log += 1
    turn.changes.writes.log.append(change)


def note_reload(turn: TurnState, changed: Iterable[str]) -> None:
    """Log a reload of the config file, and which settings it changed."""
    note(turn, RELOADER, "config reload", detail=", ".join(changed) or "nothing has changed")


def cut(text: str) -> str:
    """At most DETAIL_CHARS of a text."""
    return text if len(text) <= DETAIL_CHARS else f"{text[: DETAIL_CHARS - 1]}…"


def settings(said: Mapping[str, Setting]) -> str:
    """Settings as ``key=value``; of tables only the keys."""
    return " ".join(part for key, value in said.items() for part in _setting(key, value))


def _setting(key: str, value: Setting) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{key}.{part}" for part in value)
    elif isinstance(value, list):
        yield f"{key}={','.join(map(str, value))}"
    else:
        yield f"{key}={value}"


def lasting(seconds: float | None) -> str:
    """For how long; empty: until somebody says otherwise."""
    return "" if seconds is None else f"for {seconds:g} s"


# ------------------------------------------------------------------------------------------------ reading


def _page(state: State, request: Log) -> LogRef:
    """The entries examined for a page."""
    end = min(request.before or state.next_log, state.next_log)
    return LogRef(max(end - LOOKED_AT, _oldest(state)), end)


def need(turn: TurnState, request: Log, wanted: Needs) -> None:
    """Have a page read."""
    wanted.log.append(_page(turn.state, request))


def show(turn: TurnState, request: Log) -> LogReply:
    """A page of the log, the newest entry first."""
    state = turn.state
    reply = LogReply(n=request.n, entries=[])
    found = {entry.number: entry for entry in turn.changes.writes.log} | turn.found.log
    first, end = _page(state, request)
    room = room_in(state.config.max_message)
    for number in range(end - 1, first - 1, -1):
        entry = found.get(number)
        if entry is None:
            continue
        if entry.at < request.since:
            return reply
        if request.project is not None and entry.project != request.project:
            continue
        room -= len(state.environment.pack(entry))
        if reply.entries and (room < 0 or len(reply.entries) == request.limit):
            reply.next = number + 1
            return reply
        reply.entries.append(LogEntry(*astuple(entry)))
    reply.next = first if first > _oldest(state) else 0
    return reply


def _oldest(state: State) -> int:
    return max(1, state.next_log - LOG_MOST)


REQUESTS: Final = (RequestRule(Log, asked(show), need, keeps=False, slow_ms=5.0),)
