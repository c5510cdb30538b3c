"""What the core asks of the tasks that were staged for flows, and the answers: values without methods."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.protocol.fields import NewTask


class StageRef(NamedTuple):
    """Tasks that were staged for a flow, from index ``first`` on, or back to its beginning.

    Attributes:
        limit: number of tasks, at most; fewer if they are large.
        shown: number of their project, to show how far they are: with the tasks themselves, as they are now, their last
            attempts, and the indices of those that they wait for; 0: only what was staged.
        backwards: ``first`` is the last one, and the others are those before it, in this order.
    """

    flow: int
    first: int
    limit: int
    shown: int = 0
    backwards: bool = False


class FoundStage(Struct):
    """Answer to a StageRef: what was staged, in its order, and by taskid the last attempts of those that are shown."""

    tasks: list[NewTask]
    attempts: dict[str, AttemptRecord]


class MemberRef(NamedTuple):
    """Which index has a taskid in a flow?"""

    flow: int
    taskid: str
