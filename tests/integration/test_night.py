"""Ten questions of a night on call, each answered by one command, in the first three lines of its output."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from benchmarks.night import FULL, QUESTIONS, SHOWN, Night, Question, lines_of
from taskqueue.cli.main import main


@pytest.fixture(scope="module")
def night() -> Iterator[Night]:
    with Night(tasks=600) as night:
        yield night


def answered(question: Question, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the first lines of its command's output."""
    capsys.readouterr()
    assert main(question.command) == 0
    printed = capsys.readouterr()
    return "\n".join(lines_of(printed.out + printed.err)[:SHOWN])


def test_each_question_of_a_night_is_answered_in_the_first_lines(
    night: Night, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", night.daemon.url)

    for question in (each for each in QUESTIONS if each.says):
        assert re.search(question.says, answered(question, capsys)), question.asks


def test_a_full_disk_is_told_by_those_who_are_asked_why_nothing_moves(
    night: Night, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", night.daemon.url)

    with night.full_disk():
        for question in FULL:
            assert re.search(question.says, answered(question, capsys)), question.asks
