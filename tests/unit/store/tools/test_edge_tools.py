"""Edges between tasks in exports, imports and checks.

Stores are made by a daemon's core: a is a success, b runs, c waits for a and b, d for c, e for an unknown task.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from taskqueue.calendar import Calendar
from taskqueue.protocol.flows import FlowStage, FlowSubmit
from taskqueue.protocol.tasks import TaskRetry, TasksReply
from taskqueue.protocol.values import NewTask, TaskOf
from taskqueue.store.contract import Batch
from taskqueue.store.records import layout
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK, ExportFormat
from taskqueue.store.tools.exporter import IN_ORDER, export_lines
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import BadLine, import_lines
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import Disk, MemoryStore
from tests.unit.core.conftest import MakeWorld, World, make_world, task

__all__ = ["make_world"]


def waiting(taskid: str, *parents: str | TaskOf) -> NewTask:
    return replace(task(taskid), depends_on=parents)


def only(taskid: str, *parents: str) -> NewTask:
    return replace(waiting(taskid, *parents), on_parent_failure="only")


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    world = make_world()
    fetcher = world.fetcher(2)
    world.push("news", task("a"))
    fetcher.hello()
    fetcher.done("a")
    world.push("news", task("b"), waiting("c", "a", "b"), waiting("d", "c"), waiting("e", "unknown"))
    world.push("shop", waiting("f", TaskOf("news", "a"), TaskOf("news", "d")))
    fetcher.hello()
    return world


def exported(world: World, form: ExportFormat = JSON, projects: tuple[str, ...] = ("news", "shop")) -> list[bytes]:
    store = MemoryStore(world.disk)
    records = [record for record in project_records(store) if record.name in projects]
    return list(export_lines(store, records, IN_ORDER, form))


def imported(lines: list[bytes], form: ExportFormat = JSON, into: Disk | None = None) -> Disk:
    disk = into or Disk()
    for _ in import_lines(MemoryStore(disk), lines, "skip", boot=7.0, environment=Calendar(), form=form):
        pass
    return disk


def lived_on(world: World, disk: Disk) -> World:
    """Return the world, going on with another disk."""
    world.disk = disk
    world.restart()
    return world


def problems(disk: Disk) -> list[str]:
    return [problem.reason for problem in check(MemoryStore(disk), Findings()).problems]


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK], ids=["json", "msgpack"])
def test_edges_survive_an_export_and_an_import(world: World, form: ExportFormat) -> None:
    disk = imported(exported(world, form), form)
    assert problems(disk) == []

    world = lived_on(world, disk)
    fetcher = world.fetcher(100, name="another")
    for taskid in "bcd":
        assert list(fetcher.held) == [taskid]
        fetcher.done(taskid)
        fetcher.hello()
    assert list(fetcher.held) == ["f"]
    assert world.show("e").state == "blocked"
    world.push("news", task("unknown"))
    fetcher.hello()
    fetcher.done("unknown")
    fetcher.hello()
    assert "e" in fetcher.held


def test_what_was_not_told_yet_when_the_export_was_made_is_told_afterwards(world: World) -> None:
    fetcher = world.fetcher()
    fetcher.hello(holds=[])
    world.advance(3600)
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("b")))  # its children have not heard of it

    world = lived_on(world, imported(exported(world)))
    assert world.show("c").state == "ready"


def test_a_parent_of_a_project_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(BadLine, match='parents: there is no project "news"; import it first'):
        imported(exported(world, projects=("shop",)))


def test_what_waits_for_a_task_of_a_deleted_project_waits_on_after_an_import(world: World) -> None:
    patient = replace(waiting("patient", TaskOf("shop", "gone")), on_parent_failure="wait")
    world.push("news", patient)
    world.do("delete", "shop")
    world.settle()

    disk = imported(exported(world, projects=("news",)))
    assert problems(disk) == []
    world = lived_on(world, disk)
    world.push("shop", task("gone"))
    assert world.show("patient").state == "blocked"


def edited(*tasks: str) -> list[bytes]:
    """Make an export of the project news with these tasks, each a few fields, as an editor might."""
    lines = [f'{{"project":"news","url":"u",{each}}}' for each in tasks]
    first, last = '{"taskqueue":6,"projects":[{"name":"news"}]}', f'{{"tasks":{len(tasks)}}}'
    return [line.encode() for line in (first, *lines, last)]


def test_a_parent_that_an_export_names_twice_counts_once(world: World) -> None:
    child = '"taskid":"child","state":"blocked","parents":[["parent"],["parent",0,"news"]]'
    disk = imported(edited('"taskid":"parent","state":"ready"', child))
    assert problems(disk) == []

    world = lived_on(world, disk)
    fetcher = world.fetcher(name="another")
    fetcher.done("parent")
    fetcher.hello()
    assert "child" in fetcher.held


def test_a_task_of_an_export_that_would_wait_for_itself_is_refused() -> None:
    with pytest.raises(BadLine, match="line 2: parents: a would wait for itself"):
        imported(edited('"taskid":"a","state":"blocked","parents":[["a"]]'))


def test_a_parent_whose_project_was_deleted_has_failed_after_an_import(world: World) -> None:
    fails = '"taskid":"fails","state":"blocked","parents":[["gone",0,""]]'
    runs = '"taskid":"runs","state":"blocked","parents":[["gone",0,""]],"on_parent_failure":"run"'

    world = lived_on(world, imported(edited(fails, runs)))

    assert (world.show("fails").state, world.show("runs").state) == ("failed", "ready")
    assert problems(world.disk) == []


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK], ids=["json", "msgpack"])
def test_an_export_counts_the_flows_that_it_leaves_out_and_their_tasks_to_be_made(
    make_world: MakeWorld, form: ExportFormat
) -> None:
    world = make_world()
    for flow in ("one", "two"):
        tasks = [task(f"{flow}-{n}") for n in range(3)]
        world.turn(FlowStage(session="producer", n=world.n(), project="news", flow=flow, first=0, tasks=tasks))
    world.turn(FlowSubmit(session="producer", n=world.n(), project="news", flow="two", count=3))
    world.settle()

    news, shop = form.decode_first(exported(world, form)[0]).projects
    assert (news.flows, news.unmade, shop.flows, shop.unmade) == (2, 3, 0, 0)


def test_children_of_a_task_that_was_imported_before_them_are_satisfied_by_its_success(world: World) -> None:
    lines = exported(world)
    over = [line for line in lines if b'"state":"success"' in line or line in (lines[0], lines[-1])]
    over[-1] = b'{"tasks":1}'
    disk = imported(over)

    world = lived_on(world, imported(lines, into=disk))
    assert problems(disk) == []
    fetcher = world.fetcher(100, name="another")
    fetcher.done("b")
    fetcher.hello()
    assert "c" in fetcher.held


def test_tasks_that_run_only_after_a_failure_go_on_after_an_import(world: World) -> None:
    fetcher = world.fetcher(name="another")
    world.push("news", task("x"), task("y"), only("after", "x"), only("half", "x", "y"), only("dropped", "a"))
    world.push("news", waiting("below", "dropped"))
    fetcher.hello()
    fetcher.done("y", ok=False, retry=False)
    world.settle()
    assert [world.show(taskid).state for taskid in ("dropped", "below")] == ["cancelled", "cancelled"]

    disk = imported(exported(world))
    assert problems(disk) == []
    world = lived_on(world, disk)
    fetcher = world.fetcher(name="third")
    fetcher.done("x")
    fetcher.hello()
    assert (world.show("after").state, "half" in fetcher.held) == ("cancelled", True)
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["dropped"]))
    fetcher.hello()
    fetcher.done("dropped")
    fetcher.hello()
    assert "below" in fetcher.held


def test_a_task_whose_parents_have_succeeded_in_the_other_store_is_dropped_after_an_import(world: World) -> None:
    world.push("news", only("after", "b"))
    blocked = exported(world)
    fetcher = world.fetcher()
    world.advance(3600)
    fetcher.hello()
    fetcher.done("b")
    lines = exported(world)
    over = [line for line in lines if b'"state":"success"' in line or line in (lines[0], lines[-1])]
    over[-1] = b'{"tasks":2}'

    world = lived_on(world, imported(blocked, into=imported(over)))
    world.settle()
    assert world.show("after").state == "cancelled"
    assert problems(world.disk) == []


def test_a_sound_store_has_no_problems(world: World) -> None:
    assert problems(world.disk) == []


def damaged(world: World, batch: Batch) -> list[str]:
    store = MemoryStore(world.disk)
    store.write(store.begin(), batch)
    return problems(world.disk)


@pytest.mark.parametrize("family", [layout.PARENTS, layout.CHILDREN])
def test_an_edge_that_one_order_lacks_is_found(world: World, family: str) -> None:
    key = world.disk.families[family].keys[0]

    assert any("the edge is not among the" in reason for reason in damaged(world, Batch(deletes={family: [key]})))


def test_an_awaited_task_that_nobody_waits_for_is_found(world: World) -> None:
    batch = Batch(puts={layout.IDS: [(layout.id_key(1, "ghost"), b"\x80")]})

    assert damaged(world, batch) == ["it is awaited, but no task waits for it"]


def test_a_store_is_sound_whose_daemon_stopped_before_it_ended_the_wait_for_a_forgotten_task(
    make_world: MakeWorld,
) -> None:
    world = make_world({"keep": {"success": 60, "then": "forget"}})
    fetcher = world.fetcher(1)
    world.push("news", task("a"), waiting("b", "a"))
    world.push("news", task("b", force_update=True, delay=3600))
    fetcher.hello()
    fetcher.done("a")
    world.elapsed += 100

    awaited = layout.id_key(1, "a"), layout.AWAITED
    while awaited not in world.disk.families[layout.IDS].values.items():
        world.turn()
    assert problems(world.disk) == []
    world.settle()
    assert layout.id_key(1, "a") not in world.disk.families[layout.IDS].values


def test_a_wrong_count_of_edges_is_found(world: World) -> None:
    store = world.disk.families[layout.PARENTS]
    key = next(key for key in store.keys if b"\x01c" in key and key.endswith(b"\x01b"))
    mark = b"\x01" + store.values[key][1:]

    assert "0 of its edges are not satisfied; it counts 1" in damaged(
        world, Batch(puts={layout.PARENTS: [(key, mark)]})
    )


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK], ids=["json", "msgpack"])
def test_ticks_of_a_cron_entry_that_wait_survive_an_export_and_an_import(
    make_world: MakeWorld, form: ExportFormat
) -> None:
    world = make_world()
    tasks = {"load": {}, "sum": {"after": ["load"]}}
    world.set(cron={"night": {"every": "5m", "overlap": "wait", "tasks": tasks}})
    world.advance(700)
    assert problems(world.disk) == []

    disk = imported(exported(world, form), form)
    assert problems(disk) == []

    (entry,) = lived_on(world, disk).project().cron
    assert (entry.ran, entry.waiting, entry.skipped) == (2, 1, 0)  # the flow of the first tick is not exported
    assert problems(disk) == []
