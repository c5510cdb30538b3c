"""Fixtures of the store commands' tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from taskqueue.cli.main import main

Run = Callable[..., tuple[int, str, str]]


def with_store(command: list[str], store: str) -> list[str]:
    """Name the store of a command: as its argument, or by --store beside its own arguments."""
    return [*command, store] if command[0] in ("show", "check", "compact") else [*command, "--store", store]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``taskqueue store`` in a private folder; return exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["store", *arguments])
        return status, *capsys.readouterr()

    return run
