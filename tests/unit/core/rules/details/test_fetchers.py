"""hello, extend, release, silence: capacity, not credit, so that lost, repeated or late messages do no harm."""

from __future__ import annotations

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import Verify
from taskqueue.protocol.fetchers import Extend, Hello, HelloWanted, LeaseRef, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import AnyRequest, Outgoing
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task


def names(count: int) -> list[str]:
    return [f"t{number:02}" for number in range(count)]


def push(world: World, count: int) -> None:
    world.push("news", *[task(name) for name in names(count)])


def stay(world: World, fetcher: Fetcher, seconds: float) -> None:
    """Let time pass while the fetcher is heard."""
    for _ in range(int(seconds // 30)):
        world.advance(30)
        fetcher.hello()


# ---------------------------------------------------------------------------------------- capacity


def test_hello_is_answered_with_what_a_client_must_know(make_world: MakeWorld) -> None:
    world = make_world(fetcher_timeout=45.0, max_message=1000, version="1.2")

    welcome = world.ask(Welcome, Hello(session="f", n=7))
    assert welcome == Welcome(n=7, epoch=1, fetcher_timeout=45.0, max_message=1000, version="1.2")


def test_tasks_reach_a_waiting_fetcher_unasked(world: World) -> None:
    fetcher = world.fetcher()

    push(world, 3)
    assert fetcher.taken == names(3)


def test_a_capacity_may_rise_and_fall(world: World) -> None:
    push(world, 10)
    fetcher = world.fetcher(capacity=1)

    fetcher.hello(capacity=4)
    assert fetcher.taken == names(4)
    fetcher.hello(capacity=3)
    fetcher.done("t00")
    assert fetcher.taken == names(4)
    fetcher.done("t01")
    assert fetcher.taken == names(5)


def test_a_fetcher_without_capacity_gets_nothing(world: World) -> None:
    push(world, 1)

    assert world.fetcher(capacity=0).taken == []


def test_a_fetcher_gets_tasks_of_the_projects_that_it_wants(world: World) -> None:
    world.push("news", task("n"))
    world.push("shop", task("s"))

    picky = world.fetcher(projects=[], name="picky")
    assert picky.taken == []
    fetcher = world.fetcher(projects=["shop", "unknown"])
    assert fetcher.taken == ["s"]
    fetcher.projects = ["news"]
    fetcher.hello()
    assert fetcher.taken == ["s", "n"]


def test_a_project_made_later_is_offered_to_those_who_want_it(world: World) -> None:
    fetcher = world.fetcher(projects=["blog"])

    world.do("start", "blog")
    world.push("blog", task("b"))
    assert fetcher.taken == ["b"]


# ---------------------------------------------------------------------------------------- numbers, lost, unseen


def test_select_messages_are_numbered_without_gaps(world: World) -> None:
    fetcher = world.fetcher()
    for name in names(3):
        world.push("news", task(name))

    assert [message.number for message in fetcher.messages] == [1, 2, 3]


def test_a_long_hand_out_is_split_into_several_messages(make_world: MakeWorld) -> None:
    world = make_world(select_bytes=2500)
    push(world, 10)
    fetcher = world.fetcher()

    assert fetcher.taken == names(10)
    assert max(len(message.tasks) for message in fetcher.messages) <= 4
    assert [message.number for message in fetcher.messages] == list(range(1, len(fetcher.messages) + 1))


def test_a_task_larger_than_a_message_is_sent_alone(make_world: MakeWorld) -> None:
    world = make_world(select_bytes=1000)
    world.push("news", task("a", body="x" * 5000), task("b"))

    assert world.fetcher().taken == ["a", "b"]


def test_what_was_seen_but_is_not_held_is_lost_and_given_to_others(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher()
    del fetcher.held["t00"]
    other = world.fetcher(name="other")

    fetcher.hello(capacity=2)
    assert world.show("t00").retried == 0
    assert (fetcher.taken + other.taken).count("t00") == 2


def test_what_is_under_way_is_not_lost(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.deaf = True
    push(world, 1)

    fetcher.hello(seen=0, holds=[])
    assert world.show("t00").session == world.pseudonym("fetcher")
    assert world.project().totals.selected == 1


def test_a_select_that_was_not_seen_is_sent_again_under_its_number(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.deaf = True
    push(world, 2)
    world.push("news", task("later"))
    fetcher.deaf = False

    world.advance(100 - 50)
    fetcher.hello()
    assert fetcher.taken == [*names(2), "later"]
    assert [message.number for message in fetcher.messages] == [1, 2]
    assert fetcher.held["later"].timeout == 550.0
    assert fetcher.done("t00") == "done"


def test_an_empty_message_fills_the_gap_of_a_lost_one_whose_tasks_are_gone(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.deaf = True
    world.push("news", task("a"))
    world.push("news", task("a", cancel=True, force_update=True))
    fetcher.deaf = False
    world.push("news")

    fetcher.hello()
    world.push("news", task("b"))
    assert fetcher.messages[0] == Select(number=1, tasks=[])
    assert fetcher.taken == ["b"]


def test_a_repeated_hello_does_no_harm(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher(capacity=1)
    hello = Hello(session="fetcher", n=world.n(), capacity=1, seen=1, holds=fetcher.tokens("t00"))

    for _ in range(3):
        world.ask(Welcome, hello)
    assert fetcher.taken == ["t00"]


def test_a_late_hello_is_refused_and_changes_nothing(world: World) -> None:
    late = Hello(session="fetcher", n=world.n(), capacity=100)
    push(world, 3)
    fetcher = world.fetcher(capacity=1)

    assert world.ask(ErrorReply, late).code == "too-old"
    assert fetcher.taken == ["t00"]
    assert world.show("t00").state == "processing"


def test_numbers_of_selects_go_on_after_a_restart(world: World) -> None:
    push(world, 3)
    fetcher = world.fetcher(capacity=1)
    fetcher.done("t00")
    assert fetcher.seen == 2

    world.restart()
    fetcher.hello()
    fetcher.done("t01")
    assert fetcher.seen == 3
    assert fetcher.done("t02") == "done"


def test_what_was_under_way_when_the_daemon_died_is_sent_again(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.deaf = True
    push(world, 2)
    fetcher.deaf = False

    world.restart()
    fetcher.hello()
    assert fetcher.taken == names(2)
    assert fetcher.done("t00") == "done"


# ---------------------------------------------------------------------------------------- extend


def test_extend_may_say_how_long_also_shorter(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher(capacity=2)

    fetcher.extend("t00", seconds=5000.0)
    fetcher.extend("t01", seconds=5.0)
    assert [world.show(name).lease_seconds for name in names(2)] == [5000.0, 5.0]
    world.advance(5)
    assert world.project().totals.timeout == 1


def test_after_a_restart_extend_still_knows_the_tasks_own_timeout(world: World) -> None:
    world.push("news", task("a", timeout=3000.0))
    fetcher = world.fetcher()

    world.restart()
    fetcher.extend("a")
    assert world.show("a").lease_seconds == 3000.0


def test_extend_names_the_leases_that_are_not_in_force(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher()
    (lease,) = fetcher.leases("t00")
    strangers = [LeaseRef("news", "t01", lease.token), LeaseRef("shop", "t00", 1), LeaseRef("unknown", "t00", 2)]

    reply = world.ask(TokensReply, Extend(session="fetcher", n=world.n(), leases=[lease, *strangers]))
    assert (reply.counted, reply.stale) == (1, [lease.token, 1, 2])


def test_an_extended_lease_is_as_long_after_a_restart(world: World) -> None:
    push(world, 1)
    fetcher = world.fetcher()
    world.advance(50)
    fetcher.extend("t00", seconds=2000.0)

    world.restart()
    assert world.show("t00").lease_seconds == 2000.0


# ---------------------------------------------------------------------------------------- release


def test_what_is_released_goes_to_others_first_and_uses_up_no_retry(world: World) -> None:
    push(world, 4)
    fetcher = world.fetcher(capacity=2)
    fetcher.capacity = 0
    fetcher.hello()

    assert fetcher.release("t01", "t00").counted == 2
    assert world.show("t00").retried == 0
    assert world.fetcher(name="other").taken == names(4)


def test_a_token_that_is_named_twice_is_released_once(world: World) -> None:
    world.push("news", task("t00"))
    fetcher = world.fetcher()
    twice = fetcher.leases("t00", "t00")
    fetcher.hello(capacity=0)

    reply = world.ask(TokensReply, Release(session=fetcher.session, n=world.n(), leases=twice))
    assert (reply.counted, reply.stale) == (1, [])
    assert world.project().counts.ready == 1


def test_an_answer_for_a_released_task_is_stale(world: World) -> None:
    push(world, 1)
    fetcher = world.fetcher()
    (token,) = fetcher.tokens("t00")
    fetcher.hello(capacity=0)
    fetcher.release("t00")

    assert fetcher.forge("t00", token) == "stale"
    assert world.show("t00").state == "ready"


def test_releasing_twice_is_stale(world: World) -> None:
    push(world, 1)
    fetcher = world.fetcher()
    handed = fetcher.held["t00"]
    fetcher.hello(capacity=0)

    fetcher.release("t00")
    fetcher.held["t00"] = handed
    reply = fetcher.release("t00")
    assert (reply.counted, reply.stale) == (0, [handed.token])


# ---------------------------------------------------------------------------------------- silence


def test_a_silent_fetcher_gives_back_what_it_holds_without_using_up_a_retry(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher()

    world.advance(59)
    assert world.counts().processing == 2
    world.advance(1)
    assert (world.counts().ready, world.show("t00").retried) == (2, 0)
    assert world.fetcher(name="other").taken == names(2)
    assert fetcher.done("t00") == "stale"


def test_a_silent_fetcher_gets_nothing_until_it_is_heard_again(world: World) -> None:
    fetcher = world.fetcher()
    world.advance(60)

    push(world, 1)
    assert fetcher.taken == []
    fetcher.hello()
    assert fetcher.taken == ["t00"]


def test_any_request_keeps_a_fetcher_from_being_silent(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher(capacity=2)

    world.advance(50)
    fetcher.extend("t00")
    world.advance(59)
    assert world.counts().processing == 2
    world.advance(1)
    assert world.counts().processing == 0


def test_a_late_success_after_silence_counts_if_nobody_else_was_given_the_task(world: World) -> None:
    push(world, 1)
    fetcher = world.fetcher()
    world.advance(60)

    assert fetcher.done("t00") == "done"


def test_after_a_restart_a_fetcher_has_its_time_to_be_heard(world: World) -> None:
    world.push("news", task("a", timeout=70.0))
    fetcher = world.fetcher()
    world.advance(55)
    fetcher.hello()
    world.advance(10)

    world.restart()
    world.advance(59)
    assert world.show("a").session == world.pseudonym("fetcher")
    fetcher.hello(capacity=0)
    world.advance(1)
    assert (world.show("a").state, world.show("a").error) == ("ready", "timeout")


def test_what_a_silent_fetcher_has_extended_before_it_could_be_taken_is_its_own(world: World) -> None:
    push(world, 2)
    fetcher = world.fetcher()
    world.restart()
    world.elapsed += 60
    world.turn()  # its tasks must be read before they can be taken back

    (reply,) = world.turn(Extend(session=fetcher.session, n=world.n(), leases=fetcher.leases("t00"), seconds=600))
    world.settle()

    assert reply == TokensReply(n=reply.n, counted=1)
    assert world.counts().processing == 2
    world.advance(60)
    assert world.counts().ready == 2


def test_after_a_restart_an_unheard_fetcher_gives_back_what_it_held(world: World) -> None:
    push(world, 2)
    world.fetcher()

    world.restart()
    world.advance(60)
    assert (world.counts().ready, world.show("t00").retried) == (2, 0)


# ---------------------------------------------------------------------------------------- what could not be sent


def test_tasks_that_could_not_be_sent_are_handed_to_somebody_else_at_once(world: World) -> None:
    gone, other = world.fetcher(name="gone"), world.fetcher(capacity=0, name="other")
    world.unreachable.append(gone.session.encode())
    world.push("news", task("a"), task("b"))
    other.hello(capacity=10)

    assert (gone.taken, other.taken) == ([], ["a", "b"])
    assert world.elapsed == 0
    assert world.show("a").retried == 0


def test_a_fetcher_that_could_not_be_reached_gets_tasks_again_after_its_next_hello(world: World) -> None:
    fetcher = world.fetcher()
    world.unreachable.append(fetcher.session.encode())
    world.push("news", task("a"))
    assert world.counts().ready == 1
    world.push("news", task("b"))
    assert world.counts().processing == 0

    world.unreachable.clear()
    fetcher.hello()
    assert fetcher.taken == ["a", "b"]
    fetcher.done("a")
    assert world.counts().success == 1


def test_what_could_not_be_sent_to_where_a_fetcher_was_before_says_nothing_of_it(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    elsewhere = Outgoing(Peer(b"before"), fetcher.messages[-1], after_sync=False, session=fetcher.session)

    turn = world.scheduler.begin(world.now, [])
    turn.decide(world.ledger.find(turn.needs), undelivered=[elsewhere])
    world.push("news", task("b"))
    assert (fetcher.taken, world.counts().processing) == (["a", "b"], 2)


# ---------------------------------------------------------------------------------------- after a restart


def wants_hello(world: World, *requests: AnyRequest) -> list[str]:
    """Take a turn with these requests, and list the sessions that it asks for a hello."""
    world.turn(*requests)
    return [said.session for said in world.said if isinstance(said.message, HelloWanted)]


def test_a_fetcher_that_goes_on_after_a_restart_without_a_hello_is_asked_for_one_once(world: World) -> None:
    push(world, 3)
    fetcher = world.fetcher(capacity=2)
    world.restart()

    assert wants_hello(world, fetcher.answers(fetcher.finished("t00"))) == ["fetcher"]
    assert wants_hello(world, fetcher.answers(fetcher.finished("t01"))) == []
    assert fetcher.taken == names(2)
    fetcher.hello()
    assert fetcher.taken == names(3)


def test_whatever_it_says_a_fetcher_that_has_tasks_is_asked_for_a_hello(world: World) -> None:
    push(world, 1)
    world.fetcher()
    world.restart()

    assert wants_hello(world, Verify(session="fetcher", n=world.n())) == ["fetcher"]


def test_at_another_address_it_is_asked_again(world: World) -> None:
    push(world, 1)
    world.fetcher()
    world.restart()
    wants_hello(world, Verify(session="fetcher", n=world.n()))

    (heard,) = world.heard(Verify(session="fetcher", n=world.n()))
    heard.peer = Peer(b"elsewhere")
    turn = world.scheduler.begin(world.now, [heard])
    result = turn.decide(world.ledger.find(turn.needs))
    assert [said.peer for said in result.outgoing if isinstance(said.message, HelloWanted)] == [b"elsewhere"]


@pytest.mark.parametrize("kind", [Extend, Release])
def test_who_speaks_of_tasks_that_another_session_holds_is_asked_for_a_hello(
    world: World, kind: type[Extend] | type[Release]
) -> None:
    push(world, 1)
    held = world.fetcher().messages[-1].tasks[0]
    lease = LeaseRef("news", held.taskid, held.token)

    assert "processor" in wants_hello(world, kind(session="processor", n=1, leases=[lease]))


def test_nobody_else_is_asked_for_a_hello(world: World) -> None:
    fetcher = world.fetcher()
    push(world, 1)

    assert wants_hello(world, fetcher.answers(fetcher.finished("t00")), world.new_tasks("news", task("x"))) == []
