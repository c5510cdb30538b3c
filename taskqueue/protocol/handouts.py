"""Messages of the scheduler that nobody asked for: tasks for fetchers, and the wish for a hello."""

from __future__ import annotations

from msgspec import Raw, Struct

from taskqueue.protocol.fields import PROTOCOL, Assignment


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
