"""Description of a flow: parents first, each task once, errors at once."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.client.tasks.new_flow import FlowPlan, FlowTask, Parent
from taskqueue.protocol.values import TaskOf


def described(plan: FlowPlan, taskid: str, *after: Parent) -> FlowTask:
    return plan.add(f"http://a/{taskid}", after, taskid=taskid)


@pytest.fixture
def plan() -> FlowPlan:
    return FlowPlan("news", "nightly")


def test_tasks_stand_in_the_order_in_which_they_were_described(plan: FlowPlan) -> None:
    a, b = described(plan, "A"), described(plan, "B")
    d = described(plan, "D", a, b)

    assert [task.taskid for task in plan.tasks] == ["A", "B", "D"]
    assert d == FlowTask("news", "nightly", 2, "D")
    assert plan.tasks[2].depends_on == ("A", "B")
    assert plan.edges == 2


def test_every_parent_inside_a_flow_comes_before_its_children(plan: FlowPlan) -> None:
    tasks = [described(plan, "0")]
    for number in range(1, 50):
        tasks.append(described(plan, str(number), *tasks[number // 2 : number]))

    place = {task.taskid: index for index, task in enumerate(plan.tasks)}
    assert all(place[parent] < place[task.taskid] for task in plan.tasks for parent in task.depends_on)  # type: ignore[index]


def test_a_task_waits_for_each_of_its_parents_once(plan: FlowPlan) -> None:
    a = described(plan, "A")

    described(plan, "B", a, "A", a, ("news", "A"))

    assert plan.tasks[1].depends_on == ("A",)


def test_tasks_outside_of_the_flow_are_named_by_taskid_or_with_their_project(plan: FlowPlan) -> None:
    other = FlowPlan("shops", "weekly")

    described(plan, "B", "old", ("shops", "S"), described(other, "T"))

    assert plan.tasks[0].depends_on == ("old", TaskOf("shops", "S"), TaskOf("shops", "T"))


def test_what_else_a_task_is_to_do_is_said_as_in_a_push(plan: FlowPlan) -> None:
    plan.add("http://a/", ["A"], priority=7, on_parent_failure="wait", save={"page": 1})

    task = plan.tasks[0]
    assert (task.schedule.priority, task.on_parent_failure, task.depends_on) == (7, "wait", ("A",))
    assert bytes(task.body) == b"\x81\xa4save\x81\xa4page\x01"


def test_a_policy_is_kept_of_a_task_that_waits_for_nothing_yet(plan: FlowPlan) -> None:
    plan.add("http://a/", on_parent_failure="run")

    assert plan.tasks[0].on_parent_failure == "run"


def test_only_a_task_that_waits_for_others_runs_after_a_failure_only(plan: FlowPlan) -> None:
    a = described(plan, "A")
    plan.add("http://a/", [a], on_parent_failure="only")

    with pytest.raises(ValueError, match=r'^on_parent_failure: "only" goes with parents that may fail; name them in '):
        plan.add("http://b/", on_parent_failure="only")
    assert [task.on_parent_failure for task in plan.tasks] == ["fail", "only"]


def test_a_taskid_is_once_in_a_flow(plan: FlowPlan) -> None:
    described(plan, "A")

    with pytest.raises(ValueError, match=r"^taskid: 'A' is task 0 of this flow already$"):
        described(plan, "A")


def test_a_parent_that_comes_after_its_child_is_refused(plan: FlowPlan) -> None:
    described(plan, "B", "A")

    with pytest.raises(ValueError, match=r"^taskid: task 0 of this flow waits for 'A', so it has to come before that$"):
        described(plan, "A")


@pytest.mark.parametrize("itself", ["A", ("news", "A")], ids=str)
def test_no_task_waits_for_itself(plan: FlowPlan, itself: Parent) -> None:
    with pytest.raises(ValueError, match=r"^after: 'A' is the task itself$"):
        described(plan, "A", itself)


def test_a_mistake_leaves_the_flow_as_it_was(plan: FlowPlan) -> None:
    a = described(plan, "A")
    for wrong in ({"priority": "high"}, {"nonsense": 1}, {"depends_on": ["A"]}):
        with pytest.raises((ValueError, TypeError)):
            plan.add("http://b/", [a], **wrong)

    described(plan, "B", a)

    assert [task.taskid for task in plan.tasks] == ["A", "B"]


@pytest.mark.parametrize(
    ("after", "error"),
    [
        ("A", "after: expected several tasks, got one str; put it into a list"),
        ([7], "after: expected a task, a taskid or (project, taskid), got 7"),
        ([("shops",)], "after: expected a task, a taskid or (project, taskid), got ('shops',)"),
    ],
    ids=str,
)
def test_what_is_no_task_can_not_be_waited_for(plan: FlowPlan, after: Any, error: str) -> None:
    with pytest.raises(TypeError) as caught:
        plan.add("http://a/", after)

    assert str(caught.value) == error


def test_a_task_waits_for_a_thousand_others_at_most(plan: FlowPlan) -> None:
    tasks = [described(plan, str(number)) for number in range(1001)]
    described(plan, "enough", *tasks[:1000])

    with pytest.raises(ValueError, match=r"^after: expected at most 1000 tasks, got 1001$"):
        described(plan, "more", *tasks)
