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


class Hello(Request["Welcome"], tag="hello"):
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
        after_hand_out: the welcome comes when what is ready has been handed out, behind the tasks.
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
    """Answers ``hello``. A fetcher silent for ``fetcher_timeout`` seconds gives back what it holds.

    Attributes:
        epoch: grows each time the scheduler starts.
        max_message: bytes of the longest message it takes.
        version: of the daemon's software.
        ended: tokens among the hello's ``holds`` whose leases are not in force.
        draining: it gets no new tasks: it is to finish what it has begun and to hand back the rest.
    """

    epoch: int
    fetcher_timeout: float
    max_message: int
    version: str = ""
    ended: list[int] = []
    draining: bool = False


class Select(Struct, kw_only=True, tag_field="type", tag="select"):
    """Tasks for a fetcher. ``number`` counts the ``select`` messages to its session, without gaps.

    Attributes:
        fetch: by project, what its setting ``fetch`` says, for those of the tasks' projects that have it; the client
            lays it under each task's own.
    """

    v: int = PROTOCOL
    number: int
    tasks: list[Assignment]
    fetch: dict[str, Raw] = {}


class HelloWanted(Struct, kw_only=True, tag_field="type", tag="hello-wanted"):
    """To a fetcher: say a hello. It has said none since the scheduler started, and so gets nothing; or its name was
    drained or resumed, which the welcome tells.
    """

    v: int = PROTOCOL
    epoch: int


class LeaseRef(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Identifies a lease; whoever has its task may be another session than the one that it was handed to."""

    project: ProjectName
    taskid: TaskId
    token: Number


class Extend(Request["TokensReply"], tag="extend"):
    """Make these leases end ``seconds`` from now; None: after each task's own timeout."""

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Release(Request["TokensReply"], tag="release"):
    """Return tasks that were not started; somebody else gets them, and no retry is used up."""

    leases: Annotated[list[LeaseRef], Meta(max_length=MAX_BATCH)]


class TokensReply(Reply, tag="tokens-reply"):
    """Answers ``extend`` and ``release``.

    Attributes:
        counted: leases that were in force, so that it counted.
        stale: tokens of the leases that were not.
    """

    counted: int
    stale: list[int] = []


SHOWN_WISHES: Final = 20


class HungPlaces(Struct, omit_defaults=True, frozen=True, gc=False):
    """Places of a fetcher that are held by handlers whose leases are over.

    Attributes:
        places: number of these places.
        seconds: time since the first of these leases ended.
        project, taskid, url: task of that lease; each is empty if it is not known, a long url is cut.
    """

    places: int
    seconds: float = 0.0
    project: str = ""
    taskid: str = ""
    url: str = ""


class Fetcher(Struct, frozen=True, omit_defaults=True):
    """A fetcher as people see it.

    Attributes:
        session: its pseudonym.
        name: that it gave itself; empty: none.
        capacity: tasks that it wants at once.
        holds: tasks that it has.
        silent_seconds: since it was last heard.
        projects: the first SHOWN_WISHES of those that it wants; None: any.
        address: of its machine; empty: not known.
        oldest_seconds: since it was handed the oldest of the tasks that it holds.
        done, failed: attempts of what it was handed that ended so since the daemon's start, timeouts among the failed.
        draining: it gets no new tasks, and finishes those that it holds.
        priority: fetchers with a higher one are served first.
        slots: tasks that it runs at once; 0: it takes none.
        free: places of its capacity that nothing holds. It is handed nothing for them while it drains, or rests.
        hung: places held by handlers whose leases are over; None: there are none.
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


class Fetchers(Request["FetchersReply"], tag="fetchers"):
    """Who fetches? A page of those that want or hold tasks.

    Attributes:
        after: fetchers with pseudonyms after this one; who pages in the order of these goes on so.
        project, group: those who may take tasks of it; empty: all.
        filter: those whose names (or pseudonyms, if they have none) or addresses contain it.
        sort: by pseudonym (``session``) or name, or the most first; ``oldest``: who has held a task for longest,
            ``silent``: who has not been heard for longest.
        skip: so many of the first ones; who pages in another order than that of pseudonyms goes on so.
        projects: those who may take tasks of one of these; empty: all.
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
"""Of fetchers, as in their hellos; of one that has none, its pseudonym."""


class FetcherShow(Request["FetcherReply"], tag="fetcher-show"):
    """Tell about the fetchers of one name."""

    fetcher: FetcherNameText


FetcherAction = Literal["drain", "resume"]


class FetcherDo(ChangeRequest["FetcherReply"], tag="fetcher-do"):
    """Do something with all fetchers of one name, with those too that come later.

    ``drain``: they get no new tasks; ``resume``: they do again.

    Attributes:
        action: what is done.
    """

    fetcher: FetcherNameText
    action: FetcherAction


class FetcherPage(Struct, frozen=True):
    """A page of those who want or hold tasks.

    Attributes:
        fetchers: a page of them.
        more: there are fetchers after the last one of this page.
        found: fetchers that all pages together have.
        capacity: tasks that all of them want at once.
        holds: tasks that all of them have.
        away: names that are drained and that nobody has now, the first AWAY_SHOWN of them.
        hung: places held by handlers whose leases are over.
        beyond: of these, those that are in no place.
    """

    fetchers: list[Fetcher]
    more: bool
    found: int
    capacity: int
    holds: int
    away: list[str] = []
    hung: int = 0
    beyond: int = 0


class FetchersReply(FetcherPage, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="fetchers-reply"):
    """Answers ``fetchers``."""

    v: int = PROTOCOL
    n: int


class FetcherName(Struct, frozen=True):
    """The fetchers of one name, and whether the name is drained.

    Attributes:
        fetcher: the name that was asked for.
        draining: it is drained.
        found: fetchers that have it now.
        capacity: tasks that they want at once.
        holds: tasks that they have.
        fetchers: the first of them, by pseudonym; of ``fetcher-do`` none.
        hung: places held by handlers whose leases are over.
        beyond: of these, those that are in no place.
    """

    fetcher: str
    draining: bool
    found: int
    capacity: int
    holds: int
    fetchers: list[Fetcher] = []
    hung: int = 0
    beyond: int = 0


class FetcherReply(FetcherName, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="fetcher-reply"):
    """Answers ``fetcher-show`` and ``fetcher-do``."""

    v: int = PROTOCOL
    n: int
