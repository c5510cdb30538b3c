"""Requests of producers and fetchers: tasks to run, the state of fetchers, and reports.

The base class of all requests is here, too. Requests of people and tools are in ``requests``.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_CAPACITY,
    MAX_URL_CHARS,
    MAX_WISHES,
    PROTOCOL,
    Capacity,
    NewTask,
    Number,
    Priority,
    ProjectName,
    Seconds,
    SessionId,
    TaskId,
    TaskReport,
    TimeoutSeconds,
)


class Request(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Fields of every request.

    Attributes:
        v: the protocol's version.
        session: chosen at random by a client process when it starts.
        n: this request's number in its session, from 1.
    """

    v: Annotated[int, Meta(ge=PROTOCOL, le=PROTOCOL)] = PROTOCOL
    session: SessionId
    n: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Change(Request, kw_only=True):
    """Fields of a request by which a person changes something, for the change log.

    Attributes:
        actor: who asks, and on whose behalf, such as anna@web1; empty: the session's name.
    """

    actor: Annotated[str, Meta(max_length=128)] = ""


class Hung(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Places of a fetcher that are held by handlers whose leases are over, by the fetcher's clock.

    Attributes:
        places: number of these places.
        seconds: time since the first of these leases ended.
        project, taskid, url: task of that lease.
    """

    places: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)]
    seconds: Seconds
    project: ProjectName
    taskid: TaskId
    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)]


class Hello(Request, tag="hello"):
    """Facts about a fetcher, stated again and again; a lost, repeated or late one does no harm.

    Attributes:
        capacity: how many tasks it will have at once, those included that it runs although their leases have ended.
        projects: whose tasks it wants; None is any project's.
        holds: tokens of the tasks that it has, those in an unanswered ``done`` included.
        seen: number of the last ``select`` that it saw.
        name: for people, such as host:pid.
        running: tokens of the tasks on which somebody's code works now, whether their leases have ended or not.
        passed: tokens among ``holds`` of tasks that it has passed on to another process; they take no room of it.
        slots: how many tasks it runs at once; None: as many as it holds.
        priority: of two fetchers that could take a task, the one with the higher priority gets it.
        hung: places held by handlers whose leases are over; None: there are none.
    """

    capacity: Capacity = 0
    projects: Annotated[list[ProjectName], Meta(max_length=MAX_WISHES)] | None = None
    holds: Annotated[list[Number], Meta(max_length=MAX_CAPACITY)] = []
    seen: Number = 0
    name: Annotated[str, Meta(max_length=128)] = ""
    running: Annotated[list[Number], Meta(max_length=MAX_CAPACITY)] = []
    passed: Annotated[list[Number], Meta(max_length=MAX_CAPACITY)] = []
    slots: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)] | None = None
    priority: Priority = 0
    hung: Hung | None = None


class NewTasks(Request, tag="new-task"):
    """New tasks for a project. None replaces an item that could not be decoded; see ``Incoming.flaws``.

    Attributes:
        states: say also in which state each task was known before.
    """

    project: ProjectName
    tasks: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)]
    states: bool = False


class Done(Request, tag="done"):
    """Reports on tasks that have been run."""

    tasks: Annotated[list[TaskReport | None], Meta(max_length=MAX_BATCH)]


class LeaseRef(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Identifies a lease; whoever has its task may be another session than the one that it was handed to."""

    project: ProjectName
    taskid: TaskId
    token: Number


class Extend(Request, tag="extend"):
    """Make these leases end ``seconds`` from now; None: after each task's own timeout."""

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Release(Request, tag="release"):
    """Return tasks that were not started; somebody else gets them, and no retry is used up."""

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]
