"""Messages of fetchers, of the daemon to fetchers, and about fetchers.

``Select`` and ``HelloWanted`` answer no request: the daemon sends them as soon as there is work, or a doubt.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct

from taskqueue.protocol.base import AnyReply, ChangeRequest, Reply, Request
from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_CAPACITY,
    MAX_URL_CHARS,
    MAX_WISHES,
    PROTOCOL,
    Capacity,
    GroupName,
    NoteValue,
    Number,
    Part,
    Priority,
    ProjectName,
    ProjectNames,
    Seconds,
    TaskId,
    TimeoutSeconds,
)
from taskqueue.protocol.values import Assignment


class Hung(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Places of a fetcher that hang, by the fetcher's clock: their handlers still run although their leases have
    ended.

    Attributes:
        places: number of these places.
        seconds: time since the first of these leases ended.
        project: project of the task of that lease.
        taskid: id of that task.
        url: URL of that task.
    """

    places: Annotated[int, Meta(ge=1, le=MAX_CAPACITY)]
    seconds: Seconds
    project: ProjectName
    taskid: TaskId
    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)]


class Hello(Request["Welcome"], tag="hello"):
    """Greet the daemon or, as a fetcher, state capacity and leases. A lost, repeated or late hello does no harm.

    Attributes:
        capacity: tasks that the fetcher takes at once, those included that it still runs although their leases have
            ended.
        projects: projects whose tasks it takes; None: any project.
        holds: tokens of the leases that it holds, those in an unanswered ``done`` or ``release`` included.
        seen: number of the last ``select`` that it took.
        name: for users, such as host:pid.
        running: tokens of the tasks that a handler is working on, whether their leases have ended or not.
        passed: those of ``holds`` that it passed on to another process; they take no capacity.
        slots: tasks that it runs at once; None: as many as ``capacity``.
        priority: the daemon prefers the fetcher with the highest priority that can take a task.
        hung: places whose handlers still run although their leases have ended; None: there are none.
        after_hand_out: send the welcome after all tasks that are ready for this fetcher now.
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
    after_hand_out: bool = False


class Welcome(Reply, tag="welcome"):
    """Facts that a client needs.

    Attributes:
        epoch: grows each time the daemon starts, or reads its store again.
        fetcher_timeout: seconds of silence after which a fetcher loses its leases; say hello three times as often.
        max_message: bytes of the longest message that the daemon takes.
        version: version of the daemon's software.
        ended: tokens of ``holds`` whose leases have ended, as many as fit; the next welcome has the others.
        draining: the fetcher is drained: it gets no new tasks, finishes those that it has begun, and releases the rest.
    """

    epoch: int
    fetcher_timeout: float
    max_message: int
    version: str = ""
    ended: list[int] = []
    draining: bool = False


class Select(Struct, kw_only=True, tag_field="type", tag="select"):
    """Dispatched tasks.

    Attributes:
        number: counts the ``select`` messages to this session, from 1, without gaps.
        tasks: tasks that are now leased to this session; may be empty, to fill a gap.
        fetch: by project: its setting ``fetch``, for those of the tasks' projects that have one.
    """

    v: int = PROTOCOL
    number: int
    tasks: list[Assignment]
    fetch: dict[str, Raw] = {}


class HelloWanted(Struct, kw_only=True, tag_field="type", tag="hello-wanted"):
    """Ask for a ``hello``; the daemon may have dropped unanswered requests.

    Attributes:
        epoch: epoch of the daemon, as in ``welcome``.
    """

    v: int = PROTOCOL
    epoch: int


class LeaseRef(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Reference to a lease of any session."""

    project: ProjectName
    taskid: TaskId
    token: Number


class Extend(Request["TokensReply"], tag="extend"):
    """Prolong leases.

    Attributes:
        leases: leases to prolong.
        seconds: from now; None: each task's own timeout.
    """

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Release(Request["TokensReply"], tag="release"):
    """Give back tasks that were not started; no retry is used up.

    Attributes:
        leases: leases to give back.
    """

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]


class TokensReply(Reply, tag="tokens-reply"):
    """How many leases were in force.

    Attributes:
        counted: leases that were in force.
        stale: tokens of the other leases.
    """

    counted: int
    stale: list[int] = []


class NotedLease(LeaseRef, frozen=True, forbid_unknown_fields=True, gc=False):
    """Reference to a lease of any session, with a note of its task.

    Attributes:
        note: text of at most 256 bytes, or a number; users see one from 0 to 1 as a progress bar.
    """

    note: NoteValue


class Note(Request["NoteReply"], tag="note"):
    """Show users a note beside each of some tasks, instead of its last one, until its lease ends.

    Attributes:
        notes: leases of these tasks, with the notes.
    """

    notes: Annotated[list[NotedLease], Meta(max_length=MAX_BATCH)]


NoteOutcome = Literal["noted", "too-soon", "stale"]


class NoteReply(Reply, tag="note-reply"):
    """The outcome of each note.

    Attributes:
        outcomes: in order: noted; too-soon: left out, because the task has had more than one a second; stale: the lease
            is not in force.
    """

    outcomes: list[NoteOutcome]


SHOWN_WISHES: Final = 20


class HungPlaces(Struct, omit_defaults=True, frozen=True, gc=False):
    """Places of a fetcher that hang: their handlers still run although their leases have ended.

    Attributes:
        places: number of these places.
        seconds: time since the first of these leases ended.
        project: project of the task of that lease; empty: unknown.
        taskid: id of that task; empty: unknown.
        url: first 200 characters of its URL; empty: unknown.
    """

    places: int
    seconds: float = 0.0
    project: str = ""
    taskid: str = ""
    url: str = ""


class Fetcher(Struct, frozen=True, omit_defaults=True):
    """A fetcher, as users see it.

    Attributes:
        session: its pseudonym.
        name: as its hello says; empty: none.
        capacity: tasks that it takes at once.
        holds: leases that it holds.
        silent_seconds: time since the daemon last received a message from it.
        projects: projects whose tasks it takes, the first 20; None: any.
        address: address of its machine; empty: unknown.
        oldest_seconds: time since the dispatch of the oldest task that it holds.
        done: attempts that succeeded since the daemon's start.
        failed: attempts that failed, timeouts included, since the daemon's start.
        draining: it is drained: it gets no new tasks.
        priority: as its hello says.
        slots: tasks that it runs at once; 0: it takes no tasks.
        free: places without a task. They stay empty while it drains, or pauses after a release.
        hung: places that hang; None: none.
        slow: leases of which four fifths have passed.
        note: last note of the oldest task that it holds; None: none.
    """

    session: str
    name: str
    capacity: int
    holds: int
    silent_seconds: float
    projects: list[str] | None = None
    address: str = ""
    oldest_seconds: float = 0.0
    done: int = 0
    failed: int = 0
    draining: bool = False
    priority: int = 0
    slots: int = 0
    free: int = 0
    hung: HungPlaces | None = None
    slow: int = 0
    note: str | float | None = None


class Fetchers(Request["FetchersReply"], tag="fetchers"):
    """List fetchers that take or hold tasks, in pages.

    Attributes:
        after: fetchers whose pseudonyms come after this one.
        project: fetchers that take its tasks; empty: all.
        group: fetchers that take tasks of one of its projects; empty: all.
        filter: fetchers whose name or address contains this text.
        sort: order of the list, see the rules.
        skip: rows to leave out at the start.
        projects: fetchers that take tasks of one of these; empty: all. An unknown project is refused.
    """

    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    project: GroupName = ""
    group: GroupName = ""
    filter: Part = ""
    sort: FetcherSort = "session"
    skip: Number = 0
    projects: ProjectNames = []


FetcherNameText = Annotated[str, Meta(min_length=1, max_length=128)]
"""Name in the hellos of fetchers; the pseudonym of a fetcher that has none."""


class FetcherShow(Request["FetcherReply"], tag="fetcher-show"):
    """Show the fetchers of one name.

    Attributes:
        fetcher: name that their hellos state; of a fetcher without a name its pseudonym.
    """

    fetcher: FetcherNameText


FetcherAction = Literal["drain", "resume"]


class FetcherDo(ChangeRequest["FetcherReply"], tag="fetcher-do"):
    """Drain or resume all fetchers of one name, those that connect later included.

    Attributes:
        fetcher: name that their hellos state; of a fetcher without a name its pseudonym.
        action: drain: they get no new tasks; resume: they get tasks again.
    """

    fetcher: FetcherNameText
    action: FetcherAction


class FetcherPage(Struct, frozen=True):
    """A page of fetchers that take or hold tasks.

    Attributes:
        fetchers: rows of the page; it ends early where the message is full.
        more: further fetchers follow the last one of this page.
        found: fetchers on all pages.
        capacity: sum of their capacities.
        holds: leases that they hold.
        away: the first 100 drained names that no connected fetcher has.
        hung: their places that hang.
        beyond: leases of ``holds`` that exceed ``capacity``: the fetchers are stopping, or have passed tasks on.
        slow: leases of which four fifths have passed.
    """

    fetchers: list[Fetcher]
    more: bool
    found: int
    capacity: int
    holds: int
    away: list[str] = []
    hung: int = 0
    beyond: int = 0
    slow: int = 0


class FetchersReply(FetcherPage, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="fetchers-reply"):
    """A page of fetchers that take or hold tasks."""

    v: int = PROTOCOL
    n: int


class FetcherName(Struct, frozen=True):
    """The fetchers of one name, and whether the name is drained.

    Attributes:
        fetcher: name that was asked for.
        draining: the name is drained.
        found: connected fetchers of that name.
        capacity: sum of their capacities.
        holds: leases that they hold; 0: draining is complete.
        fetchers: the first 100 of them; none in the reply to ``fetcher-do``.
        hung: their places that hang.
        beyond: leases of ``holds`` that exceed ``capacity``.
        slow: leases of which four fifths have passed.
    """

    fetcher: str
    draining: bool
    found: int
    capacity: int
    holds: int
    fetchers: list[Fetcher] = []
    hung: int = 0
    beyond: int = 0
    slow: int = 0


class FetcherReply(FetcherName, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="fetcher-reply"):
    """The fetchers of one name, and whether the name is drained."""

    v: int = PROTOCOL
    n: int
