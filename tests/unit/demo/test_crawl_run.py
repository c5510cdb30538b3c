"""What is remembered of a crawl."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.demo import crawl_run as runs
from taskqueue.demo.crawl_run import Run
from taskqueue.errors import ConfigError

RUN = Run(number=3, site="/pages", port=7480, starts=2)


def test_a_run_is_remembered(tmp_path: Path) -> None:
    runs.save(tmp_path, Run(1, "", 1))
    runs.save(tmp_path, RUN)

    assert runs.load(tmp_path) == RUN


def test_a_new_folder_remembers_nothing(tmp_path: Path) -> None:
    assert runs.load(tmp_path) is None


def test_a_run_is_finished_once_it_has_an_end() -> None:
    assert not RUN.is_finished
    assert Run(1, "", 1, finished_at=1.0).is_finished


@pytest.mark.parametrize("text", ["", "nonsense", '{"number": 1}'])
def test_a_file_of_somebody_else_is_named_and_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / runs.FILE).write_text(text)

    with pytest.raises(ConfigError, match=rf"run\.json: .*remove {tmp_path} to start over"):
        runs.load(tmp_path)


def test_access_logs_are_forgotten_all_at_once(tmp_path: Path) -> None:
    for start in (1, 2):
        runs.access_log(tmp_path, start).write_text("")

    runs.forget_access(tmp_path)

    assert list(tmp_path.iterdir()) == []
