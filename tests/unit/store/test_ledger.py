"""Kept changes are found again, on every store."""

from __future__ import annotations

from contextlib import closing
from typing import Protocol

import pytest
from msgspec import Raw
from msgspec.structs import astuple

from taskqueue.core.model.edges import (
    FAIL,
    ONLY,
    Links,
    TaskRef,  # fmt: skip
)
from taskqueue.core.model.hashes import SECRET_BYTES
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import FoundPage, ListRef, Needs, OrderRef, PageRef, SpecRef
from taskqueue.core.model.records import (
    BucketRecord,
    DroppedSession,
    KeptAttempt,
    KeptOutcome,
    OperationProgress,
    OperationRecord,
    ProjectRecord,
    SessionRecord,
    WriteSet,
)
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    CANCELLED,
    DELAYED,
    FAILED,
    LATEST_SECOND,
    NO_FLOOR,
    PROCESSING,
    PUT_OFF_MOST,
    READY,
    RETRIED_MOST,
    SUCCESS,
    Move,
    Task,
    ready_key,
    time_key,
)
from taskqueue.core.model.windows import Counters
from taskqueue.errors import Corrupt, Fenced, Unreadable
from taskqueue.protocol.fields import NIL, OUTCOME_WINDOW, Boot, Token, Wall
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.protocol.values import (
    Attempt,
    CronRecord,
    EventTotals,
    NewTask,
    PageFacts,
    PauseRecord,
    Recrawl,
    Schedule,
    TaskCounts,
    TaskFilter,
)
from taskqueue.store.contract import Batch, Store
from taskqueue.store.ledger import COMPARED_BYTES, COMPARED_MOST, Ledger
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import (
    FAMILIES,
    LAST_KEY,
    ORDERS,
    SECRET_KEY,
    decode_project,
    encode,
    encode_lease,
    encode_spec,
    error_at,
)
from tests.memory_store import Disk, MemoryStore
from tests.unit.store.conftest import Crawl
from tests.unit.store.fields import fields_of

P = 7
BODY = Raw(b"\x81\xa5fetch\xc0")
ALL = 1 << 30


class Ground(Protocol):
    """Type of the fixture ``ground``."""

    store: Store

    def open(self) -> Ledger: ...


def spec(url: str = "http://site/1", body: Raw = BODY, **schedule: int) -> Spec:
    return Spec(url, Schedule(**schedule), body)  # type: ignore[arg-type]


def ready(taskid: str, seq: int, priority: int = 0, of: Spec | None = None) -> Task:
    key = ready_key(priority, seq)
    return Task(P, taskid, READY, key, seq, priority=priority, spec=of or spec(f"http://site/{taskid}"))


def moved(task: Task, state: int, key: int, had_deferred: bool = False) -> Move:
    """Change a kept task's place; the store has it at the old one."""
    move = (task, task.state, task.key, task.seq, False, had_deferred)
    task.state, task.key = state, key
    return move


def handed_out(task: Task, deferred: NewTask | None = None) -> Move:
    task.lease = Lease("fetcher", 3, Boot(1000.5), Boot(400.25), deferred)
    task.token = Token(99)
    return moved(task, PROCESSING, task.seq)


def keep_new(ledger: Ledger, *tasks: Task) -> None:
    ledger.commit(WriteSet(moves=[(task, 0, 0, task.seq, True, False) for task in tasks]))


def find_whole(ledger: Ledger, taskid: str, project: int = P) -> Task | None:
    return ledger.find(Needs(whole=[TaskRef(project, taskid)])).tasks.get(TaskRef(project, taskid))


def order(
    ledger: Ledger, state: int, start: int = 0, limit: int = 100, limit_bytes: int = ALL
) -> tuple[list[str], bool]:
    [found] = ledger.find(Needs(orders=[OrderRef(P, state, start, limit, limit_bytes)])).orders
    return [task.taskid for task in found.tasks], found.end


def attempt(taskid: str, slot: int, error: str = "", project: int = P) -> KeptAttempt:
    return KeptAttempt(project, taskid, slot, Attempt(1e9 + slot, "failed" if error else "success", "f", 0.5, error))


def page(
    ledger: Ledger, after: str = "", limit: int = 100, *, whole: bool = False, errors: bool = False, project: int = P
) -> FoundPage:
    [found] = ledger.find(Needs(pages=[PageRef(project, after, limit, whole, errors)])).pages.values()
    return found


def taskids(found: FoundPage) -> list[str]:
    return [task.taskid for task in found.tasks]


def history(ledger: Ledger, taskid: str, project: int = P) -> dict[int, Attempt]:
    ref = TaskRef(project, taskid)
    return ledger.find(Needs(histories=[ref])).histories[ref]


def entries(store: Store) -> dict[str, int]:
    """Count the entries of each family, without the store's and the ledger's own."""
    counts = {family: len(store.scan(family, b"", b"\xff" * 8, 1000)) for family in FAMILIES if family != "meta"}
    return {family: count for family, count in counts.items() if count}


def contents(store: Store) -> list[list[tuple[bytes, bytes]]]:
    """Return all entries of each family without the secret, which no two stores share."""
    found = [store.scan(family, b"", LAST_KEY, 1000) for family in FAMILIES]
    return [[entry for entry in family if entry[0] != SECRET_KEY] for family in found]


# ------------------------------------------------------------------------------------------------ start and end


def test_a_new_store_has_nothing_and_was_not_interrupted(ground: Ground) -> None:
    loaded = ground.open().begin("boot-1")

    assert (loaded.projects, loaded.leased, loaded.sessions, loaded.next_project) == ([], [], [], 1)
    assert loaded.clean
    assert not loaded.same_boot


def test_a_store_makes_its_secret_once(ground: Ground) -> None:
    secret = ground.open().begin("boot-1").secret

    assert len(secret) == SECRET_BYTES
    assert ground.open().begin("boot-2").secret == secret


def test_each_store_has_a_secret_of_its_own() -> None:
    secrets = {Ledger(MemoryStore(Disk())).begin("boot-1").secret for _ in range(2)}

    assert len(secrets) == 2


def test_the_secret_is_safe_from_a_power_cut_before_anything_was_said() -> None:
    disk = Disk()
    secret = Ledger(MemoryStore(disk)).begin("boot-1").secret
    disk.power_cut()

    assert Ledger(MemoryStore(disk)).begin("boot-2").secret == secret


def test_a_secret_that_is_none_is_made_anew(ground: Ground) -> None:
    ground.store.write(ground.store.begin(), Batch(puts={META: [(SECRET_KEY, b"x" * 99)]}))

    assert len(ground.open().begin("boot-1").secret) == SECRET_BYTES


def test_drained_names_are_all_kept_anew_and_an_older_store_has_none(ground: Ground) -> None:
    assert ground.open().begin("boot-1").drained == []

    for names in (["web1", "wéb2"], ["wéb2"], []):
        ledger = ground.open()
        ledger.begin("boot-1")
        ledger.commit(WriteSet(drained=names))
        assert ground.open().begin("boot-1").drained == names


def test_a_crash_is_told_from_an_orderly_end(ground: Ground) -> None:
    ground.open().begin("boot-1")
    crashed = ground.open()
    assert not crashed.begin("boot-1").clean
    crashed.stop()

    assert ground.open().begin("boot-1").clean


def test_an_orderly_end_is_known_after_a_power_cut() -> None:
    disk = Disk()
    ledger = Ledger(MemoryStore(disk))
    ledger.begin("boot-1")
    ledger.stop()

    disk.power_cut()

    assert Ledger(MemoryStore(disk)).begin("boot-2").clean


def test_another_run_of_the_machine_is_told_from_the_same(ground: Ground) -> None:
    first = ground.open()
    first.begin("boot-1")
    first.commit(WriteSet(next_project=2))

    assert ground.open().begin("boot-1").same_boot
    assert not ground.open().begin("boot-2").same_boot


def test_times_are_of_another_boot_until_something_is_kept_in_this_one(ground: Ground) -> None:
    first = ground.open()
    first.begin("boot-1")
    first.commit(WriteSet(next_project=2))
    second = ground.open()
    second.begin("boot-2")

    third = ground.open()
    assert not third.begin("boot-2").same_boot
    third.commit(WriteSet(next_project=3))

    assert ground.open().begin("boot-2").same_boot


def test_each_start_has_a_greater_epoch_and_fences_the_one_before(ground: Ground) -> None:
    older = ground.open()
    first = older.begin("boot-1").epoch
    second = Ledger(ground.store).begin("boot-1").epoch

    assert second > first
    with pytest.raises(Fenced):
        keep_new(older, ready("a", 1))


def test_nothing_changed_is_nothing_written(ground: Ground) -> None:
    ledger = ground.open()
    ledger.begin("boot-1")
    Ledger(ground.store).begin("boot-1")

    ledger.commit(WriteSet())  # fenced, so that any write would raise


# ------------------------------------------------------------------------------------------------ tasks


def test_a_task_is_found_as_it_was_kept(ledger: Ledger) -> None:
    task = Task(
        P, "täsk", DELAYED, time_key(1.7e9, 5), 5, priority=-3, exetime=1.7e9, token=Token(2**63), retried=2,
        lastcrawltime=1.6e9, held_back=True, timed_out=True, apart=True, attempts=9, itag="été", job="monday",
        spec=spec("http://site/ü", retries=5, age=60),
    )  # fmt: skip
    keep_new(ledger, task)

    found = find_whole(ledger, "täsk")

    assert found is not None
    assert fields_of(found.spec) == fields_of(task.spec)
    apart = ("spec", "size", "spec_changed", "kept_state", "kept_key")
    for name, value in fields_of(task).items():
        assert name in apart or getattr(found, name) == value, name
    assert (found.kept_state, found.kept_key) == (DELAYED, task.key)


@pytest.mark.parametrize("times", [0, 1, 506, PUT_OFF_MOST])
@pytest.mark.parametrize("slot", [0, 7])
@pytest.mark.parametrize("links", [None, Links(True, 9, 2, FAIL, 3), Links(False, 9, 0, ONLY, 0, True, True)])
@pytest.mark.parametrize("pushed_at", [0, 1_700_000_000, LATEST_SECOND])
@pytest.mark.parametrize(("itag", "job"), [("été", ""), ("", "monday"), ("été", "monday")])
def test_what_some_tasks_have_alone_is_kept_beside_all_else(
    ledger: Ledger, times: int, slot: int, links: Links | None, pushed_at: int, itag: str, job: str
) -> None:
    task = ready("a", 1)
    task.pushed_at = pushed_at
    task.put_off, task.retried, task.crashes, task.itag, task.job = times, RETRIED_MOST, 15, itag, job
    task.slot, task.throttled, task.links, task.has_result = slot, 3 if slot else 0, links, True
    keep_new(ledger, task)

    found = find_whole(ledger, "a")

    assert found is not None
    for name in (
        "pushed_at",
        "put_off",
        "retried",
        "crashes",
        "itag",
        "job",
        "slot",
        "throttled",
        "has_result",
        "state",
        "key",
    ):
        assert getattr(found, name) == getattr(task, name), name
    assert found.links == links


@pytest.mark.parametrize("flag", ["held_back", "timed_out", "apart"])
def test_each_flag_is_kept_by_itself(ledger: Ledger, flag: str) -> None:
    task = ready("a", 1)
    setattr(task, flag, True)
    keep_new(ledger, task)

    found = find_whole(ledger, "a")

    assert found is not None
    assert [name for name in ("held_back", "timed_out", "apart") if getattr(found, name)] == [flag]
    assert found.attempts == 0


@pytest.mark.parametrize("attempts", range(ATTEMPTS_KEPT))
def test_the_number_of_attempts_is_kept_beside_the_flags(ledger: Ledger, attempts: int) -> None:
    task = ready("a", 1)
    task.attempts = attempts
    keep_new(ledger, task)

    found = find_whole(ledger, "a")

    assert found is not None
    assert (found.attempts, found.held_back, found.timed_out, found.apart) == (attempts, False, False, False)


@pytest.mark.parametrize("depth", [0, 1, 70_000])
def test_the_depth_of_a_task_is_kept(ledger: Ledger, depth: int) -> None:
    keep_new(ledger, ready("a", 1, of=Spec("http://site/a", Schedule(), BODY, depth)))

    assert ledger.find(Needs(specs=[SpecRef(P, 1)])).specs[SpecRef(P, 1)].depth == depth


@pytest.mark.parametrize("depth", [0, 3])
def test_what_is_known_of_a_page_is_kept(ledger: Ledger, depth: int) -> None:
    page = PageFacts(3600.5, '"1"', "Tue, 14 Nov 2023 22:13:20 GMT", "d2e3")
    keep_new(ledger, ready("a", 1, of=Spec("http://site/a", Schedule(recrawl=Recrawl(1, 9)), BODY, depth, page)))

    found = ledger.find(Needs(specs=[SpecRef(P, 1)])).specs[SpecRef(P, 1)]
    assert (found.depth, found.page, found.schedule.recrawl) == (depth, page, Recrawl(1, 9))


def test_what_is_usually_nothing_takes_no_room() -> None:
    assert encode_spec("a", spec()) == encode(("a", "http://site/1", Schedule(), BODY))
    assert encode_lease(b"r", "a", Lease("s", 3, Boot(2.5), Boot(1.5))) == encode((b"r", "a", "s", 3, 2.5, 1.5))


def test_a_task_asked_for_by_taskid_comes_without_its_spec(ledger: Ledger) -> None:
    keep_new(ledger, ready("a", 1))

    found = ledger.find(Needs(tasks=[TaskRef(P, "a"), TaskRef(P, "b"), TaskRef(P + 1, "a")]))

    assert list(found.tasks) == [TaskRef(P, "a")]
    assert found.tasks[TaskRef(P, "a")].spec is None


def test_a_body_comes_back_byte_for_byte(ledger: Ledger) -> None:
    body = Raw(b"\xcd\x00\x05")  # not the shortest form of 5
    keep_new(ledger, ready("a", 1, of=spec(body=body)))

    found = ledger.find(Needs(specs=[SpecRef(P, 1), SpecRef(P, 2)])).specs

    assert list(found) == [SpecRef(P, 1)]
    assert bytes(found[SpecRef(P, 1)].body) == b"\xcd\x00\x05"


def test_a_move_leaves_one_place_and_the_spec(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)

    ledger.commit(WriteSet(moves=[moved(task, DELAYED, time_key(50, 1))]))

    assert order(ledger, READY) == ([], True)
    assert order(ledger, DELAYED) == (["a"], True)
    assert entries(ground.store) == {"ids": 1, "specs": 1, "delayed": 1}


def test_a_task_that_stays_in_its_place_is_written_over(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    task.retried = 4

    ledger.commit(WriteSet(moves=[moved(task, READY, task.key)]))

    [found] = ledger.find(Needs(orders=[OrderRef(P, READY, 0, 10, ALL)])).orders[0].tasks
    assert found.retried == 4
    assert entries(ground.store) == {"ids": 1, "specs": 1, "ready": 1}


@pytest.mark.parametrize("state", [SUCCESS, FAILED, CANCELLED])
def test_a_task_that_is_over_is_known_listed_and_keeps_its_spec(ground: Ground, ledger: Ledger, state: int) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    ledger.commit(WriteSet(moves=[handed_out(task)]))
    task.lease = None

    ledger.commit(WriteSet(moves=[moved(task, state, time_key(60, 1))]))

    found = find_whole(ledger, "a")
    assert found is not None
    assert (found.state, found.key) == (state, time_key(60, 1))
    assert fields_of(found.spec) == fields_of(task.spec)
    assert order(ledger, state) == (["a"], True)
    assert sum(entries(ground.store).values()) == 3


def test_a_restarted_task_has_its_new_spec_and_its_history(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    ledger.commit(WriteSet(moves=[moved(task, FAILED, time_key(60, 1))], attempts=[attempt("a", 0, "404")]))

    task.state, task.seq, task.key, task.spec = READY, 2, ready_key(0, 2), spec("http://site/new")
    ledger.commit(WriteSet(moves=[(task, FAILED, time_key(60, 1), 1, True, False)]))

    found = ledger.find(Needs(whole=[TaskRef(P, "a")]))
    assert fields_of(found.tasks[TaskRef(P, "a")].spec) == fields_of(task.spec)
    assert history(ledger, "a")[0].error == "404"
    assert entries(ground.store) == {"ids": 1, "specs": 1, "ready": 1, "history": 1}


def test_a_task_restarted_and_handed_out_in_one_turn_is_known_by_its_new_seq(ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    ledger.commit(WriteSet(moves=[moved(task, SUCCESS, time_key(60, 1))]))

    task.seq, task.spec, task.lease = 2, spec("http://site/new"), Lease("fetcher", 1, Boot(2.0), Boot(1.0))
    task.state, task.key = PROCESSING, 2
    ledger.commit(WriteSet(moves=[(task, SUCCESS, time_key(60, 1), 1, True, False)]))

    found = find_whole(ledger, "a")
    assert found is not None
    assert fields_of(found.spec) == fields_of(task.spec)


def test_a_replaced_task_has_its_new_spec(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)

    task.spec = spec("http://site/other")
    ledger.commit(WriteSet(moves=[(task, READY, task.key, 1, True, False)]))

    found = find_whole(ledger, "a")
    assert found is not None
    assert fields_of(found.spec) == fields_of(task.spec)
    assert entries(ground.store)["specs"] == 1


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (Task(P, "a", READY, ready_key(0, 1), 1), "without its spec"),
        (Task(P, "a", PROCESSING, 1, 1, spec=spec()), "without a lease"),
        (Task(P, "a", READY, ready_key(0, 2), 1, spec=spec()), "does not end with its seq"),
    ],
)
def test_a_task_that_can_not_be_read_again_is_not_written(ledger: Ledger, task: Task, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        keep_new(ledger, ready("b", 9), task)

    assert find_whole(ledger, "b") is None


# ------------------------------------------------------------------------------------------------ orders


def test_ready_tasks_come_by_priority_then_first_in_first_out(ledger: Ledger) -> None:
    keep_new(ledger, ready("c", 3), ready("low", 4, -5), ready("a", 1), ready("high", 5, 9), ready("b", 2))

    assert order(ledger, READY) == (["high", "a", "b", "c", "low"], True)


def test_delayed_tasks_come_by_time_then_first_in_first_out(ledger: Ledger) -> None:
    at = {"late": (90.5, 1), "b": (20, 4), "a": (20, 3), "soon": (3.25, 9)}
    keep_new(
        ledger,
        *(Task(P, taskid, DELAYED, time_key(*place), place[1], spec=spec()) for taskid, place in at.items()),
    )

    assert order(ledger, DELAYED) == (["soon", "a", "b", "late"], True)


@pytest.mark.parametrize(
    ("limit", "found", "end"), [(1, 1, False), (2, 2, False), (3, 3, True), (4, 3, True), (0, 0, False)]
)
def test_an_order_ends_exactly_where_nothing_follows(ledger: Ledger, limit: int, found: int, end: bool) -> None:
    keep_new(ledger, *(ready(str(seq), seq) for seq in range(3)))

    assert order(ledger, READY, limit=limit) == ([str(seq) for seq in range(found)], end)


def test_an_order_is_read_on_from_a_start(ledger: Ledger) -> None:
    keep_new(ledger, *(ready(str(seq), seq) for seq in range(5)))

    assert order(ledger, READY, start=ready_key(0, 3)) == (["3", "4"], True)
    assert order(ledger, READY, start=ready_key(0, 3) + 1) == (["4"], True)
    assert order(ledger, READY, start=NO_FLOOR) == ([], True)


@pytest.mark.parametrize(("limit_bytes", "found"), [(0, 1), (1, 1), (100, 1), (101, 2), (1000, 10), (10_000, 50)])
def test_an_order_stops_at_its_bytes_but_not_before_the_first_task(
    ledger: Ledger, limit_bytes: int, found: int
) -> None:
    body = Raw(b"\xc4\x57" + b"x" * 87)  # with the url 100 bytes
    keep_new(ledger, *(ready(str(seq), seq, of=spec("http://site", body)) for seq in range(50)))

    taskids, end = order(ledger, READY, limit_bytes=limit_bytes)

    assert taskids == [str(seq) for seq in range(found)]
    assert end == (found == 50)


def test_a_long_order_is_read_whole_and_in_order(ledger: Ledger) -> None:
    keep_new(ledger, *(ready(str(seq), seq, priority=seq % 3) for seq in range(3000)))

    taskids, end = order(ledger, READY, limit=5000)

    assert taskids == [str(seq) for rest in (2, 1, 0) for seq in range(rest, 3000, 3)]
    assert end


def test_an_order_has_only_its_own_project(ledger: Ledger) -> None:
    neighbours = [ready("before", 1), ready("after", 2)]
    neighbours[0].project, neighbours[1].project = P - 1, P + 1
    keep_new(ledger, *neighbours, ready("a", 3))

    assert order(ledger, READY) == (["a"], True)


def test_tasks_of_an_order_say_where_they_are_kept_and_what_they_weigh(ledger: Ledger) -> None:
    keep_new(ledger, ready("a", 1))

    [task] = ledger.find(Needs(orders=[OrderRef(P, READY, 0, 10, ALL)])).orders[0].tasks

    assert (task.kept_state, task.kept_key) == (READY, ready_key(0, 1))
    assert fields_of(task.spec) == fields_of(spec("http://site/a"))
    assert task.size > len("http://site/a") + len(BODY)


# ------------------------------------------------------------------------------------------------ histories


def test_a_history_keeps_the_last_ten_attempts(ground: Ground, ledger: Ledger) -> None:
    for n in range(13):
        ledger.commit(WriteSet(attempts=[attempt("a", n % ATTEMPTS_KEPT, f"érror {n}")]))

    found = history(ledger, "a")

    assert {slot: found[slot].error for slot in found} == {
        slot: f"érror {slot + 10 if slot < 3 else slot}" for slot in range(10)
    }
    assert found[4] == attempt("a", 4, "érror 4").attempt
    assert entries(ground.store) == {"history": 10}


def test_the_order_of_failed_tasks_has_the_error_of_the_last_attempt_of_a_turn(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    last = KeptAttempt(P, "a", 1, Attempt(1e9, "failed", "f", 0.5, "500", "a kind that the error does not show"))

    ledger.commit(WriteSet(moves=[moved(task, FAILED, time_key(60, 1))], attempts=[attempt("a", 0, "404"), last]))

    [(_, value)] = ground.store.scan(ORDERS[FAILED], b"", LAST_KEY, 10)
    assert error_at(value) is None, "only the history has one with a kind of its own"


def test_histories_of_similar_taskids_and_other_projects_are_apart(ledger: Ledger) -> None:
    refs = [(P, "a"), (P, "aa"), (P, "a\x00"), (P, "é" * 64), (P + 1, "a"), (P - 1, "a")]
    for n, (project, taskid) in enumerate(refs):
        ledger.commit(WriteSet(attempts=[attempt(taskid, n, f"{n}", project)]))

    assert [history(ledger, taskid, project).keys() for project, taskid in refs] == [{n} for n in range(len(refs))]
    assert history(ledger, "b") == {}


# ------------------------------------------------------------------------------------------------ pages


def test_pages_go_through_all_that_is_known_by_taskid(ledger: Ledger) -> None:
    over = ready("b", 2)
    keep_new(ledger, ready("c", 3), over, ready("a", 4), ready("é", 1), ready("ab", 5))
    ledger.commit(WriteSet(moves=[moved(over, SUCCESS, time_key(9, 2))]))

    first = page(ledger, limit=2)
    second = page(ledger, after="ab", limit=3)

    assert (taskids(first), first.end) == (["a", "ab"], False)
    assert (taskids(second), second.end) == (["b", "c", "é"], True)
    assert [task.state for task in second.tasks] == [SUCCESS, READY, READY]
    assert (taskids(page(ledger, after="é")), page(ledger, after="é").end) == ([], True)


def test_a_page_has_only_its_own_project(ledger: Ledger) -> None:
    neighbours = [ready("x", 1), ready("x", 2)]
    neighbours[0].project, neighbours[1].project = P - 1, P + 1
    keep_new(ledger, *neighbours, ready("a", 3))

    found = page(ledger)

    assert (taskids(found), found.end) == (["a"], True)


def test_a_page_has_specs_and_errors_only_if_they_are_wanted(ledger: Ledger) -> None:
    keep_new(ledger, ready("a", 1), ready("b", 2))
    ledger.commit(WriteSet(attempts=[attempt("a", 9, "why")]))

    bare, whole, errors = page(ledger), page(ledger, whole=True), page(ledger, errors=True)

    assert ([task.spec for task in bare.tasks], bare.attempts) == ([None, None], {})
    assert [task.spec.url for task in whole.tasks if task.spec] == ["http://site/a", "http://site/b"]
    assert {taskid: last.error for taskid, last in errors.attempts.items()} == {"a": "why"}


def test_the_error_on_a_page_is_that_of_the_last_attempt(ledger: Ledger) -> None:
    tasks = [ready("a", 1), ready("b", 2), ready("c", 3)]
    for task, attempts in zip(tasks, (0, 3, 4), strict=True):
        task.attempts = attempts
    keep_new(ledger, *tasks)
    for task in tasks:
        ledger.commit(WriteSet(attempts=[attempt(task.taskid, slot, str(slot)) for slot in range(ATTEMPTS_KEPT)]))
    ledger.commit(WriteSet(attempts=[attempt("c", 3)]))

    found = page(ledger, errors=True)
    assert {taskid: last.error for taskid, last in found.attempts.items()} == {"a": "9", "b": "2", "c": ""}


def test_a_page_of_large_bodies_is_shorter_but_has_one_task_at_least(ledger: Ledger) -> None:
    body = Raw(b"\xc6" + (600_000).to_bytes(4, "big") + bytes(600_000))
    keep_new(ledger, *(ready(str(seq), seq, of=spec(body=body)) for seq in range(5)))

    found = page(ledger, limit=4, whole=True)

    assert (taskids(found), found.end) == (["0", "1"], False)
    assert taskids(page(ledger, limit=4)) == ["0", "1", "2", "3"]
    last = page(ledger, after="3", whole=True)
    assert (taskids(last), last.end) == (["4"], True)


# ------------------------------------------------------------------------------------------------ leases


def test_leases_are_loaded_at_start_with_what_is_deferred(ground: Ground, ledger: Ledger) -> None:
    deferred = NewTask("a", "http://site/new", Schedule(force_update=True), BODY)
    tasks = [ready("a", 1), ready("b", 2, priority=8)]
    keep_new(ledger, *tasks)
    ledger.commit(WriteSet(moves=[handed_out(tasks[0], deferred), handed_out(tasks[1])]))

    a, b = ground.open().begin("boot-1").leased

    assert (a.taskid, b.taskid) == ("a", "b")
    assert fields_of(a.lease) == fields_of(Lease("fetcher", 3, Boot(1000.5), Boot(400.25), deferred))
    assert fields_of(b.lease) == fields_of(Lease("fetcher", 3, Boot(1000.5), Boot(400.25)))
    assert (b.priority, b.token, b.seq, b.spec) == (8, 99, 2, None)
    assert (b.state, b.kept_state, b.kept_key) == (PROCESSING, PROCESSING, 2)
    assert (a.kept_deferred, b.kept_deferred) == (True, False)


def test_the_check_phase_of_a_lease_is_kept(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    move = handed_out(task)
    task.lease = Lease("fetcher", 3, Boot(1000.5), Boot(400.25), check=12)

    ledger.commit(WriteSet(moves=[move]))

    [found] = ground.open().begin("boot-1").leased
    assert fields_of(found.lease) == fields_of(task.lease)


def test_many_leases_of_many_projects_are_loaded(ground: Ground, ledger: Ledger) -> None:
    tasks = [Task(seq % 5, str(seq), PROCESSING, seq, seq, spec=spec()) for seq in range(9000)]
    for task in tasks:
        task.lease = Lease("fetcher", 1, Boot(2.0), Boot(1.0))
    keep_new(ledger, *tasks)

    leased = ground.open().begin("boot-1").leased

    assert sorted(int(task.taskid) for task in leased) == list(range(9000))
    assert all(task.project == task.seq % 5 for task in leased)


def test_what_was_deferred_goes_with_its_lease(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    ledger.commit(WriteSet(moves=[handed_out(task, NewTask("a", "http://site/new"))]))
    task.lease = None

    ledger.commit(WriteSet(moves=[moved(task, READY, ready_key(0, 1), had_deferred=True)]))

    assert entries(ground.store) == {"ids": 1, "specs": 1, "ready": 1}


def test_a_later_deferred_update_takes_the_place_of_the_earlier(ground: Ground, ledger: Ledger) -> None:
    task = ready("a", 1)
    keep_new(ledger, task)
    ledger.commit(WriteSet(moves=[handed_out(task, NewTask("a", "http://site/2"))]))
    assert task.lease is not None
    task.lease.deferred = NewTask("a", "http://site/3")

    ledger.commit(WriteSet(moves=[moved(task, PROCESSING, 1, had_deferred=True)]))

    [found] = ground.open().begin("boot-1").leased
    assert found.lease is not None
    assert found.lease.deferred == NewTask("a", "http://site/3")


# ------------------------------------------------------------------------------------------------ projects, sessions


def test_projects_come_back_as_they_were(ground: Ground, ledger: Ledger) -> None:
    record = ProjectRecord(
        P, "news", "paused", {"rate": 2.5, "retry_delay": [1.0, 2.0]}, TaskCounts(ready=3), EventTotals(new=4),
        1.5, 77.25, bytes(15) + b"r", bytes(15) + b"d", PauseRecord(3, 50.5, 2, 1, "10 failures in a row"),
        cleared=2**60, unfinished=3, armed=True, finished=4, holds={"producer": 90.5},
        cron={"nightly": CronRecord(40.0, "n", 2, 1, [50.0, 60.0], "why", 30.0)},
    )  # fmt: skip
    ledger.commit(WriteSet(projects=[record, ProjectRecord(P + 1, "other")], next_project=P + 2))

    loaded = ground.open().begin("boot-1")

    assert loaded.projects == [record, ProjectRecord(P + 1, "other")]
    assert loaded.next_project == P + 2


def test_a_record_of_a_project_that_is_as_it_was_is_not_written_again(ground: Ground, ledger: Ledger) -> None:
    same, other = ProjectRecord(P, "news"), ProjectRecord(P + 1, "shop")
    assert ledger.commit(WriteSet(projects=[same, other]))

    assert not ledger.commit(WriteSet(projects=[same]))
    same.unfinished = 1
    assert ledger.commit(WriteSet(projects=[other, same]))

    assert ground.open().begin("boot").projects == [same, other]


def test_a_ledger_that_begins_again_writes_every_record(ground: Ground, ledger: Ledger) -> None:
    assert ledger.commit(WriteSet(projects=[ProjectRecord(P, "news")]))

    ledger.begin("boot")

    assert ledger.commit(WriteSet(projects=[ProjectRecord(P, "news")]))


@pytest.mark.parametrize("length", [COMPARED_BYTES // 2, COMPARED_BYTES])
def test_long_records_and_those_of_long_ago_are_not_kept_to_be_compared(ledger: Ledger, length: int) -> None:
    first = ProjectRecord(P, "n" * length)
    assert ledger.commit(WriteSet(projects=[first]))
    assert ledger.commit(WriteSet(projects=[first])) == (length == COMPARED_BYTES)

    ledger.commit(WriteSet(projects=[ProjectRecord(P + 1 + n, "") for n in range(COMPARED_MOST)]))

    assert ledger.commit(WriteSet(projects=[first]))


def test_a_project_of_an_earlier_version_has_nothing_of_what_came_later() -> None:
    record = ProjectRecord(P, "news", "paused", {"rate": 2.5}, TaskCounts(ready=3), EventTotals(new=4), 1.5, 77.25)
    written = [getattr(record, name) for name in ProjectRecord.__struct_fields__]

    found = decode_project(encode(written[:10]))

    assert found == record
    assert ProjectRecord.__struct_fields__[9] == "delayed_low"
    assert (found.pause, found.cleared, found.unfinished, found.armed, found.cron) == (PauseRecord(), 0, 0, False, {})


def test_counters_shared_buckets_and_operations_come_back_at_the_start(ground: Ground, ledger: Ledger) -> None:
    counters, totals = Counters(EventTotals()), EventTotals(new=3, failed=1)
    counters.took(2.0, Wall(1e9))
    counters.note(astuple(totals), Wall(1e9))
    buckets = [BucketRecord("site", 2.5, 70.25), BucketRecord("étoile", 0.0, 0.0)]
    view = OperationProgress(2**62, "retry", ["news"], False, known=9, seen=4, matched=2, began_at=1e9)
    view.filter = TaskFilter(url="*.html", before=5.0)
    operations = [OperationRecord(view, 2**61, 1, "taskid-5")]
    members = {2**62: [P, P + 1], 7: [P]}

    ledger.commit(WriteSet(counters={P: counters.saved()}, buckets=buckets, operations=operations, members=members))
    ledger.commit(WriteSet(members={7: []}))

    loaded = ground.open().begin("boot-1")
    assert loaded.counters == {P: counters.saved()}
    assert Counters.load(loaded.counters[P], totals, Wall(1e9)).sums(Wall(1e9)) == counters.sums(Wall(1e9))
    assert (loaded.buckets, loaded.operations) == (buckets, operations)
    assert loaded.members == {2**62: [P, P + 1]}


def test_what_was_committed_is_on_disk_as_in_memory_when_the_store_is_opened_again(stored: Crawl, crawl: Crawl) -> None:
    view = OperationProgress(2**62, "retry", ["news"], False, known=9, seen=4, matched=2, began_at=1e9)
    writes = WriteSet(
        counters={P: Counters(EventTotals(new=3)).saved()},
        buckets=[BucketRecord("étoile", 2.5, 70.25)],
        operations=[OperationRecord(view, 2**61, 1, "taskid-5")],
        members={2**62: [P, P + 1]},
        outcomes=[KeptOutcome("s", 1, NIL)],
        attempts=[attempt("a", 0, "why")],
        drained=["web1"],
    )
    for each in (stored, crawl):
        with closing(each.open()) as store:
            ledger = Ledger(store)
            ledger.begin("boot-1")
            ledger.commit(writes)

    with closing(stored.open()) as on_disk, closing(crawl.open()) as in_memory:
        kept = contents(on_disk)
        assert kept == contents(in_memory)
    assert sum(map(bool, kept)) > len(FAMILIES) / 2


def test_operations_come_back_oldest_first_without_those_that_were_dropped(ground: Ground, ledger: Ledger) -> None:
    def operation(number: int) -> OperationRecord:
        view = OperationProgress(number, "cancel", [], False, known=0, seen=0, matched=0, began_at=1.0)
        return OperationRecord(view, number)

    ledger.commit(WriteSet(operations=[operation(number) for number in (300, 2, 2**40)]))
    ledger.commit(WriteSet(dropped_operations=[2]))

    assert [record.progress.id for record in ground.open().begin("boot-1").operations] == [300, 2**40]


# ------------------------------------------------------------------------------------------------ cleared, forgotten


def test_of_a_cleared_project_what_is_live_has_no_place_and_what_is_over_stays(ground: Ground, ledger: Ledger) -> None:
    for project in (P, P + 1):
        tasks = [ready(taskid, seq) for seq, taskid in enumerate("abcd")]
        for task in tasks:
            task.project = project
        keep_new(ledger, *tasks)
        moves = [handed_out(tasks[1], NewTask("b", "http://site/new")), moved(tasks[2], SUCCESS, time_key(9, 2))]
        ledger.commit(WriteSet(moves=[*moves, moved(tasks[3], DELAYED, time_key(9, 3))]))

    fresh = ready("new", 9)
    ledger.commit(WriteSet(cleared=[P], moves=[(fresh, 0, 0, 9, True, False)]))

    assert [order(ledger, state)[0] for state in (READY, DELAYED, SUCCESS)] == [["new"], [], ["c"]]
    assert {task.project for task in ground.open().begin("boot-1").leased} == {P + 1}
    assert entries(ground.store) == {
        "ids": 9, "specs": 9, "ready": 2, "delayed": 1, "leases": 1, "success": 2, "deferred": 1
    }  # fmt: skip


def test_of_a_forgotten_task_nothing_is_left(ground: Ground, ledger: Ledger) -> None:
    tasks = [ready("a", 1), ready("aa", 2), ready("run", 3), ready("expired", 4)]
    tasks[2].lastcrawltime, tasks[3].attempts = 5.0, 1
    keep_new(ledger, *tasks)
    histories = [attempt(taskid, slot) for taskid in ("aa", "run", "expired") for slot in range(ATTEMPTS_KEPT)]
    ledger.commit(WriteSet(cleared=[P], attempts=histories))

    ledger.commit(WriteSet(forgotten=[task for task in tasks if task.taskid != "aa"]))

    assert taskids(page(ledger)) == ["aa"]
    assert entries(ground.store) == {"ids": 1, "specs": 1, "history": ATTEMPTS_KEPT}


def test_a_task_that_comes_anew_while_it_is_forgotten_is_known(ledger: Ledger) -> None:
    keep_new(ledger, ready("a", 1))
    ledger.commit(WriteSet(cleared=[P]))
    fresh = ready("a", 2)

    ledger.commit(WriteSet(forgotten=[ready("a", 1)], moves=[(fresh, 0, 0, 1, True, False)]))

    found = find_whole(ledger, "a")
    assert found is not None
    assert (found.seq, fields_of(found.spec)) == (2, fields_of(fresh.spec))


# ------------------------------------------------------------------------------------------------ more of projects


def test_of_a_dropped_project_nothing_is_left_and_its_neighbours_stay(ground: Ground, ledger: Ledger) -> None:
    for project in (P - 1, P, P + 1):
        tasks = [ready("a", 1), ready("b", 2), ready("c", 3)]
        for task in tasks:
            task.project = project
        keep_new(ledger, *tasks)
        moves = [handed_out(tasks[1], NewTask("b", "http://site/new")), moved(tasks[2], SUCCESS, time_key(9, 3))]
        attempts = [attempt("c", 3, "why", project)]
        counters = {project: Counters(EventTotals()).saved()}
        record = ProjectRecord(project, str(project))
        ledger.commit(WriteSet(moves=moves, attempts=attempts, projects=[record], counters=counters))
    before = entries(ground.store)

    ledger.commit(WriteSet(dropped_projects=[P]))

    assert entries(ground.store) == {family: count // 3 * 2 for family, count in before.items()}
    assert find_whole(ledger, "a", P) is None
    assert find_whole(ledger, "a", P + 1) is not None
    assert [record.number for record in ground.open().begin("boot-1").projects] == [P - 1, P + 1]


def test_outcomes_of_a_session_are_found_by_their_numbers(ledger: Ledger) -> None:
    answers = {1: Raw(encode(NewTasksReply(n=1, outcomes=["new", "merged"]))), 2: Raw(encode("of another version"))}
    ledger.commit(WriteSet(outcomes=[KeptOutcome("s", n, answer) for n, answer in answers.items()]))

    assert ledger.find(Needs(sessions=["s", "unknown"])).sessions == {"s": answers, "unknown": {}}


def test_a_session_keeps_its_last_outcomes_only(ledger: Ledger) -> None:
    last = OUTCOME_WINDOW + 5
    for n in range(1, last + 1):
        ledger.commit(WriteSet(outcomes=[KeptOutcome("s", n, NIL)]))

    found = ledger.find(Needs(sessions=["s"])).sessions["s"]

    assert sorted(found) == list(range(last - OUTCOME_WINDOW + 1, last + 1))


def test_a_dropped_session_takes_its_outcomes_along_and_no_others(ground: Ground, ledger: Ledger) -> None:
    sessions = ["s", "ss", "s\x00", "sé"]
    ledger.commit(
        WriteSet(
            sessions=[SessionRecord(session, 5.0) for session in sessions],
            outcomes=[KeptOutcome(session, n, NIL) for session in sessions for n in range(70)],
        )
    )

    ledger.commit(WriteSet(dropped_sessions=[DroppedSession("s", range(OUTCOME_WINDOW))]))

    found = ledger.find(Needs(sessions=sessions)).sessions
    assert [len(found[session]) for session in sessions] == [0, 64, 64, 64]
    assert {record.session for record in ground.open().begin("boot-1").sessions} == set(sessions[1:])


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    ("family", "needs"),
    [
        ("ids", Needs(tasks=[TaskRef(P, "a")])),
        ("specs", Needs(specs=[SpecRef(P, 1)])),
        ("ready", Needs(orders=[OrderRef(P, READY, 0, 10, ALL)])),
        ("ids", Needs(pages=[PageRef(P, "", 10, whole=False, errors=False)])),
        ("ready", Needs(lists=[ListRef(P, READY, 0, NO_FLOOR, False, 10, 10, ALL, "", "", True)])),
        ("history", Needs(histories=[TaskRef(P, "a")])),
        ("history", Needs(pages=[PageRef(P, "", 10, whole=False, errors=True)])),
        ("outcomes", Needs(sessions=["s"])),
    ],
)
def test_a_record_that_can_not_be_read_is_named(ground: Ground, family: str, needs: Needs) -> None:
    ledger = ground.open()
    epoch = ledger.begin("boot-1").epoch
    keep_new(ledger, ready("a", 1))
    outcome = KeptOutcome("s", 1, NIL)
    ledger.commit(WriteSet(attempts=[attempt("a", 9, "why")], outcomes=[outcome]))
    [(key, _)] = ground.store.scan(family, b"", b"\xff" * 8, 2)
    ground.store.write(epoch, Batch(puts={family: [(key, b"\xff")]}))

    with pytest.raises(Unreadable, match=f"family {family}, key {key.hex()}: can't be read"):
        ledger.find(needs)


@pytest.mark.parametrize(("state", "family"), [(READY, "specs"), (SUCCESS, "ids")])
def test_an_order_that_names_what_is_not_there_can_not_be_read(ground: Ground, state: int, family: str) -> None:
    ledger = ground.open()
    epoch = ledger.begin("boot-1").epoch
    task = ready("a", 1)
    task.state = state
    keep_new(ledger, task)
    ground.store.write(epoch, Batch(drops=[(family, b"", b"\xff" * 8)]))

    with pytest.raises(Unreadable, match="store: family"):
        order(ledger, state)


@pytest.mark.parametrize("family", ["leases", "projects", "sessions"])
def test_a_record_that_can_not_be_read_at_start_is_named(ground: Ground, family: str) -> None:
    epoch = ground.store.begin()
    ground.store.write(epoch, Batch(puts={family: [(b"\x00\x00\x00\x07key", b"\xff")]}))

    with pytest.raises(Unreadable, match=f"family {family}, key 000000076b6579"):
        ground.open().begin("boot-1")
