"""What is shown while the demo runs."""

from __future__ import annotations

import io
import re

from rich.console import Console

from taskqueue.demo.progress_display import Scene, Speed, open_display, table
from taskqueue.protocol.views import Counts, ProjectView, Totals

VIEW = ProjectView(
    name="demo",
    state="running",
    counts=Counts(ready=1234, delayed=5, processing=6, success=789, failed=12),
    totals=Totals(),
    settings={"rate": 50.0, "burst": 10.0},
    overrides={},
)
SCENE = Scene(seconds=4.2, projects=[(VIEW, 49.87)], done=801, pages=2000)


def shown(scenes: list[Scene], is_terminal: bool, width: int = 100) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, legacy_windows=False
    )
    with open_display(console, "Ctrl-C stops it") as it:
        for scene in scenes:
            it.show(scene)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_terminal_of_80_columns_shows_everything() -> None:
    text = shown([SCENE], is_terminal=True, width=80)

    assert "…" not in text
    assert "pages/s" in text


def test_a_terminal_sees_every_figure_by_name() -> None:
    text = shown([SCENE], is_terminal=True)

    for word in (
        "demo",
        "running",
        "1,234",
        "789",
        "12",
        "50/s",
        "49.9",
        "801 of 2,000 pages",
        "4.2 s",
        "Ctrl-C stops it",
    ):
        assert word in text


def test_the_columns_are_those_that_a_user_asks_for() -> None:
    columns = [str(column.header) for column in table(SCENE).columns]

    assert columns == ["project", "state", "ready", "delayed", "processing", "success", "failed", "rate", "pages/s"]


def test_elsewhere_there_is_a_plain_line_a_second() -> None:
    moments = [0.0, 0.5, 1.1, 1.2, 2.3]

    lines = shown([SCENE._replace(seconds=at, projects=[(VIEW, at)]) for at in moments], is_terminal=False).splitlines()

    assert len(lines) == 3
    assert lines[0] == (
        "   0.0 s  demo: 1234 ready, 5 delayed, 6 processing, 789 success, 12 failed; 0.0 pages/s "
        "(handed out: at most 10 at once, then 50/s)"
    )


def test_a_speed_above_the_rate_is_explained_by_the_burst_beside_it() -> None:
    scene = SCENE._replace(projects=[(VIEW, 57.3)])

    assert "57.3 pages/s (handed out: at most 10 at once, then 50/s)" in shown([scene], is_terminal=False)
    assert re.search(r"57\.3\s+demo, handed out: at most 10 at once, then 50/s", shown([scene], is_terminal=True))


def test_a_line_that_says_nothing_new_is_left_out() -> None:
    assert shown([SCENE, SCENE._replace(seconds=99.0)], is_terminal=False).count("\n") == 1


def test_speed_is_the_mean_of_the_last_seconds() -> None:
    speed = Speed()

    assert speed.tell(0.0, 0) == 0.0
    assert speed.tell(1.0, 50) == 50.0
    assert speed.tell(10.0, 50) == 0.0
    assert speed.tell(11.0, 80) == 30.0
