"""Lines of `taskqueue task rerun`."""

from __future__ import annotations

from taskqueue.display.operations import rerun_lines
from taskqueue.protocol.values import Operation, RerunLayer, RerunProgress


def view(*layers: RerunLayer, matched: int, dry_run: bool = True, depth: int = 0, passed: int = 0) -> Operation:
    rerun = RerunProgress("A", "downstream", passed, list(layers), depth or len(layers))
    return Operation(17, "rerun", ["shop"], dry_run, matched, matched, matched, 1e9, 2e9, rerun=rerun)


def test_a_dry_run_prints_the_layers() -> None:
    layers = RerunLayer(1, ["A"]), RerunLayer(1, ["D"]), RerunLayer(3, ["F", "G", "H"])

    assert rerun_lines(view(*layers, matched=5)) == [
        "layer 1: A", "layer 2: D", "layer 3: F, G, H", "5 tasks would run again (operation 17)",
    ]  # fmt: skip


def test_of_a_large_set_it_prints_the_first_names_and_counts() -> None:
    layers = RerunLayer(1, ["A"]), RerunLayer(1_200, ["D", "E"]), RerunLayer(7)

    assert rerun_lines(view(*layers, matched=1_300, depth=12)) == [
        "layer 1: A", "layer 2: D, E and 1,198 more", "layer 3: 7 tasks", "and 9 layers more",
        "1,300 tasks would run again (operation 17)",
    ]  # fmt: skip


def test_a_rerun_says_how_many_run_and_how_many_it_passed_by() -> None:
    assert rerun_lines(view(RerunLayer(1, ["A"]), matched=1, dry_run=False, passed=2)) == [
        "1 task runs again, 2 tasks passed by (operation 17)"
    ]
