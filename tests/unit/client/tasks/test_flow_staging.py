"""Sending of a flow: messages of bounded size, in order; a refusal names its task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from taskqueue import Client, RequestRejected, RequestTimeout
from taskqueue.client.tasks.new_flow import BATCH_TASKS, batches
from taskqueue.client.tasks.pushes import BATCH_BYTES
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello, Welcome
from taskqueue.protocol.fields import MAX_EDGES
from taskqueue.protocol.flows import Flow, FlowReply, FlowStage, FlowStaged, FlowSubmit
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import ItemError
from taskqueue.protocol.values import NewTask, TaskCounts
from tests.unit.client.conftest import Daemon, friendly


def view(tasks: int) -> Flow:
    return Flow("news", "nightly", "running", tasks, TaskCounts(), tasks, 1.0)


def accepting(request: AnyRequest) -> Iterable[AnyOutgoing]:
    match request:
        case FlowStage(n=n, first=first, tasks=tasks):
            return [FlowStaged(n=n, staged=first + len(tasks))]
        case FlowSubmit(n=n, count=count):
            return [FlowReply(n=n, flow=view(count))]
    return friendly(request)


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    daemon.script = accepting
    with Client(daemon.url) as it:
        yield it


def plain(number: int, parents: int = 0) -> NewTask:
    return NewTask(f"t{number}", f"http://a/{number}", depends_on=tuple(f"p{place}" for place in range(parents)))


def test_a_message_has_a_bounded_number_of_tasks() -> None:
    tasks = [plain(number) for number in range(2 * BATCH_TASKS + 1)]

    parts = list(batches(tasks))

    assert [len(part) for part in parts] == [BATCH_TASKS, BATCH_TASKS, 1]
    assert [task for part in parts for task in part] == tasks


def test_a_message_has_a_bounded_number_of_edges() -> None:
    tasks = [plain(number, 999) for number in range(25)]

    parts = list(batches(tasks))

    assert [len(part) for part in parts] == [10, 10, 5]
    assert all(sum(len(task.depends_on) for task in part) <= MAX_EDGES for part in parts)


def test_a_message_has_about_a_megabyte() -> None:
    tasks = [NewTask(f"t{number}", "http://a/" + "x" * 8000) for number in range(200)]

    sizes = [sum(len(task.url) for task in part) for part in batches(tasks)]

    assert len(sizes) > 1
    assert max(sizes) < BATCH_BYTES


def test_tasks_are_staged_parents_first_and_then_accepted(daemon: Daemon, client: Client) -> None:
    told: list[int] = []
    flow = client.flow("news", "nightly")
    a = flow.task("http://a/", taskid="A")
    flow.task("http://b/", after=[a], taskid="B", priority=3)

    flow.submit(reuse=True, progress=told.append)

    staged, submitted = daemon.hear(FlowStage), daemon.hear(FlowSubmit)
    assert (staged.project, staged.flow, staged.first) == ("news", "nightly", 0)
    assert [(task.taskid, task.depends_on) for task in staged.tasks] == [("A", ()), ("B", ("A",))]
    assert (submitted.project, submitted.flow, submitted.count, submitted.reuse) == ("news", "nightly", 2, True)
    assert told == [2]


def test_a_large_flow_goes_in_several_messages(daemon: Daemon, client: Client) -> None:
    flow = client.flow("news", "nightly")
    for number in range(BATCH_TASKS + 5):
        flow.task(f"http://a/{number}")

    told: list[int] = []
    assert flow.submit(progress=told.append).tasks == flow.size == BATCH_TASKS + 5

    assert [daemon.hear(FlowStage).first for _ in range(2)] == [0, BATCH_TASKS]
    assert told == [BATCH_TASKS, BATCH_TASKS + 5]


def test_a_batch_that_the_daemon_finds_too_large_goes_in_parts(daemon: Daemon, client: Client) -> None:
    def narrow(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, Hello):
            return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=2000)]
        return accepting(request)

    daemon.script = narrow
    flow = client.flow("news", "nightly")
    for number in range(4):
        flow.task(f"http://a/{number}", save="x" * 600)

    flow.submit()

    assert [daemon.hear(FlowStage).first for _ in range(2)] == [0, 2]


def test_a_task_that_the_daemon_does_not_take_is_named(daemon: Daemon, client: Client) -> None:
    def strict(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowStage):
            return [FlowStaged(n=request.n, staged=0, errors=[ItemError(1, "project: is unknown")])]
        return accepting(request)

    daemon.script = strict
    flow = client.flow("news", "nightly")
    flow.task("http://a/", taskid="A")
    flow.task("http://b/", taskid="B")

    with pytest.raises(RequestRejected, match=r"task 1 of the flow \(B\): project: is unknown"):
        flow.submit()


def test_what_refuses_a_flow_is_raised(daemon: Daemon, client: Client) -> None:
    def knowing(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowSubmit):
            return [ErrorReply(n=request.n, code="known-tasks", reason="A is known")]
        return accepting(request)

    daemon.script = knowing
    flow = client.flow("news", "nightly")
    flow.task("http://a/", taskid="A")

    with pytest.raises(RequestRejected, match="A is known"):
        flow.submit()


def test_a_submission_whose_answer_was_lost_is_said_again_and_nothing_is_staged_again(daemon: Daemon) -> None:
    def silent(request: AnyRequest) -> Iterable[AnyOutgoing]:
        return () if isinstance(request, FlowSubmit) else accepting(request)

    daemon.script = silent
    with Client(daemon.url, timeout=0.2) as client:
        flow = client.flow("news", "nightly")
        flow.task("http://a/", taskid="A")
        with pytest.raises(RequestTimeout):
            flow.submit()
        daemon.hear(FlowStage)

        daemon.script = accepted_already
        assert flow.submit().tasks == 1


def accepted_already(request: AnyRequest) -> Iterable[AnyOutgoing]:
    """Answer as a daemon that has accepted the flow."""
    if isinstance(request, FlowStage):
        return [ErrorReply(n=request.n, code="state", reason="it has been submitted already")]
    return accepting(request)


def test_what_was_dropped_since_its_submission_is_staged_again(daemon: Daemon) -> None:
    def silent(request: AnyRequest) -> Iterable[AnyOutgoing]:
        return () if isinstance(request, FlowSubmit) else accepting(request)

    staged: list[int] = []

    def forgetful(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowStage):
            staged.append(request.first)
        elif isinstance(request, FlowSubmit) and not staged:
            return [ErrorReply(n=request.n, code="unknown-flow", reason="there is none")]
        return accepting(request)

    daemon.script = silent
    with Client(daemon.url, timeout=0.2) as client:
        flow = client.flow("news", "nightly")
        flow.task("http://a/", taskid="A")
        with pytest.raises(RequestTimeout):
            flow.submit()

        daemon.script = forgetful
        assert flow.submit().tasks == 1
    assert staged == [0]


def test_another_flow_of_the_same_name_is_refused(daemon: Daemon, client: Client) -> None:
    daemon.script = accepted_already
    flow = client.flow("news", "nightly")
    flow.task("http://a/", taskid="A")

    with pytest.raises(RequestRejected, match="submitted already"):
        flow.submit()


def test_a_flow_without_tasks_is_not_sent(client: Client) -> None:
    with pytest.raises(ValueError, match=r"^flow\.submit: the flow has no tasks$"):
        client.flow("news").submit()


def test_a_flow_has_a_name_by_chance_unless_it_is_given_one(client: Client) -> None:
    names = {client.flow("news").name for _ in range(100)}

    assert len(names) == 100
    assert client.flow("news", "nightly").name == "nightly"
