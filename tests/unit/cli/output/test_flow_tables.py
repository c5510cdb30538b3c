"""Flows as a terminal of 80 columns without colours shows them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from freezegun import freeze_time
from msgspec.structs import replace
from rich.console import Console

from taskqueue.cli.output.flow_tables import counts_text, draw, drawn, of_flows, of_groups, picture, progress
from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.protocol.choices import FlowState, FlowTaskState
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.protocol.values import TaskCounts

NOON = 1_700_000_000.0
EXAMPLE = {"A": "", "B": "", "C": "", "D": "AB", "E": "BC", "F": "AD", "G": "DE", "H": "DE", "I": "CE"}
NAMES = list(EXAMPLE)


def flow(tasks: int, state: FlowState = "running", ended_at: float = 0.0, **counts: int) -> Flow:
    return Flow("shop", "nightly", state, tasks, TaskCounts(**counts), tasks, NOON, ended_at)


def task(
    index: int, state: FlowTaskState = "success", parents: Iterable[int] = (), seconds: float = 1.0
) -> FlowTaskStatus:
    return FlowTaskStatus(index, f"t{index}", f"http://a/{index}", state, list(parents), 0, seconds)


def example() -> list[FlowTaskStatus]:
    """Make the example with D processing, and B failed, so that E has failed, too."""
    states: dict[str, FlowTaskState] = {"A": "success", "B": "failed", "C": "success", "D": "processing", "E": "failed"}
    seconds = {"A": 90.0, "B": 2.0, "C": 0.5}
    return [
        FlowTaskStatus(
            NAMES.index(name), name, f"http://{name}/", states.get(name, "delayed"),
            [NAMES.index(parent) for parent in parents], 0, seconds.get(name, 0.0),
        )
        for name, parents in EXAMPLE.items()
    ]  # fmt: skip


def shown(view: Flow, tasks: Iterable[FlowTaskStatus], now: float = NOON + 192, **options: int) -> list[str]:
    console = Console(width=80)
    with console.capture() as captured:
        for part in drawn(picture(view, tasks, **options), now):
            console.print(part)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_flow_is_shown_in_layers_with_its_progress_and_its_critical_path() -> None:
    assert shown(flow(9, success=2, failed=2, processing=1), example()) == [
        "shop/nightly  running  4 of 9 tasks finished, 3 min 12 s",
        "█████████████████▒▒▒▒▒░░░░░░░░░░░░░░░░░░  44%",
        "2 success, 2 failed, 1 processing, 4 delayed",
        "",
        "layer task state            took waits for",
        "1     A    success    1 min 30 s",
        "      B    failed            2 s",
        "      C    success         0.5 s",
        "2     D    processing            A, B",
        "      E    failed                B, C",
        "3     F    delayed               A, D",
        "      G    delayed               D, E",
        "      H    delayed               D, E",
        "      I    delayed               C, E",
        "",
        "critical path so far 1 min 30 s",
        "A                    1 min 30 s",
    ]


def test_parents_with_long_names_are_told_by_their_numbers() -> None:
    urls = [f"https://shop.example/a/long/path/to/a/page/number/{index}" for index in range(3)]
    tasks = [FlowTaskStatus(i, default_taskid(url), url, "ready", list(range(i))) for i, url in enumerate(urls)]

    lines = shown(flow(3), tasks)

    assert lines[4].split() == ["layer", "#", "task", "state", "took", "waits", "for"]
    assert lines[7] == "3     2 https://sh…/to/a/page/number/2 ready      0, 1"
    assert max(map(len, lines)) <= 80


def test_what_a_task_waits_for_outside_of_the_flow_is_named_with_its_project() -> None:
    tasks = [FlowTaskStatus(0, "A", "http://a/", "ready", [("currencies", "EUR")])]

    assert shown(flow(1), tasks)[5].endswith("currencies/EUR")


def test_of_many_parents_the_first_are_told() -> None:
    tasks = [*(task(index) for index in range(9)), task(9, parents=range(9))]

    assert shown(flow(10), tasks)[14].endswith("t0, t1, t2, t3, t4, t5 and 3 more")


def test_of_a_large_flow_there_is_a_row_a_layer() -> None:
    width = 1000
    states: list[FlowTaskState] = ["success", "success", "success", "success", "processing", "delayed"]
    tasks = (
        task(index, states[index // width], [index - width] if index >= width else [], 0.0)
        for index in range(width * len(states))
    )

    lines = shown(flow(6000, success=4000, processing=1000, delayed=1000), tasks)

    assert lines[4].split() == ["layer", "tasks", "states"]
    assert [line.split()[0] for line in lines[5:]] == ["1", "2", "3", "4", "5", "6"]
    assert lines[8] == "4     1,000 ████████████████ 1,000 success"
    assert lines[9] == "5     1,000 ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 1,000 processing"
    assert lines[10] == "6     1,000 ░░░░░░░░░░░░░░░░ 1,000 delayed"


def test_many_layers_are_joined_and_a_long_path_is_told_by_its_ends() -> None:
    tasks = (task(index, parents=[index - 1] if index else []) for index in range(10_000))

    lines = shown(flow(10_000, "success", NOON + 100, success=10_000), tasks)

    assert len(lines) < 60
    assert lines[5].split()[:2] == ["1-334", "334"]
    assert "critical path 2 h 46 min" in lines
    assert [line.split()[0] for line in lines[-13:]] == [
        "t0", "t1", "t2", "t3", "t4", "t5", "…", "t9994", "t9995", "t9996", "t9997", "t9998", "t9999",
    ]  # fmt: skip
    assert "… 9,988 more" in lines


def test_each_task_of_a_large_flow_is_shown_on_request() -> None:
    assert len(shown(flow(70), map(task, range(70)), most=100)) > 70


def test_a_flow_that_is_not_submitted_says_so() -> None:
    assert shown(flow(1, "staged"), [task(0, "staged", seconds=0)])[:3] == [
        "shop/nightly  staged  0 of 1 tasks finished, not submitted yet",
        "░" * 40 + "  0%",
        "1 staged",
    ]


def test_a_flow_that_is_being_made_says_how_far() -> None:
    making = Flow("shop", "nightly", "unrolling", 5000, TaskCounts(ready=256), 256, NOON)

    assert shown(making, [])[0] == "shop/nightly  unrolling  0 of 5,000 tasks finished, 256 made so far, 3 min 12 s"


def test_a_flow_that_has_ended_says_how_long_it_took() -> None:
    ended = flow(1, "success", NOON + 5, success=1)

    assert shown(ended, [task(0)], NOON + 999)[0].endswith("1 of 1 tasks finished, 5 s")


@pytest.mark.parametrize(
    ("states", "bar"),
    [
        ({}, "░░░░░░░░"),
        ({"success": 1, "ready": 7}, "█░░░░░░░"),
        ({"success": 1, "failed": 1, "cancelled": 2, "processing": 2, "delayed": 2}, "████▒▒░░"),
        ({"success": 999, "ready": 1}, "███████░"),
        ({"success": 3}, "████████"),
    ],
    ids=str,
)
def test_a_bar_is_full_only_when_all_is_over(states: dict[str, int], bar: str) -> None:
    assert progress(states, 8).plain == bar


def test_states_that_this_version_does_not_know_are_told_as_well() -> None:
    assert counts_text({"resting": 2, "success": 1}).plain == "1 success, 2 resting"


def test_a_list_of_flows_fits_into_80_columns() -> None:
    console = Console(width=80)
    views = [flow(9, success=2, failed=2), flow(1_000_000, "success", NOON + 5, success=1_000_000)]

    with freeze_time("2023-11-14 23:13:20"), console.capture() as captured:
        console.print(of_flows(views))

    assert [line.rstrip() for line in captured.get().splitlines()] == [
        "project flow    state   began   took     tasks  finished failed",
        "shop    nightly running 1 h ago              9         4      2",
        "shop    nightly success 1 h ago  5 s 1,000,000 1,000,000      0",
    ]


def test_flows_of_a_cron_entry_share_a_row_and_say_how_many_failed() -> None:
    of_cron = [
        replace(flow(2), flow="night-3", cron="night"),
        replace(flow(2, "failed"), flow="night-2", cron="night"),
    ]
    table = of_groups([of_cron[0], flow(9), of_cron[1], replace(of_cron[0], project="news")])

    names = [str(cell) for cell in list(table.columns[1].cells)]
    assert names == ["night-3 (+1, 1 failed)", "nightly", "night-3"]


def test_a_list_of_flows_says_by_colour_which_are_running_and_which_have_failed_tasks() -> None:
    table = of_flows([flow(9, success=2, failed=2), flow(9, "success", NOON + 5, success=9)])

    looks = {str(column.header): [getattr(cell, "style", None) for cell in column.cells] for column in table.columns}
    assert looks["flow"] == ["bold", "bold"]
    assert looks["state"] == ["green", "green"]
    assert looks["failed"] == ["red", "dim"]


def test_names_that_a_terminal_would_obey_are_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    draw(picture(flow(1), [FlowTaskStatus(0, "\x1b[31mred", "http://a/", "ready")]), NOON)

    assert "\x1b" not in capsys.readouterr().out
