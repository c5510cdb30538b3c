"""Tables as a terminal of 80 columns shows them."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from taskqueue.cli.tables import Speeds, of_moving_projects, of_projects
from taskqueue.core.replies import Counts, ProjectView, Totals

VIEW = ProjectView(
    name="news",
    state="running",
    counts=Counts(ready=1234, delayed=56, processing=7, success=8901, failed=23, cancelled=4),
    totals=Totals(),
    settings={"rate": 50.0, "burst": 10.0},
    overrides={},
)


def shown(table: Table) -> str:
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(table)
    return file.getvalue()


def test_projects_are_shown_whole() -> None:
    text = shown(of_projects([VIEW]))

    assert "…" not in text
    assert text.splitlines()[1].split() == ["news", "running", "1,234", "56", "7", "8,901", "23", "4", "50/s", "10"]


def test_moving_projects_are_shown_whole() -> None:
    text = shown(of_moving_projects([VIEW], {"news": Speeds(1234.5, 999.9, 998.0, 1.5)}))

    assert "…" not in text
    assert text.splitlines()[2].split()[-5:] == ["50/s", "1,234.5", "999.9", "998.0", "1.5"]
