"""The taskqueue command against a real daemon, as a person uses it."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskqueue.cli.main import main

WAIT_SECONDS = 30
COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]

Capture = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(daemon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """A daemon with a project ``news``, named by the environment."""
    address: str = daemon(auto_create=False, projects={"news": {"rate": 5}}).url
    monkeypatch.setenv("TASKQUEUE_URL", address)
    return address


@pytest.fixture
def run(url: str, capsys: Capture) -> Run:
    """Run a command in this process; its exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def crawler(tmp_path: Path) -> Path:
    """A folder with a module of handlers."""
    (tmp_path / "crawler.py").write_text(
        "def crawl(task):\n"
        "    return ['http://site/found'] if task.url.endswith('/start') else []\n"
        "def stumble(task):\n"
        "    raise ValueError('no title on ' + task.url)\n"
    )
    return tmp_path


@pytest.fixture
def worker(url: str, crawler: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``taskqueue work`` in the folder of the handlers."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        it = subprocess.Popen([*COMMAND, "work", *arguments], cwd=crawler, stderr=subprocess.PIPE, text=True)
        started.append(it)
        return it

    yield start
    for it in started:
        it.kill()
        it.communicate()


def counts(run: Run) -> dict[str, int]:
    """Of the project news."""
    projects = json.loads(run("status", "--json")[1])["projects"]
    return next(dict(project["counts"]) for project in projects if project["name"] == "news")


def wait_for(run: Run, **expected: int) -> None:
    """Ask again and again until the counts are so; pytest's timeout ends it otherwise."""
    while {name: count for name, count in counts(run).items() if name in expected} != expected:
        select.select([], [], [], 0.02)


# ------------------------------------------------------------------------------------------------ push


def test_pushed_urls_are_counted_by_what_became_of_them(run: Run) -> None:
    assert run("push", "news", "http://a/", "http://b/") == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n", "")
    assert run("push", "news", "http://b/", "http://c/") == (0, "1 new, 0 merged, 1 ignored, 0 rejected\n", "")
    assert run("push", "news", "http://c/", "--priority", "9")[1] == "0 new, 1 merged, 0 ignored, 0 rejected\n"


def test_a_file_may_hold_urls_and_objects(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('http://a/\n\n{"url": "http://b/", "taskid": "b", "schedule": {"delay": 3600}, "save": {"n": 1}}\n')

    assert run("push", "news", "--file", str(file)) == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n", "")

    assert counts(run)["delayed"] == 1
    assert '"save": {"n": 1}' in run("task", "show", "news", "b")[1]


def test_bad_lines_are_named_and_counted_and_the_rest_goes_on(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b'http://a/\n{"url"\n{"url": "http://b/", "speed": 1}\nhttp://c/\xff\nhttp://d/\n')

    status, out, err = run("push", "news", "--file", str(file))

    assert status == 1
    assert out == "2 new, 0 merged, 0 ignored, 3 rejected\n"
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{file}:{number}" for number in (2, 3, 4)]


def test_what_the_daemon_rejects_is_named_by_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('\n{"bad\nhttp://a/\n')

    status, out, err = run("push", "nobody", "--file", str(file))

    assert status == 1
    assert out == "0 new, 0 merged, 0 ignored, 2 rejected\n"
    assert f"taskqueue push: {file}:3: " in err
    assert "nobody" in err.splitlines()[-1]


def test_tasks_come_from_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://a/\nhttp://b/\n")))

    assert run("push", "news", "-")[:2] == (0, "2 new, 0 merged, 0 ignored, 0 rejected\n")


def test_interrupting_a_push_is_no_traceback(url: str) -> None:
    command = [*COMMAND, "push", "news", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None
        assert it.stderr is not None
        print('{"bad', file=it.stdin, flush=True)
        it.stdin.write("x" * 100_000)
        assert "stdin:1: " in it.stderr.readline()
        it.send_signal(signal.SIGINT)

        assert it.wait(WAIT_SECONDS) == 130
        assert "Traceback" not in it.stderr.read()


# ------------------------------------------------------------------------------------------------ project


def test_a_setting_holds_at_once_and_is_shown_with_who_said_it(run: Run) -> None:
    status, out, _ = run("project", "set", "news", "rate=0.5", "retry_delay=30,60")

    assert status == 0
    assert out.startswith("news: rate=0.5 ")
    assert "retry_delay=30,60" in out
    shown = run("project", "show", "news")[1]
    assert "project set" in next(line for line in shown.splitlines() if line.startswith("rate "))


def test_unset_brings_the_config_file_back(run: Run) -> None:
    run("project", "set", "news", "rate=1", "burst=7")

    assert run("project", "unset", "news", "rate")[1].startswith("news: rate=5 burst=7 ")
    assert run("project", "unset", "news")[1].startswith("news: rate=5 burst=3 ")


@pytest.mark.parametrize("setting", ["burst=0", "speed=1", "retries=0.5", "rate=-1"])
def test_a_setting_that_the_daemon_refuses_is_one_line_that_names_it(run: Run, setting: str) -> None:
    status, out, err = run("project", "set", "news", setting)

    assert (status, out) == (1, "")
    assert err.startswith("taskqueue: ")
    assert setting.partition("=")[0] in err
    assert err.count("\n") == 1


def test_projects_are_paused_resumed_stopped_and_started(run: Run) -> None:
    for action, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running")):
        assert run("project", action, "news") == (0, f"news: {state}\n", "")
        assert f" {state} " in run("project", "list")[1]


def test_deleting_asks_and_without_anybody_to_ask_it_does_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    status, _, err = run("project", "delete", "news")

    assert status == 2
    assert "--yes" in err
    assert "news" in run("project", "list")[1]


def test_deleting_with_yes_deletes(run: Run) -> None:
    run("project", "start", "old")

    assert run("project", "delete", "old", "--yes") == (0, "old: deleted\n", "")

    assert "old" not in run("project", "list")[1]


def test_a_project_that_is_unknown_is_one_line(run: Run) -> None:
    for action in ("show", "pause", "delete"):
        status, _, err = run("project", action, "nobody", *(["--yes"] if action == "delete" else []))

        assert status == 1
        assert "nobody" in err
        assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ task


def test_a_task_is_shown_by_its_url_or_its_taskid(run: Run) -> None:
    run("push", "news", "http://a/#top", "--delay", "3600", "--priority", "4")

    by_url = run("task", "show", "news", "http://a/")[1]
    taskid = next(line.split()[1] for line in by_url.splitlines() if line.startswith("taskid"))

    assert "delayed" in by_url
    assert "http://a/#top" in by_url
    assert run("task", "show", "news", taskid)[1] == by_url


def test_a_delayed_task_can_be_run_now_or_cancelled(run: Run) -> None:
    run("push", "news", "http://a/", "http://b/", "--delay", "3600")

    assert run("task", "retry", "news", "http://a/") == (0, "http://a/: will run now\n", "")
    assert run("task", "cancel", "news", "http://b/") == (0, "http://b/: cancelled\n", "")

    found = counts(run)
    assert (found["ready"], found["delayed"], found["cancelled"]) == (1, 0, 1)


def test_a_task_that_is_unknown_is_said_so(run: Run) -> None:
    status, _, err = run("task", "retry", "news", "none")
    assert (status, err) == (1, "none: unknown\n")

    status, _, err = run("task", "show", "news", "none")
    assert status == 1
    assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ status


def test_status_shows_every_project_however_many_there_are(run: Run) -> None:
    names = [f"p{n:03}" for n in range(120)]
    for name in names:
        run("project", "start", name)

    seen = [project["name"] for project in json.loads(run("status", "--json")[1])["projects"]]

    assert seen == ["news", *names]


def test_status_as_json_has_every_field_even_those_that_are_zero(run: Run, url: str) -> None:
    found = json.loads(run("status", "--json")[1])

    assert list(found) == [
        "url", "version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell",
    ]  # fmt: skip
    assert found["url"] == url
    assert found["counts"] == dict.fromkeys(["ready", "delayed", "processing", "success", "failed", "cancelled"], 0)
    assert found["projects"][0]["settings"]["max_queue"] == "inf"


def test_status_for_people_names_address_projects_and_fetchers(run: Run, url: str) -> None:
    out = run("status")[1]

    assert out.startswith(url)
    assert "news" in out
    assert "No fetchers." in out


def test_nobody_reading_on_is_no_error(url: str) -> None:
    command = f"{' '.join(COMMAND)} status --json | true"

    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=WAIT_SECONDS, check=True)

    assert done.stderr == ""


def test_top_is_live_until_it_is_interrupted(url: str) -> None:
    terminal, inside = pty.openpty()
    command = [*COMMAND, "top", "--interval", "0.1"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdin=inside, stdout=inside, stderr=subprocess.PIPE, env=environment) as it:
        os.close(inside)
        seen = b""
        while seen.count(b"news") < 3:
            seen += os.read(terminal, 65536)
        it.send_signal(signal.SIGINT)
        while select.select([terminal], [], [], WAIT_SECONDS)[0] and _read(terminal):
            pass

        assert it.wait(WAIT_SECONDS) == 0
        assert it.stderr is not None
        assert it.stderr.read() == b""
    os.close(terminal)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


# ------------------------------------------------------------------------------------------------ work


def test_a_handler_runs_on_tasks_and_what_it_returns_is_pushed(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/start", "http://site/other")

    it = worker("crawler:crawl", "-p", "news", "-j", "2")
    wait_for(run, success=3, ready=0)

    assert run("status")[1].splitlines()[-1].split()[-1] == "news"
    it.send_signal(signal.SIGTERM)
    assert it.wait(WAIT_SECONDS) == 0


def test_what_a_handler_raises_is_told_by_the_task(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/a", "--retries", "0")

    worker("crawler:stumble", "-p", "news")
    wait_for(run, failed=1)

    assert "ValueError: no title on http://site/a" in run("task", "show", "news", "http://site/a")[1]


def test_interrupting_a_worker_is_no_traceback(run: Run, worker: Callable[..., Any]) -> None:
    run("push", "news", "http://site/a")
    it = worker("crawler:crawl", "-p", "news")
    wait_for(run, success=1)

    it.send_signal(signal.SIGINT)

    assert "Traceback" not in it.communicate(timeout=WAIT_SECONDS)[1]
    assert it.returncode == 0


def test_a_module_that_is_broken_is_one_line_with_its_place(
    run: Run, crawler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(crawler)
    (crawler / "broken_module.py").write_text("import json\n\nwidth = lenght([])\n")

    status, _, err = run("work", "broken_module:crawl", "-p", "news")

    assert status == 1
    assert "can't import broken_module: NameError: name 'lenght' is not defined" in err
    assert "broken_module.py, line 3)" in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ scheduler


def test_the_scheduler_runs_with_its_options_until_it_is_interrupted(tmp_path: Path) -> None:
    options = ["--bind", "tcp://127.0.0.1:*", "--store", str(tmp_path / "store"), "--durability", "none"]
    with subprocess.Popen([*COMMAND, "scheduler", *options], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        line = it.stdout.readline()
        it.send_signal(signal.SIGINT)

        assert it.wait(WAIT_SECONDS) == 0
    assert f"store={tmp_path / 'store'} durability=none" in line


def test_an_address_that_is_taken_is_one_line(url: str, tmp_path: Path) -> None:
    command = [*COMMAND, "scheduler", "--bind", url, "--store", str(tmp_path / "store")]

    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=WAIT_SECONDS, check=False)

    assert done.returncode == 1
    assert f"can't listen on {url}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_a_terminal_can_not_write_is_no_error(url: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    subprocess.run([*COMMAND, "push", "news", "http://é/", "--delay", "60"], check=True, stdout=subprocess.DEVNULL)

    done = subprocess.run(
        [*COMMAND, "task", "show", "news", "http://é/"], stdout=subprocess.PIPE, env=environment, text=True, check=True
    )

    assert "http://?/" in done.stdout
