"""Batches taken apart: ``new-task`` and ``done`` item by item, so that a malformed one spoils no other.

Slow next to decoding at once, so only what failed that way comes here.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from taskqueue.core.messages import MAX_BATCH, Finished, NewTask, ProjectName
from taskqueue.core.requests import Done, Flaws, NewTasks, Request
from taskqueue.wire.flaws import is_too_long, item_name, long_reason
from taskqueue.wire.reasons import MALFORMED, reason_of

Items = Annotated[list[Raw], Meta(max_length=MAX_BATCH)]

NO_ITEMS: Final = Raw(b"\x90")
"""MessagePack's empty array."""


class NewTasksApart(Request, tag="new-task"):
    """A ``new-task`` whose items are still to be decoded."""

    project: ProjectName
    tasks: Items


class DoneApart(Request, tag="done"):
    """A ``done`` whose items are still to be decoded."""

    tasks: Items


_encoder = Encoder()
_new_tasks: Decoder[NewTasksApart] = Decoder(NewTasksApart)
_done: Decoder[DoneApart] = Decoder(DoneApart)
_new_task: Decoder[NewTask] = Decoder(NewTask)
_finished: Decoder[Finished] = Decoder(Finished)
_fields: Decoder[dict[str, Raw]] = Decoder(dict[str, Raw])
_items: Decoder[list[Raw]] = Decoder(Items)


def new_tasks_by_item(frame: bytes) -> tuple[NewTasks, Flaws]:
    """Decode a ``new-task``; raises one of MALFORMED if more than items of it is wrong."""
    apart = _new_tasks.decode(frame)
    flaws: Flaws = {}
    tasks = _decode_new(apart.tasks, (), flaws)
    return NewTasks(session=apart.session, n=apart.n, project=apart.project, tasks=tasks), flaws


def _decode_new(items: list[Raw], parent: tuple[int, ...], flaws: Flaws) -> list[NewTask | None]:
    """Decode each item; a malformed one is None and a flaw."""
    tasks: list[NewTask | None] = []
    for index, item in enumerate(items):
        task, reason = _one_new_task(item, item_name((*parent, index)))
        tasks.append(task)
        if reason:
            flaws[*parent, index] = reason
    return tasks


def _one_new_task(item: Raw, name: str) -> tuple[NewTask | None, str]:
    try:
        task = _new_task.decode(item)
    except MALFORMED as error:
        return None, reason_of(error, name)
    if is_too_long(task.taskid):
        return None, long_reason(f"{name}.taskid")
    return task, ""


def done_by_item(frame: bytes) -> tuple[Done, Flaws]:
    """Decode a ``done``; raises one of MALFORMED if more than items of it is wrong."""
    apart = _done.decode(frame)
    flaws: Flaws = {}
    items = [_one_finished(item, index, flaws) for index, item in enumerate(apart.tasks)]
    return Done(session=apart.session, n=apart.n, tasks=items), flaws


def _one_finished(item: Raw, index: int, flaws: Flaws) -> Finished | None:
    """Decode one outcome; if only follow-ups of it are malformed, only they are refused."""
    try:
        fields = _fields.decode(item)
        new = fields.pop("new", NO_ITEMS)
        finished = _finished.decode(_encoder.encode(fields))
    except MALFORMED as error:
        flaws[index,] = reason_of(error, item_name((index,)))
        return None
    if is_too_long(finished.taskid):
        flaws[index,] = long_reason(f"{item_name((index,))}.taskid")
        return None
    return _with_new(finished, new, index, flaws)


def _with_new(finished: Finished, new: Raw, index: int, flaws: Flaws) -> Finished | None:
    try:
        items = _items.decode(new)
    except MALFORMED as error:
        flaws[index,] = reason_of(error, f"{item_name((index,))}.new")
        return None
    return replace(finished, new=_decode_new(items, (index,), flaws))
