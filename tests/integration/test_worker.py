"""Worker processes against a real daemon: what ends them, what they hold meanwhile, and what they log."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Client, default_taskid
from taskqueue.defaults import START_DAEMON
from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

SHORT_SECONDS = 2.0
"""Time of a lease that is to run out, but not before its task has been begun."""
MAX_MEMORY = "200M"
"""Memory limit of a worker; one without a leak takes a third of it."""
LEAK_MIB = 180
EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = [sys.executable, "-m", "taskqueue.cli.main", "work"]

HANDLERS = """
import asyncio, os, sys, time

def crawl(task):
    return []

def stumble(task):
    raise ValueError("no title on " + task.url)

def leave(task):
    sys.exit(3)

def split(task):
    child = os.fork()
    if not child:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

async def split_in_loop(task):
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

async def ignore(task):
    print(task.url, flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

def wait(task):
    print(task.url, flush=True)
    sys.stdin.readline()

def loop():
    while True:
        time.sleep(0.001)

async def coroutine():
    await asyncio.sleep(1000)

def generator():
    while True:
        time.sleep(0.001)
        yield "http://site/"

async def async_generator():
    while True:
        await asyncio.sleep(0.001)
        yield "http://site/"

def swallowing():
    try:
        loop()
    except BaseException:
        loop()

KINDS = {each.__name__: each for each in (loop, coroutine, generator, async_generator, swallowing)}

def hang(task):
    kind = KINDS.get(task.url.rpartition("/")[2])
    return kind() if kind else None

def block(task):
    os.write(1, f"{task.url}\\n".encode())  # in one piece: others print, too
    time.sleep(1000)

async def block_loop(task):
    block(task)

def tell(task):
    os.write(1, f"{task.url}\\n".encode())

async def tell_in_loop(task):
    await asyncio.sleep(0)
    tell(task)

kept = []

def leak(task):
    kept.append(b"x" * (int(task.url.rpartition("/")[2]) << 20))

async def leak_in_loop(task):
    leak(task)
"""

Process = subprocess.Popen[str]
Work = Callable[..., Process]


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    """Daemon that takes no fetcher as silent while a test runs."""
    return daemon(auto_create=True, fetcher_timeout=60)


@pytest.fixture
def client(it: Daemon) -> Iterator[Client]:
    with Client(it.url) as one:
        yield one


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a process beside the handlers; it is killed at the end of the test if it still runs."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    with ExitStack() as stack:

        def start(*command: str) -> Process:
            pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = stack.enter_context(Forked(command, cwd=tmp_path, text=True, **pipes))
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def work(it: Daemon, start: Callable[..., Process]) -> Work:
    """Start ``taskqueue work``."""
    return lambda *arguments: start(*COMMAND, *arguments, "--daemon", it.url)


def urls(count: int) -> list[str]:
    return [f"http://site/{n}" for n in range(count)]


def counts(client: Client) -> dict[str, int]:
    view = client.projects.get("news").counts
    return {name: count for name in view.__struct_fields__ if (count := getattr(view, name))}


def wait_for(client: Client, expected: dict[str, int]) -> None:
    """Ask until the counts are as expected; pytest's timeout ends it otherwise."""
    while counts(client) != expected:
        select.select([], [], [], 0.02)


def line_of(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# ---------------------------------------------------------------------------------------- what a handler can do


def test_a_handler_that_exits_fails_its_tasks_and_not_its_worker(client: Client, work: Work) -> None:
    client.push_many("news", [{"url": url, "retries": 0} for url in urls(4)])

    process = work("handlers:leave", "news", "-j", "1")
    wait_for(client, {"failed": 4})

    assert process.poll() is None
    assert client.tasks.get("news", url="http://site/0").error.endswith("SystemExit: 3")


# ---------------------------------------------------------------------------------------- what it says


def said(process: Process, event: str) -> str:
    """Read stderr until a line of this event; return it."""
    assert process.stderr is not None
    while f"event={event} " not in (line := process.stderr.readline()):
        assert line, f"it never said {event}"
    return line


@pytest.mark.parametrize(("handler", "code"), [("split", 3), ("split_in_loop", 0)])
def test_a_child_that_a_handler_forks_ends_where_it_comes_out_of_the_handler(
    client: Client, work: Work, handler: str, code: int
) -> None:
    client.push("news", "http://site/")

    process = work(f"handlers:{handler}", "news")

    assert line_of(process) == f"{code}\n"
    wait_for(client, {"success": 1})


def test_a_worker_says_whom_it_serves_and_what_it_wants(it: Daemon, work: Work) -> None:
    process = work("handlers:crawl", "news", "shop", "-j", "3")

    line = said(process, "connected")

    assert " INFO " in line
    assert f"daemon={it.url} version=" in line
    assert line.endswith("projects=news,shop places=3\n")


def test_a_daemon_that_is_not_there_is_said_at_once_and_when_it_is_back(it: Daemon, work: Work) -> None:
    it.kill()
    process = work("handlers:crawl", "news")

    line = said(process, "unreachable")
    assert f"WARNING event=unreachable daemon={it.url} reason='nothing listens there. {START_DAEMON}" in line
    it.start()
    said(process, "connected")
    it.kill()
    said(process, "unreachable")


def test_a_project_that_does_not_exist_is_said_at_once_with_what_makes_it(client: Client, work: Work) -> None:
    client.projects.start("news")

    line = said(work("handlers:crawl", "news", "nwes"), "unknown-project")

    assert "project=nwes" in line
    assert "`taskqueue project start nwes`" in line


def test_projects_that_do_not_exist_are_said_in_one_line(client: Client, work: Work) -> None:
    line = said(work("handlers:crawl", "nwes", "shpo"), "unknown-project")

    assert "project=nwes,shpo reason='these 2 do not exist" in line
    assert "`taskqueue project start nwes shpo`" in line


def test_a_failure_is_told_once_with_its_traceback_and_then_counted(client: Client, work: Work) -> None:
    client.push_many("news", [{"url": url, "retries": 0} for url in urls(5)])
    process = work("handlers:stumble", "news", "-j", "1", "--summary", "0.01s")
    wait_for(client, {"failed": 5})
    process.send_signal(signal.SIGTERM)

    lines = process.communicate(timeout=WAIT_SECONDS)[1].splitlines()

    errors = [line for line in lines if " ERROR " in line]
    counted = [int(line.partition("times=")[2]) for line in lines if "event=failing" in line]
    assert len(errors) == lines.count("Traceback (most recent call last):") == 1
    assert "event=failed project=news taskid=" in errors[0]
    assert "error='ValueError at handlers.py:" in errors[0]
    assert "client/worker/handler.py" not in "".join(lines)
    assert sum(counted) == 4
    assert lines[-1].endswith("event=stopped done=0 failed=5")


def test_a_report_that_came_too_late_is_said_with_what_would_help_and_counted(client: Client, work: Work) -> None:
    client.projects.set("news", {"processing_timeout": SHORT_SECONDS, "retries": 0})
    client.push("news", "http://site/0")
    process = work("handlers:wait", "news", "--overtime", "600s")
    line_of(process)
    wait_for(client, {"failed": 1})
    go_on(process)

    line = said(process, "stale")
    process.send_signal(signal.SIGTERM)

    assert " WARNING " in line
    assert f"it took longer than the {SHORT_SECONDS:g} s of its lease" in line
    assert said(process, "stopped").endswith("done=1 failed=0 stale=1\n")


def test_a_worker_says_now_and_then_what_it_has_done(client: Client, work: Work) -> None:
    client.push_many("news", urls(3))

    process = work("handlers:crawl", "news", "--summary", "0.5s")
    lines: list[str] = []
    while sum(int(line.partition("done=")[2].split()[0]) for line in lines) < 3:
        lines.append(said(process, "summary"))

    assert all(" failed=0 rate=" in line and " slowest=" in line for line in lines)
    assert "slowest_url='http://site/" in lines[0]


def test_a_quiet_worker_says_only_what_goes_wrong(client: Client, work: Work) -> None:
    client.push_many("news", [{"url": url, "retries": 0} for url in urls(2)])
    process = work("handlers:stumble", "news", "--quiet")
    wait_for(client, {"failed": 2})
    process.send_signal(signal.SIGTERM)

    text = process.communicate(timeout=WAIT_SECONDS)[1]

    assert " INFO " not in text
    assert " ERROR " in text


OWN_LOGGING = """
import logging, sys
logging.basicConfig(format="%(name)s|%(levelname)s|%(message)s", level="INFO", stream=sys.stdout)

def crawl(task):
    pass
"""


def test_what_a_worker_says_goes_where_its_module_sends_its_log(tmp_path: Path, client: Client, work: Work) -> None:
    (tmp_path / "own.py").write_text(OWN_LOGGING)

    assert line_of(work("own:crawl", "news")).startswith("taskqueue.worker|INFO|event=connected ")


# ---------------------------------------------------------------------------------------- what waits


def go_on(process: Process) -> None:
    """Let the waiting handler end."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_the_time_of_a_lease_belongs_to_the_run(client: Client, work: Work) -> None:
    client.push_many("news", urls(4))
    process = work("handlers:wait", "news", "-j", "1")

    for ended in range(4):
        line_of(process)
        wait_for(client, without_zeros(processing=1, ready=3 - ended, success=ended))
        go_on(process)
    wait_for(client, {"success": 4})

    totals = client.projects.get("news").totals
    assert (totals.selected, totals.timeout) == (4, 0)


def without_zeros(**numbers: int) -> dict[str, int]:
    return {name: number for name, number in numbers.items() if number}


def test_what_is_behind_a_handler_that_hangs_goes_back_and_others_run_it(client: Client, work: Work) -> None:
    client.push_many("news", urls(8))
    hanging = work("handlers:wait", "news", "-j", "1", "--prefetch", "4")
    line_of(hanging)
    wait_until(lambda: client.projects.get("news").totals.selected == 5)

    wait_for(client, {"processing": 1, "ready": 7})
    work("handlers:crawl", "news")
    wait_for(client, {"processing": 1, "success": 7})

    totals = client.projects.get("news").totals
    assert (totals.selected, totals.timeout) == (12, 0)


def test_a_worker_whose_handlers_hang_is_handed_nothing_more_when_their_leases_end(client: Client, work: Work) -> None:
    client.projects.set("news", {"processing_timeout": SHORT_SECONDS})
    client.push_many("news", urls(8))
    hanging = work("handlers:wait", "news", "-j", "1", "--max-hung", "2")
    line_of(hanging)
    wait_until(lambda: client.projects.get("news").totals.timeout == 1)

    work("handlers:crawl", "news")
    wait_for(client, {"success": 8})

    totals = client.projects.get("news").totals
    assert (totals.selected, totals.timeout) == (9, 1)


HANGING = ("loop", "coroutine", "generator", "async_generator", "swallowing")


def test_handlers_that_hang_are_ended_and_what_is_behind_them_runs_in_the_same_process(
    client: Client, work: Work
) -> None:
    hanging = {"priority": 9, "retries": 0, "timeout": 2 * SHORT_SECONDS}
    client.push_many("news", [{"url": f"http://site/{kind}", **hanging} for kind in HANGING])
    client.push_many("news", urls(8))

    process = work("handlers:hang", "news", "-j", str(len(HANGING)), "--max-hung", "99", "--overtime", "0.2s")
    wait_for(client, {"failed": len(HANGING), "success": 8})

    process.send_signal(signal.SIGTERM)
    lines = process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 0
    assert {kind for kind in HANGING if f"event=overdue project=news taskid={taskid(kind)} " in lines} == set(HANGING)
    assert f" ended={len(HANGING)}" in lines.splitlines()[-1]


def taskid(kind: str) -> str:
    return default_taskid(f"http://site/{kind}")


def test_a_process_whose_handler_is_blocked_says_where_and_ends_and_the_next_one_runs_the_rest(
    client: Client, work: Work
) -> None:
    client.projects.set("short", {"processing_timeout": 2 * SHORT_SECONDS, "retries": 0})
    client.push("short", "http://site/blocked")
    client.push("news", "http://site/held")
    process = work("handlers:block", "-j", "2", "--max-hung", "1", "--overtime", "0.2s", "--grace", "0.1s")
    assert {line_of(process), line_of(process)} == {"http://site/blocked\n", "http://site/held\n"}

    lines = process.communicate(timeout=WAIT_SECONDS)[1]

    overdue = lines.partition("event=overdue ")[2].partition(" event=")[0]
    assert process.returncode == 75
    assert "url='http://site/blocked'" in overdue
    assert "in block\n    time.sleep(1000)" in overdue
    assert "event=gave-up reason='" in lines
    wait_for(client, {"ready": 1})
    work("handlers:crawl", "news")
    wait_for(client, {"success": 1})


def test_a_process_whose_handler_blocks_the_event_loop_says_where_and_ends_and_the_next_one_runs_the_rest(
    daemon: DaemonFactory, start: Callable[..., Process]
) -> None:
    it = daemon(auto_create=True, fetcher_timeout=10)
    with Client(it.url) as client:
        client.projects.set("news", {"processing_timeout": SHORT_SECONDS, "retries": 0})
        client.push_many("news", urls(3))
        process = start(*COMMAND, "handlers:block_loop", "-j", "2", "--overtime", "0.2s", "--daemon", it.url)
        blocked = line_of(process).strip()

        lines = process.communicate(timeout=WAIT_SECONDS)[1]

        shown = lines.partition("event=loop-blocked ")[2].partition(" event=")[0]
        assert process.returncode == 75
        assert f"url='{blocked}'" in shown
        assert "in block\n    time.sleep(1000)" in shown
        assert "_run_once" not in shown
        assert "event=gave-up reason='a handler blocks the event loop after its lease: seconds=" in lines
        start(*COMMAND, "handlers:crawl", "--daemon", it.url)
        wait_until(lambda: not client.projects.get("news").unfinished)


def wait_until(true: Callable[[], object]) -> None:
    """Ask until it is true; pytest's timeout ends it otherwise."""
    while not true():
        select.select([], [], [], 0.02)


# ---------------------------------------------------------------------------------------- how long it lives


@pytest.mark.parametrize("handler", ["tell", "tell_in_loop"])
@pytest.mark.parametrize(("concurrency", "most"), [("1", 1), ("1", 5), ("4", 5), ("8", 3)])
def test_a_worker_ends_after_just_as_many_runs_as_it_may_do(
    client: Client, work: Work, handler: str, concurrency: str, most: int
) -> None:
    client.push_many("news", urls(12))

    process = work(f"handlers:{handler}", "news", "-j", concurrency, "--max-tasks", str(most))
    run, lines = process.communicate(timeout=WAIT_SECONDS)

    assert process.returncode == 0
    assert len(run.splitlines()) == most
    assert f"event=max-tasks tasks={most} reason='no more tasks are taken" in lines
    assert lines.splitlines()[-1].endswith(f"event=stopped done={most} failed=0")
    wait_for(client, {"success": most, "ready": 12 - most})
    assert client.projects.get("news").totals.retried == 0


def test_the_last_run_of_a_worker_has_all_its_time_and_what_is_behind_it_goes_back_before(
    client: Client, work: Work
) -> None:
    client.push_many("news", urls(6))
    process = work("handlers:wait", "news", "-j", "1", "--prefetch", "4", "--max-tasks", "1", "--grace", "0")
    line_of(process)
    said(process, "max-tasks")

    wait_for(client, {"processing": 1, "ready": 5})
    go_on(process)

    assert process.wait(WAIT_SECONDS) == 0
    wait_for(client, {"success": 1, "ready": 5})


def test_a_worker_that_has_done_enough_does_not_wait_for_a_handler_that_hangs(client: Client, work: Work) -> None:
    client.projects.set("news", {"processing_timeout": SHORT_SECONDS, "retries": 0})
    client.push("news", "http://site/")

    process = work("handlers:block", "news", "-j", "2", "--max-tasks", "1", "--overtime", "600s")

    assert process.wait(WAIT_SECONDS) == 0
    wait_for(client, {"failed": 1})


@pytest.mark.parametrize("handler", ["leak", "leak_in_loop"])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_worker_ends_when_a_run_leaves_its_process_too_large(
    client: Client, work: Work, handler: str, concurrency: int
) -> None:
    client.push_many("news", [f"http://{n}/{LEAK_MIB}" for n in range(9)])

    process = work(f"handlers:{handler}", "news", "-j", str(concurrency), "--max-memory", MAX_MEMORY)
    lines = process.communicate(timeout=WAIT_SECONDS)[1]

    told = lines.partition("event=max-memory resident_bytes=")[2].split()
    assert process.returncode == 0
    assert int(told[0]) > 200 << 20
    assert told[1] == f"max_bytes={200 << 20}"
    known = counts(client)
    assert 1 <= known["success"] <= concurrency
    assert known == {"success": known["success"], "ready": 9 - known["success"]}
    assert client.projects.get("news").totals.retried == 0


def test_a_leak_right_after_a_look_at_the_memory_is_seen_though_no_more_tasks_come(client: Client, work: Work) -> None:
    client.push_many("news", ["http://first/0", f"http://second/{LEAK_MIB}"])

    process = work("handlers:leak", "news", "-j", "1", "--max-memory", MAX_MEMORY)

    assert "event=max-memory " in process.communicate(timeout=WAIT_SECONDS)[1]
    wait_for(client, {"success": 2})


@pytest.mark.parametrize("size", ["512", "0 MiB", "1.5G", "lots"])
def test_a_limit_that_is_no_size_is_refused_with_an_example(work: Work, size: str) -> None:
    process = work("handlers:crawl", "--max-memory", size)

    assert f'"{size}" is not a size; write it like 512M or "1 GiB"' in process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 2


def test_a_worker_ends_when_all_its_projects_have_finished(client: Client, work: Work) -> None:
    later = {"url": "http://site/later", "delay": 0.5}
    again = {"url": "http://site/again", "age": 3600, "auto_recrawl": True}
    client.push_many("news", [*urls(5), later, again])
    client.push("shop", "http://site/", delay=1)
    client.push("other", "http://site/")

    process = work("handlers:tell", "news", "shop", "-j", "2", "--until-finished")
    run, lines = process.communicate(timeout=WAIT_SECONDS)

    assert process.returncode == 0
    assert len(run.splitlines()) == 8
    assert "event=finished projects=news,shop reason='no more tasks are taken" in lines
    assert counts(client) == {"success": 6, "delayed": 1}
    assert client.projects.get("other").counts.ready == 1


def test_a_worker_without_a_task_ends_when_another_one_runs_the_last_of_its_project(
    it: Daemon, client: Client, work: Work
) -> None:
    client.push("news", "http://site/")
    runs = work("handlers:wait", "news")
    line_of(runs)
    idle = work("handlers:crawl", "news", "--until-finished")
    said(idle, "connected")

    it.kill()
    it.start()
    wait_for(client, {"processing": 1})
    assert idle.poll() is None
    go_on(runs)

    assert idle.wait(WAIT_SECONDS) == 0


@pytest.mark.parametrize(
    ("projects", "status", "reason"),
    [
        ([], 2, "--until-finished needs the projects that are to finish, behind the handler."),
        (["nwes"], 1, 'taskqueue: project: "nwes" is unknown; make it with: taskqueue project start nwes'),
    ],
)
def test_a_worker_that_is_to_end_with_a_project_must_know_it(
    work: Work, projects: list[str], status: int, reason: str
) -> None:
    process = work("handlers:crawl", *projects, "--until-finished")

    assert reason in process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == status


# ---------------------------------------------------------------------------------------- signals

OWN_LOOP = """
import asyncio, sys
from handlers import wait
from taskqueue import Worker

async def main():
    await Worker(wait, client=sys.argv[1], concurrency=2, prefetch=2, grace=0.1).serve(signals=True)
    print("and now something else", flush=True)

asyncio.run(main())
"""


def test_a_worker_in_a_loop_of_its_own_hands_back_its_tasks_on_sigterm(
    it: Daemon, client: Client, start: Callable[..., Process]
) -> None:
    client.push_many("news", urls(4))
    process = start(sys.executable, "-c", OWN_LOOP, it.url)
    line_of(process)

    process.send_signal(signal.SIGTERM)

    assert line_of_kind(process, "and now") == "and now something else\n"
    wait_for(client, {"ready": 4})
    assert client.projects.get("news").totals.retried == 0


def line_of_kind(process: Process, beginning: str) -> str:
    """Return the next line that begins with this."""
    while not (line := line_of(process)).startswith(beginning):
        assert line
    return line


RUN = """
import sys
from handlers import wait
from taskqueue import Worker

Worker(wait, client=sys.argv[1], concurrency=1, grace=0.1).run()
"""


@pytest.mark.parametrize("command", [["-c", RUN], ["-m", "taskqueue.cli.main", "work", "handlers:wait", "--daemon"]])
def test_two_interrupts_within_milliseconds_are_no_traceback(
    it: Daemon, client: Client, start: Callable[..., Process], command: list[str]
) -> None:
    client.push_many("news", urls(3))
    process = start(sys.executable, *command, it.url)
    line_of(process)

    process.send_signal(signal.SIGINT)
    select.select([], [], [], 0.003)
    process.send_signal(signal.SIGINT)

    assert "Traceback" not in process.communicate("\n", timeout=WAIT_SECONDS)[1]


def test_a_worker_that_was_stopped_ends_without_the_handler_that_hangs(client: Client, work: Work) -> None:
    client.push("news", "http://site/")
    process = work("handlers:wait", "news", "--grace", "0.1")
    line_of(process)

    process.send_signal(signal.SIGTERM)

    assert process.wait(WAIT_SECONDS) == 0
    wait_for(client, {"ready": 1})


def test_a_worker_that_was_stopped_ends_without_the_async_handler_that_ignores_it(client: Client, work: Work) -> None:
    client.push("news", "http://site/")
    process = work("handlers:ignore", "news", "--grace", "0.1")
    line_of(process)

    process.send_signal(signal.SIGTERM)

    said = process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 0
    assert all(" event=" in line for line in said.splitlines())
    wait_for(client, {"ready": 1})


def test_another_interrupt_ends_a_worker_whose_handler_hangs(client: Client, work: Work) -> None:
    client.push("news", "http://site/")
    process = work("handlers:wait", "news")
    line_of(process)

    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        select.select([], [], [], 0.05)

    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in process.communicate()[1]


def test_the_example_of_a_loop_without_a_worker_ends_on_sigterm(
    it: Daemon, client: Client, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    client.push_many("demo", urls(3))
    process = start(sys.executable, str(EXAMPLES / "own_loop.py"))
    client.projects.wait("demo")

    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=WAIT_SECONDS) == ("", "")
    assert process.returncode == 0
    wait_until(lambda: all(fetcher.capacity == 0 for fetcher in client.fetchers.list().fetchers))
