"""Requests about slots: the parts of a project's tasks, such as those of one host, that have paces of their own."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.crawl_requests import Request
from taskqueue.protocol.fields import ProjectName, SlotName

SLOTS_SHOWN_MOST: Final = 1000
"""Most slots in one ``slot-list-reply``."""


class SlotList(Request, tag="slot-list"):
    """Which slots has a project? The first ones, in this order.

    Attributes:
        by: the most ready tasks, the most errors or the longest delay first; or name.
        all: also those that are in the store only; answered some turns later, when all have been looked at. If not,
            those in memory, at once: all that may go on next.
    """

    project: ProjectName
    by: SlotSort = "backlog"
    limit: Annotated[int, Meta(ge=1, le=SLOTS_SHOWN_MOST)] = 100
    all: bool = False


class SlotShow(Request, tag="slot-show"):
    """Tell all about one slot."""

    project: ProjectName
    slot: SlotName
