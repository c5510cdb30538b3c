"""What has changed of projects: the reply to ``watch``."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.reply import Reply
from taskqueue.protocol.views import Counts, Totals

WATCH_ROWS: Final = 512
"""Projects, and names of deleted ones, in one reply, at most."""


class ProjectPulse(Struct, array_like=True, frozen=True, gc=False):
    """A project, as short as can be: in messages a list. To tell of ten thousand of them must cost little.

    Attributes:
        group: empty: none.
        reason: why it has paused itself; empty: it has not.
        rate, burst: of its own bucket; one that shares a bucket may have none (inf).
        bucket: the shared bucket that its settings name; empty: none.
        counts: tasks by state, now, in the order of ``Counts``.
        totals: events since it was made, in the order of ``Totals``.
        paused_until: unix seconds at which the pause by a person ends; 0: there is none, or it lasts until ``resume``.
    """

    name: str
    group: str
    state: ProjectState
    reason: str
    rate: float
    burst: float
    bucket: str
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    paused_until: float = 0.0


class WatchReply(Reply, tag="watch-reply", omit_defaults=True):
    """Answers ``watch``: what has changed after its ``since``; what changed longest ago comes first.

    Attributes:
        epoch: grows each time the scheduler starts.
        since: to be given with the next request.
        counts, totals: of all projects together.
        projects: those that have changed, as they are now; at most WATCH_ROWS, and as many as fit into a message.
        gone: names of those that have been deleted.
        anew: forget what earlier replies said: this one begins with all projects.
        more: ask again at once: there is more to tell of what had changed some time ago.
        found: projects that there are.
    """

    epoch: int
    since: str
    counts: Counts
    totals: Totals
    projects: list[ProjectPulse] = []
    gone: list[str] = []
    anew: bool = False
    more: bool = False
    found: int = 0
