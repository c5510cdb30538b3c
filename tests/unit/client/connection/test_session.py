"""Client session, without a network: when it sends what, and its reactions to messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise
from math import inf

import pytest
from msgspec import Raw
from msgspec.structs import replace

from taskqueue.client.connection.session import (
    FOREIGN_NUMBERS,
    Answered,
    ClientSession,
    Gap,
    HandedOut,
    Refused,
    Renewed,
    Unreadable,
    Welcomed,
)
from taskqueue.errors import MessageTooLarge
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.daemon import Verify, VerifyReply
from taskqueue.protocol.fetchers import Hello, HelloWanted, Hung, LeaseRef, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import OUTCOME_WINDOW, Token
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import OperationShow
from taskqueue.protocol.projects import ProjectDo, ProjectWait, WaitReply
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import Assignment, NewTask, TaskReport


def heard(session: ClientSession, now: float) -> list[AnyRequest]:
    """Return the messages that a daemon would receive now."""
    return [decode_request(frame)[0] for frame in session.frames(now)]


def hellos(session: ClientSession, now: float) -> list[Hello]:
    return [request for request in heard(session, now) if isinstance(request, Hello)]


def welcome(
    session: ClientSession, n: int, now: float, epoch: int = 1, limit: int = 8 << 20, ended: Sequence[int] = ()
) -> object:
    reply = Welcome(n=n, epoch=epoch, fetcher_timeout=60.0, max_message=limit, ended=list(ended))
    return session.receive(encode(reply), now)


def answer(session: ClientSession, reply: AnyReply, now: float = 0.0) -> object:
    return session.receive(encode(reply), now)


def select(session: ClientSession, number: int, *tokens: int, now: float = 0.0) -> object:
    tasks = [Assignment("p", f"t{token}", "http://a/", Token(token), 600.0) for token in tokens]
    return session.receive(encode(Select(number=number, tasks=tasks)), now)


def greeted(capacity: int = 0) -> ClientSession:
    """Make a session whose first hello was answered at 0."""
    session = ClientSession("s", "me")
    session.want(capacity, None)
    welcome(session, hellos(session, 0.0)[0].n, 0.0)
    return session


def verify() -> Verify:
    return Verify()


def done(*tokens: int) -> Done:
    return Done(tasks=[TaskReport("p", f"t{token}", Token(token)) for token in tokens])


def handed_out(event: object) -> bool:
    assert isinstance(event, Welcomed)
    return event.handed_out


def test_hellos_ask_for_the_hand_out_until_one_of_them_is_answered() -> None:
    session = greeted(1)
    session.ask_hand_out()
    [asking] = hellos(session, 0.0)
    session.want(2, None)
    [again] = hellos(session, 0.0)

    assert (asking.after_hand_out, again.after_hand_out) == (True, True)
    assert handed_out(welcome(session, asking.n, 1.0))
    session.say_hello()
    assert [hello.after_hand_out for hello in hellos(session, 1.0)] == [False]
    assert not handed_out(welcome(session, again.n, 1.0))


def test_the_answer_to_a_hello_of_before_says_nothing_of_the_hand_out() -> None:
    session = greeted(1)
    session.say_hello()
    [before] = hellos(session, 0.0)
    session.ask_hand_out()
    assert not handed_out(welcome(session, before.n, 0.0))
    [asking] = hellos(session, 0.0)
    session.ask_hand_out()

    assert not handed_out(welcome(session, asking.n, 1.0))
    [latest] = hellos(session, 1.0)
    assert handed_out(welcome(session, latest.n, 1.0))


# ---------------------------------------------------------------------------------------- requests


def test_the_first_thing_said_is_hello() -> None:
    session = ClientSession("s", "me")
    session.submit(verify())

    first, second = heard(session, 0.0)

    assert isinstance(first, Hello)
    assert (first.name, first.capacity, first.seen) == ("me", 0, 0)
    assert isinstance(second, Verify)


def test_requests_carry_the_session_and_a_number_that_grows() -> None:
    session = greeted()
    numbers = [session.submit(verify()), session.submit(verify())]

    requests = heard(session, 0.0)

    assert [request.n for request in requests] == numbers
    assert numbers[0] < numbers[1]
    assert {request.session for request in requests} == {"s"}


def test_a_request_is_sent_once_while_its_answer_may_still_come() -> None:
    session = greeted()
    session.submit(verify())

    assert len(session.frames(0.0)) == 1
    assert session.frames(4.9) == []


def test_an_unanswered_request_is_sent_again_as_the_same_bytes_ever_more_rarely() -> None:
    session = greeted()
    session.submit(verify())
    [first] = session.frames(0.0)

    times: list[float] = []
    while len(times) < 5:
        times.append(session.next_at())
        assert session.frames(times[-1]) == [first]

    assert times == [5.0, 15.0, 35.0, 75.0, 135.0]


def test_an_answer_ends_the_repeats() -> None:
    session = greeted()
    n = session.submit(verify())
    session.frames(0.0)

    event = answer(session, VerifyReply(n=n, problems=[]))

    assert event == Answered(n, VerifyReply(n=n, problems=[]))
    assert session.next_at() == inf


def test_a_second_answer_tells_nothing_new() -> None:
    session = greeted()
    n = session.submit(verify())
    answer(session, VerifyReply(n=n, problems=[]))

    assert answer(session, VerifyReply(n=n, problems=[])) is None


def test_a_forgotten_request_is_not_repeated_and_its_late_answer_is_nothing() -> None:
    session = greeted()
    n = session.submit(verify())
    session.frames(0.0)

    session.forget(n)

    assert session.next_at() == inf
    assert answer(session, VerifyReply(n=n, problems=[])) is None


def test_a_new_connection_has_everything_unanswered_sent_again_after_a_new_hello() -> None:
    session = greeted()
    session.submit(verify())
    [first] = session.frames(0.0)

    session.connected()
    hello, again = session.frames(0.1)

    assert again == first
    assert isinstance(decode_request(hello)[0], Hello)


def test_no_more_is_in_flight_than_the_daemon_remembers() -> None:
    session = greeted()
    numbers = [session.submit(verify()) for _ in range(2 * OUTCOME_WINDOW)]

    sent = [request.n for request in heard(session, 0.0)]
    answer(session, VerifyReply(n=numbers[1], problems=[]))
    after_the_second = [request.n for request in heard(session, 0.0)]
    answer(session, VerifyReply(n=numbers[0], problems=[]))
    after_the_first = [request.n for request in heard(session, 0.0)]

    assert sent == numbers[:OUTCOME_WINDOW]
    assert after_the_second == []
    assert after_the_first == numbers[OUTCOME_WINDOW : OUTCOME_WINDOW + 2]


def test_a_session_without_room_can_still_say_hello() -> None:
    session = greeted()
    while session.has_room:
        session.submit(verify())
    session.frames(0.0)

    session.want(5, None)

    assert [hello.capacity for hello in hellos(session, 0.0)] == [5]


def test_hellos_never_push_an_unanswered_request_out_of_the_window() -> None:
    session = greeted(capacity=1)
    n = session.submit(verify())

    for second in range(10_000):
        for request in heard(session, float(second)):
            assert request.n < n + OUTCOME_WINDOW


def test_a_daemon_that_is_unwell_is_asked_again() -> None:
    session = greeted()
    n = session.submit(verify())
    [first] = session.frames(0.0)

    error = ErrorReply(n=n, code="unavailable", reason="the store is unwell")

    assert answer(session, error) == Refused(error)
    assert session.next_at() == 1.0
    assert session.frames(1.0) == [first]


def test_a_daemon_that_stays_unwell_is_asked_again_every_five_seconds() -> None:
    session = greeted()
    n = session.submit(verify())
    waited: list[float] = []
    for _ in range(6):
        before = session.next_at() if waited else 0.0
        session.frames(before)
        answer(session, ErrorReply(n=n, code="unavailable", reason="disk"), now=before)
        waited.append(session.next_at() - before)

    assert waited == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


def test_a_refusal_is_an_answer() -> None:
    session = greeted()
    n = session.submit(verify())
    error = ErrorReply(n=n, code="malformed", reason="x")

    assert answer(session, error) == Answered(n, error)


def test_a_refused_hello_is_an_event_of_its_own() -> None:
    session = ClientSession("s")
    [hello] = hellos(session, 0.0)
    error = ErrorReply(n=hello.n, code="version", reason="x")

    assert answer(session, error) == Refused(error)


def session_with_others() -> ClientSession:
    """Make a session whose first hello was answered at 0, and which may go on in the sessions s1, s2, …"""
    numbers = count(1)
    session = ClientSession("s", "me", lambda: f"s{next(numbers)}")
    session.want(1, None)
    welcome(session, hellos(session, 0.0)[0].n, 0.0)
    return session


def refusal(n: int, code: str = "too-old") -> ErrorReply:
    return ErrorReply(n=n, code=code, reason="another client")


@pytest.mark.parametrize("code", ["too-old", "too-far"])
def test_a_fetcher_whose_hello_is_too_old_goes_on_in_another_session(code: str) -> None:
    session = session_with_others()
    select(session, 1, 11)
    session.say_hello()
    (old,) = hellos(session, 1.0)

    assert isinstance(answer(session, refusal(old.n, code), 1.0), Renewed)

    assert hellos(session, 1.5) == []
    (new,) = hellos(session, 2.0)
    assert (old.session, new.session, new.n) == ("s", "s1", old.n + 1)
    assert (new.capacity, new.seen, new.holds) == (1, 0, [11])
    assert isinstance(select(session, 1, 12), HandedOut)


def test_sessions_that_are_all_in_company_are_left_ever_more_slowly() -> None:
    session, now, times = session_with_others(), 10.0, []
    session.say_hello()
    for _ in range(5):
        now = max(now, session.next_at())
        times.append(now)
        answer(session, refusal(hellos(session, now)[0].n), now)

    assert [after - before for before, after in pairwise(times)] == [1, 2, 4, 5]


@pytest.mark.parametrize("code", ["too-old", "too-far"])
def test_a_request_that_is_too_old_is_refused_once_and_later_ones_go_to_another_session(code: str) -> None:
    session = session_with_others()
    first, second = session.submit(verify()), session.submit(verify())
    heard(session, 1.0)

    assert answer(session, refusal(first, code), 1.0) == Answered(first, refusal(first, code))
    assert answer(session, refusal(second, code), 1.0) == Answered(second, refusal(second, code))

    session.submit(verify())
    assert {(request.session, request.n) for request in heard(session, 1.0)} == {("s1", second + 1), ("s1", second + 2)}


def not_yours(n: int) -> ErrorReply:
    return ErrorReply(n=n, code="not-yours", reason="session: it belongs to the owner of another key")


def moved(session: ClientSession, now: float) -> list[tuple[str, int]]:
    """Return session and number of what is sent now, hellos left out."""
    return [(each.session, each.n) for each in heard(session, now) if not isinstance(each, Hello)]


def pause() -> ProjectDo:
    return ProjectDo(project="p", action="pause")


def test_each_request_of_a_session_of_another_key_goes_to_a_new_one_under_its_number_once_it_is_refused() -> None:
    session = session_with_others()
    first, second, third = session.submit(done(11)), session.submit(pause()), session.submit(ProjectWait(project="p"))
    heard(session, 1.0)

    assert answer(session, not_yours(second), 1.0) == Renewed(not_yours(second))
    assert moved(session, 1.0) == [("s1", second)]
    assert answer(session, not_yours(first), 1.0) is None
    assert answer(session, not_yours(third), 1.0) is None
    assert moved(session, 1.0) == [("s1", first), ("s1", third)]
    assert answer(session, DoneReply(n=first, outcomes=["done"])) == Answered(
        first, DoneReply(n=first, outcomes=["done"])
    )


def test_a_change_that_an_earlier_key_may_have_made_is_not_repeated_and_its_caller_is_told_so() -> None:
    session = session_with_others()
    change, push = session.submit(pause()), session.submit(NewTasks(project="p", tasks=[NewTask("a", "http://a/")]))
    heard(session, 1.0)
    session.connected()
    heard(session, 2.0)

    told = answer(session, not_yours(change), 2.0)
    assert isinstance(told, Answered)
    assert isinstance(told.reply, ErrorReply)
    assert (told.reply.code, "may have been done" in told.reply.reason) == ("not-yours", True)
    answer(session, not_yours(push), 2.0)
    assert moved(session, 2.0) == [("s1", push)]


def test_a_second_refusal_of_what_was_sent_twice_leaves_it_in_the_new_session() -> None:
    session = session_with_others()
    push = session.submit(NewTasks(project="p", tasks=[NewTask("a", "http://a/")]))
    heard(session, 1.0)
    session.connected()
    heard(session, 2.0)
    for _ in range(2):
        answer(session, not_yours(push), 2.0)

    assert moved(session, 2.0) == [("s1", push)]
    session.connected()
    heard(session, 3.0)
    answer(session, not_yours(push), 3.0)
    assert moved(session, 3.0) == [("s2", push)]


def test_a_fetcher_with_another_key_states_what_it_holds_as_running_in_a_new_session() -> None:
    session = session_with_others()
    select(session, 1, 11, 12)
    session.start(11)
    session.say_hello()
    (old,) = hellos(session, 1.0)

    assert isinstance(answer(session, not_yours(old.n), 1.0), Renewed)

    (new,) = hellos(session, 2.0)
    assert (new.session, new.seen, new.holds, sorted(new.running)) == ("s1", 0, [], [11, 12])
    told = welcome(session, new.n, 2.0)
    assert isinstance(told, Welcomed)
    assert told.ended == []
    assert session.holds(11)
    assert session.holds(12)
    session.submit(done(11))
    (report,) = heard(session, 2.0)
    answer(session, DoneReply(n=report.n, outcomes=["done"]))
    assert not session.holds(11)
    select(session, 1, 13)
    session.say_hello()
    (next_one,) = hellos(session, 3.0)
    assert (next_one.holds, sorted(next_one.running)) == ([13], [11, 12])


def test_what_a_former_session_held_has_ended_when_the_daemon_finds_that_session_silent() -> None:
    session = session_with_others()
    select(session, 1, 11)
    session.say_hello()
    answer(session, not_yours(hellos(session, 1.0)[0].n), 1.0)
    for now, ended in ((60.0, []), (62.0, [11])):
        session.say_hello()
        told = welcome(session, hellos(session, now)[0].n, now)
        assert isinstance(told, Welcomed)
        assert told.ended == ended

    assert session.is_idle


def test_a_request_in_a_session_that_others_may_repeat_is_refused_if_it_is_not_yours() -> None:
    session = session_with_others()
    n = session.submit_known(verify(), "shared", FOREIGN_NUMBERS)

    assert answer(session, not_yours(n)) == Answered(n, not_yours(n))
    assert session.id == "s"


def test_a_client_with_a_single_session_is_told_that_it_is_not_its_own() -> None:
    session = greeted()
    n = session.submit(verify())
    heard(session, 1.0)

    assert answer(session, not_yours(n), 1.0) == Answered(n, not_yours(n))


def test_a_refusal_of_an_older_hello_means_nothing() -> None:
    session = session_with_others()
    session.say_hello()
    (late,) = hellos(session, 1.0)
    session.say_hello()
    (newest,) = hellos(session, 1.0)

    assert answer(session, refusal(late.n), 1.0) is None
    welcome(session, newest.n, 1.0)

    assert session.id == "s"


def test_a_hello_to_a_daemon_that_is_unwell_is_followed_by_another_soon() -> None:
    session = ClientSession("s")
    [hello] = hellos(session, 0.0)

    answer(session, ErrorReply(n=hello.n, code="unavailable", reason="x"))

    assert session.next_at() == 1.0


def test_what_the_daemon_would_not_take_is_not_sent_and_takes_no_number() -> None:
    session = ClientSession("s")
    [hello] = hellos(session, 0.0)
    welcome(session, hello.n, 0.0, limit=1000)
    large = NewTasks(project="p", tasks=[NewTask("t", "x" * 1000)])

    with pytest.raises(MessageTooLarge, match="1000"):
        session.submit(large)

    assert session.submit(verify()) == hello.n + 1


@pytest.mark.parametrize("frame", [b"", b"\xc1", encode(verify()), b"\x81\xa4type\xa6future"])
def test_an_unreadable_frame_changes_nothing(frame: bytes) -> None:
    session = greeted(capacity=1)

    event = session.receive(frame, 0.0)

    assert isinstance(event, Unreadable)
    assert session.next_at() == 20.0


# ---------------------------------------------------------------------------------------- hello


def test_an_idle_producer_sleeps_for_ever() -> None:
    assert greeted().next_at() == inf


def test_a_fetcher_says_hello_each_third_of_the_fetcher_timeout() -> None:
    session = greeted(capacity=3)

    assert session.next_at() == 20.0
    assert hellos(session, 19.9) == []
    assert [hello.capacity for hello in hellos(session, 20.0)] == [3]


def test_a_changed_wish_is_said_at_once_and_an_unchanged_one_is_not() -> None:
    session = greeted(capacity=3)

    session.want(3, None)
    unchanged = hellos(session, 1.0)
    session.want(4, ["p"])
    changed = hellos(session, 1.0)

    assert unchanged == []
    assert [(hello.capacity, hello.projects) for hello in changed] == [(4, ["p"])]


def test_an_unanswered_hello_is_followed_by_a_newer_one_with_the_facts_of_then() -> None:
    session = ClientSession("s")
    [first] = hellos(session, 0.0)
    select(session, 1, 7)

    [second] = hellos(session, session.next_at())

    assert second.n > first.n
    assert (second.seen, second.holds) == (1, [7])


def test_a_wish_that_changes_before_the_welcome_is_still_said() -> None:
    session = ClientSession("s")
    [first] = hellos(session, 0.0)
    session.want(2, None)

    welcome(session, first.n, 0.0)

    assert [hello.capacity for hello in hellos(session, 0.0)] == [2]


def test_a_new_epoch_shows_that_the_scheduler_was_restarted() -> None:
    session = ClientSession("s")
    [hello] = hellos(session, 0.0)

    events = [welcome(session, hello.n, 0.0, epoch=epoch) for epoch in (4, 4, 5)]

    assert [event.restarted for event in events if isinstance(event, Welcomed)] == [False, False, True]


# ---------------------------------------------------------------------------------------- tasks


def test_the_next_select_is_taken_and_a_repeat_of_it_is_not() -> None:
    session = greeted(capacity=3)

    first = select(session, 1, 7)
    repeated = select(session, 1, 7)
    second = select(session, 2, 8)

    assert isinstance(first, HandedOut)
    assert [task.token for task in first.tasks] == [7]
    assert repeated is None
    assert isinstance(second, HandedOut)
    assert session.seen == 2


def test_a_gap_is_reported_once_and_what_comes_after_it_is_not_taken() -> None:
    session = greeted(capacity=9)
    select(session, 1, 7)

    events = [select(session, 3, 9), select(session, 4, 10)]
    [hello] = hellos(session, 0.0)

    assert events == [Gap(2, 3), None]
    assert (hello.seen, hello.holds) == (1, [7])


def test_after_a_gap_is_filled_a_later_one_is_reported_again() -> None:
    session = greeted(capacity=9)
    select(session, 2, 8)
    hellos(session, 0.0)

    filled = [select(session, 1), select(session, 2, 8)]
    later = select(session, 9, 9)

    assert [isinstance(event, HandedOut) for event in filled] == [True, True]
    assert later == Gap(3, 9)
    assert hellos(session, 0.0)[0].seen == 2


def test_a_task_is_held_until_the_answer_about_it_has_come() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    n = session.submit(done(7))
    session.connected()
    [meanwhile] = hellos(session, 0.0)

    answer(session, DoneReply(n=n, outcomes=["done"]))
    session.connected()
    [afterwards] = hellos(session, 0.0)

    assert meanwhile.holds == [7, 8]
    assert afterwards.holds == [8]


def test_a_stale_task_is_held_no_more_and_a_rejected_report_changes_nothing() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    n = session.submit(done(7, 8))

    answer(session, DoneReply(n=n, outcomes=["stale", "rejected"]))

    assert (session.holds(7), session.holds(8)) == (False, True)


def test_a_task_is_held_after_a_part_of_its_report_unless_that_is_stale() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    n = session.submit(done(7, 8))

    answer(session, DoneReply(n=n, outcomes=["kept", "stale"]))

    assert (session.holds(7), session.holds(8)) == (True, False)


def test_a_released_task_is_held_no_more() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    n = session.submit(Release(leases=[LeaseRef("p", "t7", 7)]))

    answer(session, TokensReply(n=n, counted=1))

    assert (session.holds(7), session.holds(8)) == (False, True)


def test_a_report_that_nobody_waits_for_leaves_the_task_held() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7)

    session.forget(session.submit(done(7)))

    assert session.holds(7)


def test_a_refused_report_leaves_the_task_held() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7)
    n = session.submit(done(7))

    answer(session, ErrorReply(n=n, code="malformed", reason="x"))

    assert session.holds(7)


def test_what_a_welcome_says_has_ended_is_held_no_more() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    session.connected()
    [hello] = hellos(session, 1.0)
    welcome(session, hello.n, 1.0, ended=[7])

    assert (session.holds(7), session.holds(8)) == (False, True)
    assert hellos(session, 1.0)[0].holds == [8]


def test_an_older_welcome_ends_nothing() -> None:
    session = greeted(capacity=3)
    session.connected()
    [older] = hellos(session, 1.0)
    select(session, 1, 7, now=1.0)
    session.connected()
    [_] = hellos(session, 1.0)
    welcome(session, older.n, 1.0, ended=[7])

    assert session.holds(7)


def test_what_somebody_works_on_is_said_to_be_running_after_its_lease_has_ended() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    session.start(7)
    session.connected()
    [hello] = hellos(session, 1.0)
    welcome(session, hello.n, 1.0, ended=[7])
    session.connected()

    [later] = hellos(session, 2.0)
    assert (hello.running, later.holds, later.running) == ([7], [8], [7])


def test_that_nobody_works_any_more_on_what_has_ended_is_said_at_once() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    session.start(7)
    session.start(8)
    session.connected()
    welcome(session, hellos(session, 1.0)[0].n, 1.0, ended=[7])

    session.stop(8)
    assert hellos(session, 2.0) == []
    session.stop(7)
    assert [hello.running for hello in hellos(session, 2.0)] == [[]]


def test_a_task_that_was_passed_on_is_held_and_said_to_be_passed_on_until_it_has_ended() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7)
    session.start(7)
    session.pass_on(7)

    [hello] = hellos(session, 1.0)
    assert (hello.holds, hello.running, hello.passed) == ([7], [], [7])
    welcome(session, hello.n, 1.0, ended=[7])
    assert hellos(session, 1.0) == []
    session.say_hello()
    [later] = hellos(session, 1.0)
    assert (later.holds, later.passed) == ([], [])


def test_what_was_passed_on_is_left_to_others_at_the_end() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7, 8)
    session.pass_on(7)

    session.leave()

    [hello] = hellos(session, 1.0)
    assert (hello.capacity, hello.holds, hello.passed) == (0, [7], [7])


def test_how_many_tasks_run_at_once_is_said() -> None:
    session = greeted(capacity=3)
    session.want(3, None, 2)

    assert [hello.slots for hello in hellos(session, 1.0)] == [2]


def test_who_still_holds_tasks_goes_on_saying_hello_without_wanting_more() -> None:
    session = greeted(capacity=1)
    select(session, 1, 7)
    session.want(0, None)
    [hello] = hellos(session, 1.0)
    welcome(session, hello.n, 1.0)

    assert session.next_at() == 21.0


def test_tasks_that_come_after_the_last_wish_are_kept_alive_too() -> None:
    session = greeted()
    select(session, 1, 7, now=5.0)

    assert session.next_at() == 25.0


def test_leaving_gives_everything_back() -> None:
    session = greeted(capacity=3)
    select(session, 1, 7)

    session.leave()
    [hello] = hellos(session, 0.0)

    assert (hello.capacity, hello.holds, hello.seen) == (0, [], 1)


def test_an_answer_to_new_tasks_comes_back_whole() -> None:
    session = greeted()
    n = session.submit(NewTasks(project="p", tasks=[NewTask("t", "http://a/")]))

    event = answer(session, NewTasksReply(n=n, outcomes=["merged"]))

    assert event == Answered(n, NewTasksReply(n=n, outcomes=["merged"]))


# ---------------------------------------------------------------------------------------- requests that wait


def wait(seconds: float = 30.0) -> ProjectWait:
    return ProjectWait(project="p", seconds=seconds)


@pytest.mark.parametrize("request_", [wait(), OperationShow(id=1, seconds=30.0)])
def test_what_waits_is_sent_again_only_when_its_own_seconds_are_over(request_: AnyRequest) -> None:
    session = greeted()
    session.submit(request_)
    [first] = session.frames(0.0)

    assert session.next_at() == 35.0
    assert session.frames(34.9) == []
    assert session.frames(35.0) == [first]


def test_what_waits_is_sent_again_at_once_on_a_new_connection() -> None:
    session = greeted()
    session.submit(wait())
    [first] = session.frames(0.0)

    session.connected()

    assert first in session.frames(10.0)


def test_what_waits_holds_up_neither_requests_nor_hellos() -> None:
    session = greeted()
    session.submit(wait())
    session.frames(0.0)

    for n in range(3 * OUTCOME_WINDOW):
        assert session.has_room
        number = session.submit(verify())
        assert [request.n for request in heard(session, 1.0)] == [number]
        answer(session, VerifyReply(n=number, problems=[]))
        session.want(n + 1, None)
        assert [hello.capacity for hello in hellos(session, 1.0)] == [n + 1]


def test_what_waits_is_answered_once_or_forgotten() -> None:
    session = greeted()
    first, second = session.submit(wait()), session.submit(wait())
    session.frames(0.0)
    reply = WaitReply(n=first, finished=True, unfinished=0)

    session.forget(second)

    assert answer(session, reply) == Answered(first, reply)
    assert answer(session, reply) is None
    assert answer(session, WaitReply(n=second, finished=True, unfinished=0)) is None
    assert session.next_at() == inf


def test_a_daemon_that_is_unwell_is_soon_asked_to_wait_again() -> None:
    session = greeted()
    n = session.submit(wait())
    session.frames(0.0)

    answer(session, ErrorReply(n=n, code="unavailable", reason="disk"), now=2.0)

    assert session.next_at() == 3.0


def test_what_projects_say_of_fetching_comes_with_their_tasks() -> None:
    session = greeted(capacity=1)
    fetch = {"p": Raw(b"\x80")}

    event = session.receive(encode(Select(number=1, tasks=[], fetch=fetch)), 0.0)

    assert isinstance(event, HandedOut)
    assert {name: bytes(raw) for name, raw in event.fetch.items()} == {"p": b"\x80"}


def test_a_session_that_is_asked_for_a_hello_says_one_at_once() -> None:
    session = greeted(capacity=3)

    session.receive(encode(HelloWanted(epoch=2)), 1.0)
    assert len(hellos(session, 1.0)) == 1


def told(session: ClientSession, epoch: int, now: float = 1.0) -> None:
    session.receive(encode(HelloWanted(epoch=epoch)), now)


def repeated(session: ClientSession, now: float) -> list[int]:
    """Return the numbers of the requests that are sent now, without hellos."""
    return [request.n for request in heard(session, now) if not isinstance(request, Hello)]


def test_a_hello_wanted_of_another_epoch_has_all_that_is_unanswered_repeated_at_once_and_no_other_one_does() -> None:
    session = greeted(capacity=3)
    calls = [session.submit(request) for request in (verify(), done(7), wait(60.0))]
    assert repeated(session, 0.0) == calls

    told(session, epoch=1)
    assert repeated(session, 1.0) == []
    told(session, epoch=2)
    assert repeated(session, 1.0) == calls
    told(session, epoch=2)
    welcome(session, hellos(session, 1.0)[0].n, 1.0, epoch=2)
    assert repeated(session, 1.0) == []


def test_what_the_daemon_could_not_take_is_repeated_as_soon_as_its_store_has_been_read_again() -> None:
    session = greeted()
    call = session.submit(verify())
    repeated(session, 0.0)
    answer(session, refusal(call, "unavailable"))

    told(session, epoch=2, now=0.1)

    assert repeated(session, 0.1) == [call]


def test_a_session_that_knows_no_epoch_repeats_on_any_hello_wanted_and_learns_the_epoch_by_it() -> None:
    session = ClientSession("s", "me")
    call = session.submit(verify())
    assert repeated(session, 0.0) == [call]

    told(session, epoch=5)
    assert repeated(session, 1.0) == [call]
    told(session, epoch=5)
    assert repeated(session, 1.0) == []


def test_a_welcome_of_another_epoch_has_all_repeated_too_because_a_hello_wanted_may_be_lost() -> None:
    session = greeted()
    call = session.submit(verify())
    session.say_hello()
    hello, first = heard(session, 0.0)
    assert first.n == call

    welcome(session, hello.n, 1.0, epoch=2)

    assert repeated(session, 1.0) == [call]


def test_on_a_new_connection_nothing_is_sent_twice_because_of_the_new_epoch() -> None:
    session = greeted()
    call = session.submit(verify())
    repeated(session, 0.0)

    session.connected()
    hello, again = heard(session, 1.0)
    assert again.n == call
    welcome(session, hello.n, 1.0, epoch=2)

    assert repeated(session, 1.0) == []


def test_what_is_not_sent_yet_is_not_taken_for_dropped_and_silence_counts_anew_after_a_repeat() -> None:
    session = greeted()
    call = session.submit(verify())
    told(session, epoch=2, now=0.0)
    assert repeated(session, 0.0) == [call]
    assert repeated(session, 5.0) == [call]

    told(session, epoch=3, now=6.0)

    assert repeated(session, 6.0) == [call]
    assert repeated(session, 10.9) == []
    assert repeated(session, 11.0) == [call]


def test_a_producer_has_nothing_to_state_when_the_store_was_read_again_and_a_fetcher_has() -> None:
    producer, fetcher, refused = greeted(), greeted(capacity=1), greeted()
    refused.say_hello()
    heard(refused, 0.0)

    for session in (producer, fetcher, refused):
        told(session, epoch=2)

    assert [len(hellos(session, 1.0)) for session in (producer, fetcher, refused)] == [0, 1, 1]
    told(producer, epoch=2)
    assert len(hellos(producer, 2.0)) == 1


def pause_after_a_drop(session: ClientSession, call: int, epoch: int) -> float:
    """Return the seconds after which a call is sent again that the daemon of this epoch has dropped."""
    told(session, epoch, now=100.0 * epoch)
    calls = heard(session, 100.0 * epoch)
    at = 100.0 * epoch if calls else session.next_at()
    calls = calls or heard(session, at)
    assert [each.n for each in calls] == [call]
    return at - 100.0 * epoch


def test_a_call_that_is_dropped_again_and_again_waits_longer_each_time_so_that_others_have_the_daemon() -> None:
    session = greeted()
    call = session.submit(verify())
    repeated(session, 0.0)
    pauses = [pause_after_a_drop(session, call, epoch) for epoch in range(2, 14)]

    assert pauses == [0.0, 0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_what_is_known_as_another_sessions_is_asked_in_that_one_and_its_refusal_is_nobody_elses() -> None:
    session = session_with_others()
    known = session.submit_known(verify(), "other", FOREIGN_NUMBERS + 7)

    assert [(request.session, request.n) for request in heard(session, 1.0)] == [("other", FOREIGN_NUMBERS + 7)]
    assert answer(session, refusal(known), 1.0) == Answered(known, refusal(known))
    session.submit(verify())
    assert [(request.session, request.n) for request in heard(session, 1.0)] == [("s", 2)]


def test_hellos_state_the_places_that_hang_and_for_how_long_by_now() -> None:
    session = greeted(capacity=2)
    hung = Hung(places=1, seconds=0.0, project="p", taskid="t", url="http://a/")

    session.report_hung(hung, since=4.0)
    at_once, later = hellos(session, 5.0), hellos(session, 30.0)
    session.report_hung(None)
    freed = hellos(session, 31.0)

    assert [hello.hung for hello in at_once + later] == [replace(hung, seconds=1.0), replace(hung, seconds=26.0)]
    assert [hello.hung for hello in freed] == [None]
