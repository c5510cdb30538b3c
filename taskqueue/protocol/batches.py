"""Batches taken apart: ``new-task`` and ``done`` item by item, so that a malformed one spoils no other.

Slow next to decoding at once, so only what failed that way comes here. To say what is wrong with an item takes as long
as to decode ten, so only the first FULL_REASONS of a message are told exactly. After MALFORMED_MOST nothing is looked
at: 10,000 of them kept everybody waiting for 40 ms.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from taskqueue.protocol.checks import check_edges, check_follow_ups, check_report, edges_of, item_name, taskids_flaw
from taskqueue.protocol.fields import MAX_BATCH, NewTask, ProjectName, TaskReport
from taskqueue.protocol.reasons import MALFORMED, reason_of
from taskqueue.protocol.requests import Done, Flaws, NewTasks, Request

Items = Annotated[list[Raw], Meta(max_length=MAX_BATCH)]

FULL_REASONS: Final = 128
"""Items of a message whose reason says what is wrong with them."""
BRIEF_REASON: Final = f"malformed; what is wrong is told of the first {FULL_REASONS} items of a message"

MALFORMED_MOST: Final = 512
"""Items of a message that may be malformed before those after them are rejected whatever they are."""
UNREAD_REASON: Final = "not looked at"
"""Short, for it may stand 10,000 times in an answer, which is kept."""

NO_ITEMS: Final = Raw(b"\x90")
"""MessagePack's empty array."""


class UndecodedNewTasks(Request, tag="new-task"):
    """A ``new-task`` whose items are not decoded yet."""

    project: ProjectName
    tasks: Items
    states: bool = False


class UndecodedDone(Request, tag="done"):
    """A ``done`` whose items are not decoded yet."""

    tasks: Items


_encoder = Encoder()
_new_tasks: Decoder[UndecodedNewTasks] = Decoder(UndecodedNewTasks)
_done: Decoder[UndecodedDone] = Decoder(UndecodedDone)
_new_task: Decoder[NewTask] = Decoder(NewTask)
_finished: Decoder[TaskReport] = Decoder(TaskReport)
_fields: Decoder[dict[str, Raw]] = Decoder(dict[str, Raw])
_items: Decoder[list[Raw]] = Decoder(Items)


def new_tasks_by_item(frame: bytes) -> tuple[NewTasks, Flaws]:
    """Decode a ``new-task`` item by item; raises one of MALFORMED if anything but items is wrong."""
    apart = _new_tasks.decode(frame)
    flaws: Flaws = {}
    tasks = _decode_new(apart.tasks, (), flaws)
    check_edges(sum(len(task.depends_on) for task in tasks if task is not None))
    asked = NewTasks(session=apart.session, n=apart.n, project=apart.project, tasks=tasks, states=apart.states)
    return asked, flaws


def _decode_new(items: list[Raw], parent: tuple[int, ...], flaws: Flaws) -> list[NewTask | None]:
    """Decode each item; a malformed one becomes None, with a flaw."""
    tasks: list[NewTask | None] = []
    for index, item in enumerate(items):
        if len(flaws) >= MALFORMED_MOST:
            return tasks + _not_decoded(len(items), index, parent, flaws)
        task: NewTask | None = None
        try:
            task = _new_task.decode(item)
        except MALFORMED as error:
            flaws[*parent, index] = _reason(error, (*parent, index), flaws)
        if task is not None and (flaw := taskids_flaw(task, item_name((*parent, index)))):
            flaws[*parent, index] = flaw
            task = None
        tasks.append(task)
    return tasks


def done_by_item(frame: bytes) -> tuple[Done, Flaws]:
    """Decode a ``done`` item by item; raises one of MALFORMED if anything but items is wrong.

    Raises:
        Rejected: it has too many new tasks.
    """
    apart = _done.decode(frame)
    flaws: Flaws = {}
    items: list[TaskReport | None] = []
    new = edges = 0
    for index, item in enumerate(apart.tasks):
        if len(flaws) >= MALFORMED_MOST:
            items += _not_decoded(len(apart.tasks), index, (), flaws)
            break
        finished = _decode_report(item, index, new, flaws)
        new += len(finished.new) if finished else 0
        edges += edges_of(finished) if finished else 0
        check_follow_ups(new, edges)
        items.append(finished)
    return Done(session=apart.session, n=apart.n, tasks=items), flaws


def _not_decoded(count: int, first: int, parent: tuple[int, ...], flaws: Flaws) -> list[None]:
    """None for each item from ``first`` on, with a flaw: too many items before them were malformed."""
    flaws.update(((*parent, index), UNREAD_REASON) for index in range(first, count))
    return [None] * (count - first)


def _decode_report(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode one report; if only its follow-ups are malformed, only they are refused."""
    try:
        finished = _finished.decode(item)
    except MALFORMED as error:
        if b"new" in bytes(item):
            return _decode_follow_ups(item, index, new_before, flaws)
        flaws[index,] = _reason(error, (index,), flaws)
        return None
    return check_report(finished, index, flaws)


def _decode_follow_ups(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode one report without its follow-ups, and these one by one."""
    try:
        fields = _fields.decode(item)
        new = fields.pop("new", NO_ITEMS)
        finished = _finished.decode(_encoder.encode(fields))
    except MALFORMED as error:
        flaws[index,] = _reason(error, (index,), flaws)
        return None
    try:
        items = _items.decode(new)
    except MALFORMED as error:
        flaws[index,] = _reason(error, (index,), flaws, ".new")
        return None
    check_follow_ups(new_before + len(items), 0)
    if check_report(finished, index, flaws) is None:
        return None
    return replace(finished, new=_decode_new(items, (index,), flaws))


def _reason(error: Exception, path: tuple[int, ...], flaws: Flaws, field: str = "") -> str:
    return BRIEF_REASON if len(flaws) >= FULL_REASONS else reason_of(error, item_name(path) + field)
