"""Adds to a batch what ties tasks to each other: edges, awaited tasks, propagations."""

from __future__ import annotations

from taskqueue.core.tasks.records import WriteSet
from taskqueue.core.tasks.task import Task
from taskqueue.store.contract import Batch
from taskqueue.store.records import layout
from taskqueue.store.records.edges import edge_keys, encode_mark, encode_propagation, propagation_key
from taskqueue.store.records.link_bytes import AWAITED, join_links, join_slot


def add_links(batch: Batch, writes: WriteSet) -> None:
    """Add one turn's changes of links."""
    _add_edges(batch, writes)
    moved = {id(task) for task, *_ in writes.moves}
    batch.puts[layout.IDS].extend(
        (layout.id_key(task.project, task.taskid), _over_record(task))
        for task in writes.linked.values()
        if id(task) not in moved
    )
    for ref, is_awaited in writes.awaited.items():
        if is_awaited:
            batch.puts[layout.IDS].append((layout.id_key(*ref), AWAITED))
        else:
            batch.deletes[layout.IDS].append(layout.id_key(*ref))
    for number, propagation in writes.propagations.items():
        if propagation is None:
            batch.deletes[layout.PROPAGATIONS].append(propagation_key(number))
        else:
            batch.puts[layout.PROPAGATIONS].append((propagation_key(number), encode_propagation(propagation)))


def _over_record(task: Task) -> bytes:
    """The record of a task that is over."""
    if task.bare or task.links is None:
        return layout.encode_bare(task)
    record = layout.encode_record(task)
    size = layout.fixed_bytes(record)
    record = join_links(record, size, task.links)
    return join_slot(record, size, task) if task.slot else record


def _add_edges(batch: Batch, writes: WriteSet) -> None:
    for edge, mark in writes.edges.items():
        to_parent, to_child = edge_keys(edge)
        if mark is None:
            batch.deletes[layout.PARENTS].append(to_parent)
            batch.deletes[layout.CHILDREN].append(to_child)
            continue
        value = encode_mark(mark)
        batch.puts[layout.PARENTS].append((to_parent, value))
        batch.puts[layout.CHILDREN].append((to_child, value))
    for number in writes.dropped_edges:
        start, end = layout.project_key(number), layout.project_key(number + 1)
        batch.drops += [(layout.PARENTS, start, end), (layout.CHILDREN, start, end)]
