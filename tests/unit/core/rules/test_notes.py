"""Notes: words or a number beside a task while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from taskqueue.core.requests.leases import NOTE_SECONDS
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Fetchers, FetchersReply, Note, NotedLease, NoteReply
from taskqueue.protocol.fields import MAX_NOTE_BYTES, Token
from tests.unit.core.conftest import Fetcher, World, ref, task
from tests.unit.core.rules.conftest import bring, run_out


def noted(fetcher: Fetcher, taskid: str, note: str | float) -> NotedLease:
    lease = ref(fetcher.held[taskid])
    return NotedLease(lease.project, lease.taskid, lease.token, note)


def put(fetcher: Fetcher, taskid: str, note: str | float) -> str:
    """Put a note; return its outcome."""
    world = fetcher.world
    request = Note(session=fetcher.session, n=world.n(), notes=[noted(fetcher, taskid, note)])
    return world.ask(NoteReply, request).outcomes[0]


@pytest.mark.parametrize("note", ["page 3 of 20", 0.25, 1, -7.5])
def test_a_note_is_shown_with_its_task(world: World, note: str | float) -> None:
    fetcher = bring(world, "processing")
    assert world.show("a").note is None

    assert put(fetcher, "a", note) == "noted"
    assert world.show("a").note == note


@pytest.mark.parametrize(
    "end",
    [
        lambda fetcher: fetcher.done("a", ok=False, retry_after=0.0),
        lambda fetcher: fetcher.release("a"),
        lambda fetcher: run_out(fetcher.world, fetcher),
    ],
    ids=["failed", "released", "timeout"],
)
def test_a_note_ends_with_its_lease(world: World, end: Callable[[Fetcher], object]) -> None:
    fetcher = bring(world, "processing")
    put(fetcher, "a", "half")

    end(fetcher)
    assert world.show("a").note is None
    world.advance(5)
    assert "a" in world.fetcher(name="next").taken or "a" in fetcher.held
    assert world.show("a").state == "processing"
    assert world.show("a").note is None


def test_a_note_ends_with_the_daemon(world: World) -> None:
    fetcher = bring(world, "processing")
    put(fetcher, "a", "half")

    world.restart()
    assert (world.show("a").state, world.show("a").note) == ("processing", None)
    assert put(fetcher, "a", "most") == "noted"
    assert world.show("a").note == "most"


def test_a_task_has_one_note_a_second_and_one_more_at_once(world: World) -> None:
    fetcher = bring(world, "processing")

    assert [put(fetcher, "a", number) for number in range(3)] == ["noted", "noted", "too-soon"]
    assert world.show("a").note == 1
    for second in range(3):
        world.advance(NOTE_SECONDS)
        assert [put(fetcher, "a", 10 * second + number) for number in range(2)] == ["noted", "too-soon"]
    world.advance(30)
    assert [put(fetcher, "a", number) for number in range(3)] == ["noted", "noted", "too-soon"]


def test_the_pace_of_notes_is_that_of_each_task(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    notes = [noted(fetcher, "a", "1"), noted(fetcher, "a", "2"), noted(fetcher, "a", "3"), noted(fetcher, "b", "1")]

    reply = world.ask(NoteReply, Note(session="fetcher", n=world.n(), notes=notes))

    assert reply.outcomes == ["noted", "noted", "too-soon", "noted"]
    assert (world.show("a").note, world.show("b").note) == ("2", "1")


def test_only_the_token_of_a_lease_in_force_puts_a_note(world: World) -> None:
    fetcher = bring(world, "processing")
    own = noted(fetcher, "a", "mine")
    world.push("news", task("ready"))
    fetcher.hello(capacity=0)
    strange = [
        replace(own, token=Token(own.token + 1)), replace(own, taskid="ready"), replace(own, taskid="unknown"),
        replace(own, project="unknown"),
    ]  # fmt: skip

    reply = world.ask(NoteReply, Note(session="stranger", n=world.n(), notes=strange))
    assert reply.outcomes == ["stale"] * 4
    assert world.show("a").note is None
    # A processor in another process has the token, and no session of its own with the daemon.
    assert world.ask(NoteReply, Note(session="processor", n=world.n(), notes=[own])).outcomes == ["noted"]
    fetcher.done("a")
    assert world.ask(NoteReply, Note(session="processor", n=world.n(), notes=[own])).outcomes == ["stale"]


def test_a_note_of_too_many_bytes_is_refused_with_all_of_its_message(world: World) -> None:
    fetcher = bring(world, "processing")
    notes = [noted(fetcher, "a", "short"), noted(fetcher, "a", "ä" * (MAX_NOTE_BYTES // 2 + 1))]

    refused = world.ask(ErrorReply, Note(session="fetcher", n=world.n(), notes=notes))

    assert (refused.code, refused.reason) == ("malformed", "notes[1].note: expected at most 256 bytes of utf-8")
    assert world.show("a").note is None
    assert put(fetcher, "a", "ä" * (MAX_NOTE_BYTES // 2)) == "noted"


def test_notes_write_nothing(world: World) -> None:
    fetcher = bring(world, "processing")

    world.turn(Note(session="fetcher", n=world.n(), notes=[noted(fetcher, "a", "half")]))

    assert not any(getattr(world.kept, name) for name in world.kept.__struct_fields__)


def test_a_fetcher_is_listed_with_the_note_of_its_oldest_task(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()

    def listed() -> str | float | None:
        return world.ask(FetchersReply, Fetchers(session="person", n=world.n())).fetchers[0].note

    put(fetcher, "b", "later")
    assert listed() is None
    put(fetcher, "a", 0.5)
    assert listed() == 0.5
    fetcher.done("a")
    assert listed() == "later"
