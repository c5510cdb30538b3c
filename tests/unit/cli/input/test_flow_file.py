"""Flows in files: what they say, and mistakes with file, table and key."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from taskqueue.cli.input.flow_file import FlowFile, parse
from taskqueue.client.tasks.new_flow import FlowPlan
from taskqueue.protocol.values import TaskOf

SAID = """
flow = "nightly"

[defaults]
retries = 5
on_parent_failure = "wait"

[tasks.report]
url = "https://shop.example/report"
after = ["prices", "stock", {taskid = "rates"}, {project = "currencies", taskid = "EUR"}]
retries = 1
save = {page = 1}

[tasks.prices]
url = "https://shop.example/prices"

[tasks.stock]
url = "https://shop.example/stock"
taskid = "s-1"
delay = "5m"
"""


def described(file: FlowFile) -> FlowPlan:
    plan = FlowPlan("p", file.flow or "f")
    file.describe(plan.add)
    return plan


def refusal(text: str, name: str = "flow.toml") -> str:
    with pytest.raises(click.ClickException) as caught:
        described(parse(name, text))
    return caught.value.message


def test_a_file_says_a_flow_with_its_tasks_in_any_order() -> None:
    file = parse("flow.toml", SAID)
    plan = described(file)

    assert file.flow == "nightly"
    assert [task.taskid for task in plan.tasks] == ["prices", "s-1", "report"]
    report = plan.tasks[2]
    assert report.depends_on == ("prices", "s-1", "rates", TaskOf("currencies", "EUR"))
    assert (report.schedule.retries, report.on_parent_failure) == (1, "wait")
    assert bytes(report.body) == b"\x81\xa4save\x81\xa4page\x01"
    assert (plan.tasks[1].schedule.delay, plan.tasks[1].schedule.retries) == (300.0, 5)


def test_json_says_the_same() -> None:
    said: dict[str, Any] = {
        "tasks": {"D": {"url": "http://d/", "after": ["A"]}, "A": {"url": "http://a/", "schedule": {"priority": 3}}},
    }

    for name in ("flow.json", "stdin"):
        plan = described(parse(name, json.dumps(said)))
        assert [(task.taskid, task.depends_on) for task in plan.tasks] == [("A", ()), ("D", ("A",))]
        assert plan.tasks[0].schedule.priority == 3


def test_what_is_no_json_is_read_as_toml_wherever_it_comes_from() -> None:
    assert described(parse("stdin", SAID)).edges == 4


def test_a_cycle_is_printed() -> None:
    tasks = {"A": ["F"], "B": [], "D": ["A", "B"], "F": ["D"]}
    text = json.dumps({"tasks": {name: {"url": f"http://{name}/", "after": its} for name, its in tasks.items()}})

    assert refusal(text, "x.json") == (
        "x.json: tasks.A.after: a cycle, in which each task waits for the next: A → F → D → A"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "tasks: there are none"),
        ("tasks = 7", "tasks: expected a table"),
        ("projekt = 'x'", "projekt: unknown; there are flow, defaults, tasks"),
        ("[tasks.A", "not TOML: Expected ']' at the end of a table declaration (at end of document)"),
        ("[tasks]\nA = 7", "tasks.A: expected a table"),
        ("[tasks.A]", "tasks.A: there is no url"),
        ("[tasks.A]\nurl = 7", "tasks.A.url: expected str, got int"),
        ("[tasks.A]\nurl = 'a'", "tasks.A.url: 'a' is not a URL, which begins with a scheme such as https:"),
        ("[tasks.A]\nurl = 'http://a/'\npriority = 'high'", "tasks.A.schedule.priority: expected int, got str"),
        (
            "[tasks.A]\nurl = 'http://a/'\ndelay = 'soon'",
            'tasks.A: delay: "soon" is no duration, such as',
        ),
        ("[tasks.A]\nurl = 'http://a/'\nafter = 'B'", "tasks.A.after: expected a list"),
        (
            "[tasks.A]\nurl = 'http://a/'\non_parent_failure = 'only'",
            'tasks.A.on_parent_failure: "only" goes with parents that may fail; name them in depends_on (after, in a',
        ),
        (
            "[tasks.A]\nurl = 'http://a/'\nafter = ['B']",
            'tasks.A.after[0]: no task of this file is called "B"; one outside of it is {taskid = "B"}',
        ),
        (
            "[tasks.A]\nurl = 'http://a/'\nafter = [7]",
            "tasks.A.after[0]: expected the name of a task of this file, or a table with taskid and maybe project",
        ),
        ("[tasks.A]\nurl = 'http://a/'\nafter = [{project = 'x'}]", "tasks.A.after[0].taskid: missing"),
        ("[tasks.A]\nurl = 'http://a/'\nafter = [{taskid = 7}]", "tasks.A.after[0].taskid: expected text"),
        (
            "[tasks.A]\nurl = 'http://a/'\nafter = [{task = 'x'}]",
            "tasks.A.after[0].task: unknown; did you mean taskid? There are project, taskid",
        ),
        ("[tasks.A]\nurl = 'http://a/'\nafter = [{taskid = 'A'}]", "tasks.A.after: 'A' is the task itself"),
        ("[tasks.A]\nurl = 'http://a/'\ndepends_on = ['B']", "tasks.A.depends_on: in a flow it is called after"),
        ("[defaults]\ntaskid = 'x'\n[tasks.A]\nurl = 'http://a/'", "defaults.taskid: each task has its own"),
        (f"[tasks.{'x' * 129}]\nurl = 'http://a/'", f"tasks.{'x' * 129}: a name has 1 to 128 bytes"),
        ("flow = 'a b'\n[tasks.A]\nurl = 'http://a/'", "flow: expected 1 to 64 ASCII letters"),
        (
            "project = 'a'\n[tasks.A]\nurl = 'http://a/'",
            "project: it is said by the command: taskqueue flow submit",
        ),
        (
            "[tasks.A]\nurl = 'http://a/'\ntaskid = 'B'\n[tasks.B]\nurl = 'http://b/'",
            "tasks.B.taskid: 'B' is task 0 of this flow already",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_a_mistake_is_told_with_its_file_table_and_key(text: str, problem: str) -> None:
    assert refusal(text).startswith(f"flow.toml: {problem}")


def test_an_unknown_field_of_a_task_is_told_with_those_that_there_are() -> None:
    said = refusal("[tasks.A]\nurl = 'http://a/'\nretrys = 3")

    assert said.startswith("flow.toml: tasks.A: retrys is not a field of a task; did you mean retries?")


def test_json_that_is_none_is_told_with_its_place() -> None:
    assert refusal("{", "x.json").startswith(
        "x.json: not JSON: Expecting property name enclosed in double quotes: line"
    )
    assert refusal("[]", "x.json") == "x.json: expected an object with tasks"


def test_urls_of_other_schemes_are_taken_if_they_are_meant() -> None:
    text = "[tasks.A]\nurl = 'user-42:x'"

    assert "is not a URL of http, https or data" in refusal(text)
    assert described(parse("x.toml", text, any_scheme=True)).tasks[0].url == "user-42:x"


HALF: Any = "\ud800"
HALVES = (
    {"tasks": {HALF: {"url": "http://s/"}}},
    {"tasks": {"a": {"url": "http://s/", "taskid": HALF}}},
    {"tasks": {"a": {"url": "http://s/", "save": {HALF: [HALF]}}}},
    {"tasks": {"a": {"url": f"http://s/{HALF}"}}},
    {"tasks": {"a": {"url": "http://s/", "after": [{"taskid": HALF}]}}},
    {HALF: 1},
)


@pytest.mark.parametrize("said", HALVES, ids=range(len(HALVES)))
def test_half_a_character_is_refused_wherever_it_stands(said: dict[str, Any]) -> None:
    assert refusal(json.dumps(said), "flow.json") == (
        "flow.json: half a character, '\\ud800', which can't be sent as text"
    )
