"""Tasks that a task waits for, as its producer names them."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue import new_task
from taskqueue.client.tasks.pushes import as_new_task
from taskqueue.protocol.values import TaskOf

URL = "http://a/"


def test_a_task_waits_for_tasks_of_its_own_and_of_other_projects() -> None:
    task = new_task(URL, depends_on=["A", ("shops", "B")], on_parent_failure="run")

    assert task.depends_on == ("A", TaskOf("shops", "B"))
    assert task.on_parent_failure == "run"


def test_a_task_that_waits_for_nothing_says_nothing_of_it() -> None:
    assert new_task(URL, depends_on=[]) == new_task(URL, depends_on=None) == new_task(URL)


def test_a_map_for_push_many_says_what_it_waits_for_as_json_does() -> None:
    task = as_new_task({"url": URL, "depends_on": ["A", ["shops", "B"]]})

    assert task.depends_on == ("A", TaskOf("shops", "B"))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"depends_on": "A"}, "depends_on: expected several tasks, got one str; put it into a list"),
        ({"depends_on": ["A", ""]}, "depends_on[1]: expected str of length >= 1"),
        ({"depends_on": [("shops",)]}, "depends_on[0]: expected a taskid or (project, taskid), got ('shops',)"),
        ({"depends_on": ["é" * 65]}, "depends_on[0]: expected at most 128 bytes of utf-8"),
        ({"depends_on": [("shops", "é" * 65)]}, "depends_on[0]: expected at most 128 bytes of utf-8"),
        ({"depends_on": ["A"] * 1001}, "depends_on: expected array of length <= 1000"),
        ({"on_parent_failure": "explode"}, "on_parent_failure: 'explode' is none of fail, only, run, wait"),
        (
            {"on_parent_failure": "onyl"},
            "on_parent_failure: 'onyl' is none of fail, only, run, wait; did you mean only?",
        ),
        (
            {"on_parent_failure": "only"},
            'on_parent_failure: "only" goes with parents that may fail; name them in depends_on (after, in a flow)',
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_mistake_in_it_is_told_where_it_is_made(said: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        new_task(URL, **said)

    assert str(caught.value) == error
