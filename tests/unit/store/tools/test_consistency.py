"""A sound store passes; each way in which records, entries and specs can disagree is found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from taskqueue.core.model.edges import Links
from taskqueue.core.model.records import FlowRecord
from taskqueue.core.model.task import DELAYED, FAILED, PROCESSING, READY, STATE_NAMES, SUCCESS
from taskqueue.protocol.values import Attempt, NewTask
from taskqueue.store.contract import Batch, Family
from taskqueue.store.records import layout
from taskqueue.store.records.flows import decode_flow, encode_index, flow_key, member_key, stage_key
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import join_links
from tests.unit.store.conftest import Crawl

NEWS = 1
READIES, DELAYEDS, LEASES, SUCCESSES = (layout.ORDERS[state] for state in (READY, DELAYED, PROCESSING, SUCCESS))


def key(taskid: str) -> bytes:
    return layout.id_key(NEWS, taskid)


def spec_key(seq: int, project: int = NEWS) -> bytes:
    return layout.seq_key(project, seq)


def say(crawl: Crawl, **changes: object) -> None:
    """Change the project's record."""
    crawl.put(layout.PROJECTS, layout.project_key(NEWS), layout.encode(replace(crawl.project(), **changes)))


def test_a_sound_store_agrees_whatever_its_tasks_may_lack(crawl: Crawl) -> None:
    findings = crawl.check()

    assert [str(problem) for problem in findings.problems] == []
    assert findings.found == 0
    assert findings.tasks == 9


Damage = Callable[[Crawl], None]

DAMAGES: dict[str, tuple[Damage, str]] = {
    "a ready task without its entry": (
        lambda crawl: crawl.delete(READIES, crawl.place("ready-1")),
        "ids: project news task 'ready-1': its record says ready, but it has no entry in that order",
    ),
    "a task that is over without its entry": (
        lambda crawl: crawl.delete(layout.ORDERS[FAILED], crawl.place("failed")),
        "ids: project news task 'failed': its record says failed, but it has no entry in that order",
    ),
    "a lease that is gone": (
        lambda crawl: crawl.delete(LEASES, layout.order_key(NEWS, 104)),
        "ids: project news task 'leased': its record says ready, but it has no entry in that order",
    ),
    "an entry without its task": (
        lambda crawl: crawl.delete(layout.IDS, key("ready-2")),
        "ids: project news task 'ready-2': the task is unknown; an entry says ready",
    ),
    "a success without its task": (
        lambda crawl: crawl.delete(layout.IDS, key("ended")),
        "ids: project news task 'ended': the task is unknown; an entry says success",
    ),
    "a lease of a task that has been run and is unknown": (
        lambda crawl: crawl.put(LEASES, layout.order_key(NEWS, 105), run_before(crawl)),
        "leases: project news task 'unlisted': the task is unknown, and has been run before",
    ),
    "a waiting task without its spec": (
        lambda crawl: crawl.delete(layout.SPECS, spec_key(103)),
        "delayed: project news: its spec is missing",
    ),
    "an ended task without its spec": (
        lambda crawl: crawl.delete(layout.SPECS, spec_key(106)),
        "success: project news: its spec is missing",
    ),
    "a spec of another task": (
        lambda crawl: crawl.put(layout.SPECS, spec_key(107), crawl.get(layout.SPECS, spec_key(108))),
        "failed: project news task 'failed': its spec is that of 'cancelled'",
    ),
    "a spec of no task": (
        lambda crawl: crawl.put(layout.SPECS, spec_key(500), crawl.get(layout.SPECS, spec_key(108))),
        "specs: project news task 'cancelled': it belongs to no task",
    ),
    "a record that says another state": (
        lambda crawl: crawl.put(layout.IDS, key("cancelled"), other_state(crawl)),
        "ids: project news task 'cancelled': its record says failed; an entry says cancelled",
    ),
    "a record that differs from that in the order": (
        lambda crawl: crawl.put(READIES, crawl.place("ready-2"), crawl.get(layout.IDS, key("ready-2")) + b"itag"),
        "ids: project news task 'ready-2': its record says ready; an entry says ready",
    ),
    "an entry at another place than it says": (
        lambda crawl: crawl.put(READIES, layout.order_key(NEWS, 7), crawl.get(layout.IDS, key("ready-2"))),
        "ready: project news: its record says ready, key 00000000",
    ),
    "a task in two places": (
        lambda crawl: crawl.put(READIES, crawl.place("leased"), crawl.get(layout.IDS, key("leased"))),
        "leases: project news task 'leased': it is ready, too",
    ),
    "a bare task with an entry": (
        lambda crawl: crawl.put(SUCCESSES, crawl.place("bare"), b"bare"),
        "success: project news task 'bare': it has an entry, although it is bare",
    ),
    "a count of the project": (
        lambda crawl: say(crawl, counts=replace(crawl.project().counts, failed=7)),
        "projects: project news: there are 1 tasks failed; the project counts 7",
    ),
    "how many are unfinished": (
        lambda crawl: say(crawl, unfinished=3),
        "projects: project news: 5 tasks are unfinished; the project counts 3",
    ),
    "a task below where its order begins": (
        lambda crawl: say(crawl, ready_low=b"\xff" * 16),
        "ready: project news: it lies below the project's bound",
    ),
    "a cleared task in an order": (
        lambda crawl: say(crawl, cleared=102),
        "ready: project news task 'ready-1': the project was cleared of it",
    ),
    "a deferred update without its lease": (
        lambda crawl: crawl.put(layout.DEFERRED, spec_key(101), layout.encode(NewTask("ready-1", "http://site/"))),
        "deferred: project news task 'ready-1': it is deferred until a lease ends that is missing",
    ),
    "an attempt of an unknown task": (
        lambda crawl: crawl.put(layout.HISTORY, layout.attempt_key(NEWS, "ghost", 0), attempt()),
        "history: project news task 'ghost': an attempt of a task that is unknown or bare",
    ),
    "an attempt of a bare task": (
        lambda crawl: crawl.put(layout.HISTORY, layout.attempt_key(NEWS, "bare", 0), attempt()),
        "history: project news task 'bare': an attempt of a task that is unknown or bare",
    ),
    "an attempt at an index that there is not": (
        lambda crawl: crawl.put(layout.HISTORY, layout.attempt_key(NEWS, "failed", 12), attempt()),
        "history: project news task 'failed': index 12; there are 10",
    ),
    "a result of an unknown task": (
        lambda crawl: crawl.put(layout.RESULTS, key("ghost"), b"\xc3"),
        "results: project news: a result of a task that has none",
    ),
    "a result of a task that has none": (
        lambda crawl: crawl.put(layout.RESULTS, key("failed"), b"\xc3"),
        "results: project news: a result of a task that has none",
    ),
    "a result that is missing": (
        lambda crawl: crawl.delete(layout.RESULTS, key("ended")),
        "results: project news: 2 tasks have a result, but 1 results exist",
    ),
    "a result that can't be read": (
        lambda crawl: crawl.put(layout.RESULTS, key("ended"), b"\xc3\xc3"),
        "results: project news: can't be read (MessagePack data is malformed",
    ),
    "a task of an unknown project": (
        lambda crawl: crawl.put(layout.IDS, layout.id_key(77, "stray"), crawl.get(layout.IDS, key("ready-1"))),
        "ids: project #77: its project is unknown",
    ),
    "a spec of an unknown project": (
        lambda crawl: crawl.put(layout.SPECS, spec_key(1, 77), crawl.get(layout.SPECS, spec_key(101))),
        "specs: project #77: its project is unknown",
    ),
    "a record that can't be read": (
        lambda crawl: crawl.put(layout.IDS, key("ready-1"), b"short"),
        "ids: project news: can't be read",
    ),
    "a key that is none": (
        lambda crawl: crawl.put(layout.IDS, b"k", b"short"),
        "ids: project -: it is too short for a key",
    ),
    "counters that can't be read": (
        lambda crawl: crawl.put(layout.COUNTERS, layout.project_key(NEWS), b"\xc1"),
        "counters: project news: can't be read",
    ),
    "a change in the log that can't be read": (
        lambda crawl: crawl.put(layout.LOG, layout.log_key(1), b"\x90"),
        "log: project -: can't be read",
    ),
    "a point of the history that can't be read": (
        lambda crawl: crawl.put(layout.POINTS, layout.point_key("hour", 472_222, NEWS), b"\xa1x"),
        "points: project -: can't be read",
    ),
    "a flow that can't be read": (
        lambda crawl: crawl.put(layout.FLOWS, flow_key(1), b"\x90"),
        "flows: project -: can't be read",
    ),
    "a task of a flow that can't be read": (
        lambda crawl: crawl.put(layout.STAGES, stage_key(1, 0), b"\x90"),
        "stages: project -: can't be read",
    ),
    "an index of a flow that is none": (
        lambda crawl: crawl.put(layout.STAGE_IDS, member_key(1, "a"), b"\0"),
        "stage_ids: project -: can't be read",
    ),
    "a flow that counts too few live tasks": (
        lambda crawl: put_flow(crawl, ready=0),
        'flows: project -: flow "nightly": there are 1 tasks ready; it counts 0',
    ),
    "a flow that counts fewer tasks that are over than there are": (
        lambda crawl: put_flow(crawl, success=0),
        'flows: project -: flow "nightly": there are 1 tasks success; it counts 0',
    ),
    "a flow that does not count what is processing": (
        lambda crawl: put_flow(crawl, processing=2),
        'flows: project -: flow "nightly": there are 1 tasks processing; it counts 2',
    ),
    "a flow of which other tasks are made than it counts": (
        lambda crawl: put_flow(crawl, failed=5),
        'flows: project -: flow "nightly": it counts 8 tasks; 3 have been made',
    ),
    "a flow without a task that was staged": (
        lambda crawl: put_flow_without(crawl, layout.STAGES, stage_key(1, 1)),
        'flows: project -: flow "nightly": there are 2 stages; it has 3 tasks',
    ),
    "a flow without an index": (
        lambda crawl: put_flow_without(crawl, layout.STAGE_IDS, member_key(1, "ended")),
        'flows: project -: flow "nightly": there are 2 stage_ids; it has 3 tasks',
    ),
    "what was staged for a flow that is gone": (
        lambda crawl: put_flow_without(crawl, layout.FLOWS, flow_key(1)),
        "stages: project -: 3 of an unknown flow",
    ),
    "a project number that would be given twice": (
        lambda crawl: crawl.put(META, layout.NEXT_PROJECT_KEY, b"2"),
        "meta: project -: the next project would get number 2, but 2 is taken",
    ),
    "drained names that can't be read": (
        lambda crawl: crawl.put(META, layout.DRAINED_KEY, b"\x91\x07"),
        "meta: project -: can't be read",
    ),
    "a number of an epoch to come": (
        lambda crawl: crawl.put(layout.IDS, key("ended"), from_the_future(crawl)),
        "ids: project news task 'ended': its seq is of an epoch after",
    ),
}


def run_before(crawl: Crawl) -> bytes:
    lease = layout.decode_lease(NEWS, crawl.get(LEASES, layout.order_key(NEWS, 105)))
    assert lease.lease is not None
    record = bytearray(crawl.get(layout.IDS, key("ready-1")))
    record[1] |= 1 << layout.ATTEMPTS_SHIFT
    record[0] = PROCESSING
    record[-16:] = (105).to_bytes(16, "big")
    return layout.encode_lease(bytes(record), "unlisted", lease.lease)


def other_state(crawl: Crawl) -> bytes:
    return bytes([FAILED]) + crawl.get(layout.IDS, key("cancelled"))[1:]


def from_the_future(crawl: Crawl) -> bytes:
    record = bytearray(crawl.get(layout.IDS, key("ended")))
    record[42:50] = (99 << 44).to_bytes(8, "big")
    return bytes(record)


def attempt() -> bytes:
    return layout.encode(Attempt(1e9, "failed"))


MEMBERS = ("ready-1", "leased", "ended")


def put_flow(crawl: Crawl, **counts: int) -> None:
    """Put a flow that counts its tasks correctly, except as given."""
    record = FlowRecord(1, NEWS, "nightly", tasks=len(MEMBERS), is_accepted=True, unrolled=len(MEMBERS))
    for state, number in ({"ready": 1, "processing": 1, "success": 1} | counts).items():
        record.counts[STATE_NAMES.index(state)] = number
    crawl.put(layout.FLOWS, flow_key(1), layout.encode(record))
    crawl.put(META, layout.NEXT_FLOW_KEY, b"2")
    for index, taskid in enumerate(MEMBERS):
        staged = layout.encode(NewTask(taskid, "http://a/"))
        crawl.put(layout.STAGES, stage_key(1, index), staged)
        crawl.put(layout.STAGE_IDS, member_key(1, taskid), encode_index(index))
        tie(crawl, taskid)


def put_flow_without(crawl: Crawl, family: Family, place: bytes) -> None:
    put_flow(crawl)
    crawl.delete(family, place)


def tie(crawl: Crawl, taskid: str) -> None:
    """Make a task a member of the flow, in whichever record it has."""
    record = join_links(crawl.get(layout.IDS, key(taskid)), layout.RECORD.size, Links(flow=1))
    crawl.put(layout.IDS, key(taskid), record)
    if taskid == "ready-1":
        crawl.put(READIES, crawl.place(taskid), record)
    if taskid == "leased":
        place = layout.order_key(NEWS, 104)
        task = layout.decode_lease(NEWS, crawl.get(LEASES, place))
        assert task.lease is not None
        held = join_links(layout.encode_record(task), layout.RECORD.size, Links(flow=1))
        crawl.put(LEASES, place, layout.encode_lease(held, taskid, task.lease))


def test_a_flow_that_counts_its_tasks_agrees(crawl: Crawl) -> None:
    put_flow(crawl)

    assert [str(problem) for problem in crawl.check().problems] == []


def test_what_a_flow_counts_of_tasks_that_were_forgotten_agrees(crawl: Crawl) -> None:
    put_flow(crawl, failed=2)
    record = decode_flow(crawl.get(layout.FLOWS, flow_key(1)))
    record.unrolled = 5
    crawl.put(layout.FLOWS, flow_key(1), layout.encode(record))
    for index in (3, 4):
        crawl.put(layout.STAGES, stage_key(1, index), layout.encode(NewTask(f"x{index}", "http://a/")))
        crawl.put(layout.STAGE_IDS, member_key(1, f"x{index}"), encode_index(index))
    record.tasks = 5
    crawl.put(layout.FLOWS, flow_key(1), layout.encode(record))

    assert crawl.check().found == 0


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_agree_is_named(crawl: Crawl, name: str) -> None:
    damage, says = DAMAGES[name]
    damage(crawl)

    findings = crawl.check()

    assert any(shown(str(problem)).startswith(says) for problem in findings.problems), findings.problems
    assert findings.found == len(findings.problems)


def shown(problem: str) -> str:
    """Remove the key, which changes with the layout."""
    before, _, after = problem.partition(" (key ")
    return before + after.partition(")")[2] if after else before


def test_only_so_many_problems_are_kept_and_all_are_counted(crawl: Crawl) -> None:
    spec = crawl.get(layout.SPECS, spec_key(101))
    crawl.write(Batch(puts={layout.SPECS: [(spec_key(seq), spec) for seq in range(600, 650)]}))

    findings = crawl.check(3)

    assert findings.found == 50
    assert len(findings.problems) == 3


def test_records_that_share_an_entry_are_named_however_many_there_are(crawl: Crawl) -> None:
    record = crawl.get(layout.IDS, key("cancelled"))
    crawl.write(Batch(puts={layout.IDS: [(key(f"x{n:05}"), record) for n in range(5000)]}))

    findings = crawl.check()

    assert findings.found == 5000
    assert findings.problems[0].taskid == "x00000"
