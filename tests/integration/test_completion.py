"""Shells complete commands, options and project names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.nursery import WAIT_SECONDS

ROUNDS = 10
"""Attempts: a shell waits at most a second for names, and the daemon of a busy machine may be late."""
BIN = Path(sys.executable).parent

Ask = Callable[..., str]


@pytest.fixture
def ask(daemon: Callable[..., Any], tmp_path: Path) -> Ask:
    """Run a program that finds the installed command, beside a daemon with the projects news, next and shop."""
    it = daemon(projects={"news": {}, "next": {}, "shop": {}})

    def ask(*command: str, **environment: str) -> str:
        said = os.environ | {"TASKQUEUE_DAEMON": it.url, "PATH": f"{BIN}:{os.environ['PATH']}"} | environment
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, env=said, cwd=tmp_path, timeout=WAIT_SECONDS, check=True
        )
        return done.stdout

    return ask


def in_bash(ask: Ask, *lines: str, **environment: str) -> list[list[str]]:
    """Return bash's completions of the last word of each line."""
    script = ['source /dev/stdin <<< "$(taskqueue completion bash)"']
    for words in (line.split(" ") for line in lines):
        script.append(f"COMPREPLY=(); COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}")
        script.append('_taskqueue_completion taskqueue; echo "${COMPREPLY[@]}"')
    return [offered.split() for offered in ask("bash", "-c", "\n".join(script), **environment).split("\n")[:-1]]


def test_bash_completes_commands_options_and_projects(ask: Ask) -> None:
    offered = {
        "taskqueue oper": ["operation"],
        "taskqueue task list news --st": ["--state"],
        "taskqueue task list news --state canc": ["cancelled"],
        "taskqueue project show ne": ["news", "next"],
        "taskqueue push sh": ["shop"],
        "taskqueue work crawler:crawl ": ["news", "next", "shop"],
        "taskqueue push zoo": [],
    }

    for _ in range(ROUNDS):
        if [] not in (answers := in_bash(ask, *offered))[:-1]:
            break
    assert dict(zip(offered, answers, strict=True)) == offered


def test_without_a_daemon_there_are_no_names_and_no_errors(ask: Ask) -> None:
    assert in_bash(ask, "taskqueue push ne", TASKQUEUE_DAEMON="tcp://127.0.0.1:9") == [[]]


@pytest.mark.parametrize(("shell", "offered"), [("zsh", "plain\nnews\n_"), ("fish", "plain,news")])
def test_other_shells_are_answered_in_their_way(ask: Ask, shell: str, offered: str) -> None:
    assert f"_TASKQUEUE_COMPLETE={shell}_complete" in ask("taskqueue", "completion", shell)

    word = {"zsh": "2", "fish": "new"}[shell]
    said = {"_TASKQUEUE_COMPLETE": f"{shell}_complete", "COMP_WORDS": "taskqueue push new", "COMP_CWORD": word}
    for _ in range(ROUNDS):
        if answer := ask("taskqueue", **said):
            break
    assert offered in answer


def test_the_package_can_be_run_as_a_module(ask: Ask) -> None:
    assert ask(sys.executable, "-m", "taskqueue", "--version") == ask("taskqueue", "--version")
    assert "shop" in ask(sys.executable, "-m", "taskqueue", "project", "list")
