"""task.note(): the last note of each task, once a second, from any thread; against a scripted daemon."""

from __future__ import annotations

import asyncio
from math import inf, nan
from typing import Any

import pytest

from taskqueue import AsyncClient, Client, Task, Worker
from taskqueue.client.tasks.notes import PAUSE_SECONDS, checked_note
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello, Note, NoteReply
from taskqueue.protocol.fields import MAX_NOTE_BYTES
from taskqueue.protocol.tasks import Done
from tests.unit.client.conftest import Daemon, LeapingLoop, friendly, run_leaping


def notes_of(request: Note) -> dict[int, str | float]:
    return {each.token: each.note for each in request.notes}


async def two_tasks(client: AsyncClient, daemon: Daemon) -> list[Task]:
    """Dispatch and take two tasks."""
    taking = asyncio.ensure_future(client.select(2, timeout=inf))
    while not (await asyncio.to_thread(daemon.hear, Hello)).capacity:
        pass
    daemon.hand_out(1, 2)
    return await taking


def test_the_last_note_of_each_task_leaves_once_a_second(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> list[dict[int, str | float]]:
        async with AsyncClient(daemon.url, timeout=inf) as client:
            first, second = await two_tasks(client, daemon)
            first.note("begun")
            heard = [notes_of(await asyncio.to_thread(daemon.hear, Note))]
            for number in range(1000):
                first.note(number)
                second.note(f"page {number}")
            loop.leap(PAUSE_SECONDS)
            heard.append(notes_of(await asyncio.to_thread(daemon.hear, Note)))
            return heard

    first, second = run_leaping(main)

    assert first == {1: "begun"}
    assert second == {1: 999.0, 2: "page 999"}


def test_a_note_of_a_task_that_is_reported_does_not_leave(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> dict[int, str | float]:
        async with AsyncClient(daemon.url, timeout=inf) as client:
            first, second = await two_tasks(client, daemon)
            first.note("begun")
            await asyncio.to_thread(daemon.hear, Note)
            first.note("nearly done")
            second.note("begun")
            await client.done(first)
            loop.leap(PAUSE_SECONDS)
            return notes_of(await asyncio.to_thread(daemon.hear, Note))

    assert run_leaping(main) == {2: "begun"}


def test_while_a_message_of_notes_is_unanswered_no_other_leaves(daemon: Daemon) -> None:
    daemon.script = lambda request: [] if isinstance(request, Note) else friendly(request)

    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url, timeout=inf) as client:
            first, second = await two_tasks(client, daemon)
            first.note("1")
            sent = await asyncio.to_thread(daemon.hear, Note)
            for _ in range(3):
                second.note("2")
                loop.leap(PAUSE_SECONDS)
                await client.done(first)
            assert {request.n for request in daemon.heard if isinstance(request, Note)} == {sent.n}

    run_leaping(main)


def test_a_refused_note_changes_nothing_for_its_handler(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        [ErrorReply(n=request.n, code="malformed", reason="type: unknown")]  # as an old daemon says
        if isinstance(request, Note)
        else friendly(request)
    )

    async def main(loop: LeapingLoop) -> str:
        async with AsyncClient(daemon.url, timeout=inf) as client:
            first, _ = await two_tasks(client, daemon)
            first.note("half")
            await asyncio.to_thread(daemon.hear, Note)
            return (await client.done(first)).outcome

    assert run_leaping(main) == "done"


def in_thread(task: Task) -> None:
    task.note("in a thread")


async def in_loop(task: Task) -> None:
    task.note("in a loop")


@pytest.mark.parametrize("handler", [in_thread, in_loop], ids=["in a thread", "in a loop"])
def test_a_handler_puts_a_note_wherever_it_runs(daemon: Daemon, handler: Any) -> None:
    async def holding(task: Task) -> None:
        if handler is in_thread:
            await asyncio.to_thread(handler, task)
        else:
            await handler(task)
        await heard.wait()

    heard = asyncio.Event()

    async def main() -> dict[int, str | float]:
        worker = Worker(holding, client=daemon.url)
        serving = asyncio.ensure_future(worker.serve())
        while not (await asyncio.to_thread(daemon.hear, Hello)).capacity:
            pass
        daemon.hand_out(1)
        said = notes_of(await asyncio.to_thread(daemon.hear, Note))
        heard.set()
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return said

    assert asyncio.run(main()) == {1: handler.__name__.replace("_", " ").replace("in ", "in a ")}


def test_a_client_puts_a_note_at_once_and_says_what_became_of_it(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        [NoteReply(n=request.n, outcomes=["stale"])] if isinstance(request, Note) else friendly(request)
    )

    async def main(loop: LeapingLoop) -> bytes:
        async with AsyncClient(daemon.url, timeout=inf) as client:
            return (await two_tasks(client, daemon))[0].to_bytes()

    travelled = Task.from_bytes(run_leaping(main))
    with pytest.raises(RuntimeError, match=r"call client\.note\(task, …\)"):
        travelled.note(0.5)
    with Client(daemon.url) as client:
        assert client.note(travelled, 0.5) == "stale"


def test_a_note_is_cut_to_the_bytes_that_are_shown() -> None:
    assert checked_note("é" * MAX_NOTE_BYTES) == "é" * (MAX_NOTE_BYTES // 2)
    assert checked_note("x" + "é" * MAX_NOTE_BYTES) == "x" + "é" * (MAX_NOTE_BYTES // 2 - 1)
    assert checked_note("\ud800") == "?"


@pytest.mark.parametrize(
    ("note", "error"), [(nan, ValueError), (inf, ValueError), (10**400, ValueError), (b"x", TypeError)]
)
def test_what_is_no_note_is_told_to_the_handler(note: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^note: expected "):
        checked_note(note)
