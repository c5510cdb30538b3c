"""Unknown sessions and tokens: first messages, and guesses."""

from __future__ import annotations

from math import inf

from taskqueue.core.model.needs import Needs
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Extend, Hello
from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, NewTasksReply
from taskqueue.protocol.values import TaskReport
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.records.layout import OUTCOMES, SESSIONS
from tests.unit.core.conftest import World, ref, task


def small_world() -> World:
    return World(CoreConfig(projects={"news": {"rate": inf}}, max_sessions=5))


def needs(world: World, *requests: AnyRequest) -> Needs:
    """Collect the lookups that these requests cause."""
    world.turn(*requests)
    return world.needs


def done(world: World, taskid: str, token: int, session: str = "stranger") -> Done:
    return Done(session=session, n=world.n(), tasks=[TaskReport("news", taskid, Token(token))])


def test_for_a_session_that_is_unknown_the_store_is_not_asked(world: World) -> None:
    assert needs(world, Hello(session="stranger", n=1)).sessions == []
    assert needs(world, world.new_tasks("news", task("a"), session="another")).sessions == []


def test_a_repeat_after_a_restart_is_answered_from_what_the_store_has(world: World) -> None:
    request = world.new_tasks("news", task("a"), session="known")
    first = world.ask(NewTasksReply, request)

    world.restart()
    assert world.turn(request) == [first]
    assert world.needs.sessions == ["known"]


def test_sessions_that_are_forgotten_leave_no_appointments_behind() -> None:
    world = small_world()
    for number in range(1000):
        world.elapsed += 0.01
        world.turn(Hello(session=f"s{number}", n=1))
    assert len(world.scheduler._state.boot_timers) < 200
    assert len(world.scheduler._state.sessions) <= 6


def test_a_session_of_which_nothing_is_kept_is_forgotten_without_a_write() -> None:
    world = small_world()
    for number in range(50):
        world.elapsed += 1
        world.turn(Hello(session=f"s{number}", n=1))
        assert world.kept.dropped_sessions == []


def test_of_a_session_that_is_forgotten_just_what_is_kept_is_dropped() -> None:
    world = small_world()
    for number in range(20):
        world.elapsed += 1
        world.turn(*(world.new_tasks("news", task("a"), session=f"s{number}") for _ in range(3)))
        assert all(len(dropped.slots) == 3 for dropped in world.kept.dropped_sessions)
    world.restart()
    for number in range(20, 40):
        world.elapsed += 1
        world.turn(world.new_tasks("news", task("a"), session=f"s{number}"))
    assert len(world.disk.families[SESSIONS].values) <= 6
    assert len(world.disk.families[OUTCOMES].values) <= 6


def test_a_project_that_is_deleted_leaves_no_appointments_behind(world: World) -> None:
    for number in range(200):
        world.do("start", f"p{number}")
        world.push(f"p{number}", task("a", delay=1e6))
        world.do("delete", f"p{number}")
    state = world.scheduler._state
    assert len(state.wall_timers) + len(state.boot_timers) < 400


def test_for_a_guessed_token_no_body_is_read(world: World) -> None:
    world.push("news", *(task(f"n{number}", body="x" * 100) for number in range(20)))
    world.restart()

    world.turn()
    world.turn(*(done(world, f"n{number}", 12345) for number in range(20)))
    assert all(each.spec is None for each in world.found.tasks.values())
    assert world.ask(DoneReply, done(world, "n19", 12345)).outcomes == ["stale"]


def test_a_late_success_of_a_task_that_is_not_held_counts_by_its_token(world: World) -> None:
    world.push("news", *(task(f"n{number}", age=10, auto_recrawl=True, timeout=5) for number in range(9)))
    fetcher = world.fetcher(capacity=9)
    tokens = {taskid: handed.token for taskid, handed in fetcher.held.items()}
    fetcher.hello(capacity=0)
    world.advance(6)

    for taskid, token in tokens.items():
        assert world.ask(DoneReply, done(world, taskid, token + 1)).outcomes == ["stale"]
        assert world.ask(DoneReply, done(world, taskid, token)).outcomes == ["done"]
    assert world.counts().delayed == len(tokens)


def test_an_extend_reads_only_the_tasks_whose_tokens_it_knows(world: World) -> None:
    world.push("news", task("a", body="x" * 10_000, timeout=50))
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(capacity=0)
    lease = ref(fetcher.held["a"])

    wrong = Extend(session="stranger", n=world.n(), leases=[type(lease)(lease.project, "a", Token(lease.token + 1))])
    assert needs(world, wrong).specs == []
    assert len(needs(world, Extend(session="f", n=world.n(), leases=[lease])).specs) == 1
    assert needs(world, Extend(session="f", n=world.n(), leases=[lease], seconds=9.0)).specs == []
    assert not isinstance(world.answer(Extend(session="f", n=world.n(), leases=[lease])), ErrorReply)
