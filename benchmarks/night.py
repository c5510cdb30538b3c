"""Ask ten questions of a night on call, of a daemon with 200,000 tasks in 30 projects.

    python -m benchmarks.night                    builds the daemon, asks, prints a table; about a minute
    python -m benchmarks.night --tasks 3000       with fewer tasks
    python -m benchmarks.night --whole            with the whole of each answer

Each question is one command, run as a whole process and timed from its start to its end. Twenty projects crawl hosts
that fail; each of ten others has one thing wrong. All of it was caused from outside: by a config file, clients and
fetchers. Commands that change something run once, the others several times.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, Final, NamedTuple, Self

from benchmarks.daemon import Daemon, Peer
from taskqueue import Client, new_task
from taskqueue.protocol.fetchers import Hello, Hung, Select
from taskqueue.protocol.tasks import Done, DoneReply
from taskqueue.protocol.values import Assignment, Fetched, TaskReport

GROUP: Final = "night"
SHOPS: Final = tuple(f"shop-{number:02}" for number in range(1, 21))
SHOWN: Final = 3
"""Printed lines of an answer."""

PATIENCE_SECONDS: Final = 60.0

HOSTS: Final = 50
BROKEN: Final = "http://host-7.example/"
"""Site whose pages all fail."""

SPECIAL: Final = "news", "papers", "archive", "bank", "forum", "images", "blog", "reports", "calendar", "slow"
"""Projects that show one thing each."""

PARENT: Final = "january"
"""Taskid that the tasks of reports wait for, and that is never pushed."""

FETCHED: Final = "news", "slow", "blog", *SHOPS
"""Projects that the two large fetchers ask for."""

CONFIG: Final = """
[daemon]
fetcher_timeout = 3600
[store]
durability = "interval"
min_free = "{min_free}"
[defaults]
group = "night"
rate = 2
burst = {burst}
[projects.archive]
rate = 0
[projects.bank]
active = "{hours} UTC"
[projects.slow]
retries = 0
fail_pause_num = 0
[projects.blog]
slot.by = "host"
"""


class Question(NamedTuple):
    """Question, and the command that answers it.

    Attributes:
        says: regular expression that the first SHOWN lines of the answer must match; empty: none yet.
        once: True if the command changes something, so that it runs a single time.
    """

    asks: str
    command: tuple[str, ...]
    says: str = ""
    once: bool = False


class Answer(NamedTuple):
    """Output of a command, its elapsed seconds, and its own CPU seconds."""

    question: Question
    status: int
    text: str
    seconds: float
    cpu_seconds: float


def why(what: str, project: str, says: str) -> Question:
    """Ask why a project is silent."""
    return Question(f"why is {project} silent? ({what})", ("why", project), says)


HUNG: Final = (
    r"the only place of img1 is occupied by a handler whose lease has ended, for \d+ min.*: http://images\.example/0"
)

QUESTIONS: Final = (
    Question("is it alive?", ("status", "--limit", "5"), r"up \d.*, epoch"),
    Question("what is silent, and why?", ("why",), r"img1"),
    why("paused", "papers", "was paused by an operator; resume it with: taskqueue project resume papers"),
    why("out of hours", "bank", r"outside its active hours .*, which begin in"),
    why("rate 0", "archive", "has a rate of 0; set another one with: taskqueue project set archive rate=1"),
    why("no fetcher", "forum", "no fetcher asks for them"),
    why("hung", "images", HUNG),
    why("slot put off", "blog", r'no slot that may dispatch now; next: "blog.example" .*may dispatch in'),
    why("parents", "reports", rf'blocked(.|\n)*"{PARENT}" \(unknown: '),
    Question("which host fails?", ("failures", "--by", "host"), r"host-7\.example"),
    Question("which fetcher is stuck, on what?", ("fetcher", "list", "--sort", "hung", "--limit", "1"), HUNG),
    Question("who changed the rate, from what?", ("log", "news", "--limit", "2"), r"rate=5 \(was 20\)"),
    Question("how far, when done?", ("project", "show", "shop-01"), r"how far"),
    Question(
        "retry last night's timeouts",
        ("task", "retry", "--group", GROUP, "--error-glob", "*timed out*", "--since", "12h", "--yes"),
        r"\d+ tasks",
        once=True,
    ),
    Question("how much disk is free?", ("daemon", "show"), r"free"),
    Question(
        "what did the daemon do when latency rose?",
        ("daemon", "show", "--history"),
        r"No minute is complete yet|commit",
    ),
    Question(
        "undo a cancel",
        ("task", "retry", "calendar", "--state", "cancelled", "--since", "12h", "--yes"),
        r"\d+ tasks",
        once=True,
    ),
)

FULL: Final = (
    why("disk full", "forum", "waits for disk space"),
    Question("alive, with a full disk?", ("status",), "full"),
)
"""Questions about a disk with less free space than the daemon demands."""


# ------------------------------------------------------------------------------------------------ fetchers


class Fetcher:
    """Fetcher that holds its tasks, and reports when it is told to."""

    def __init__(self, url: str, name: str, projects: Sequence[str], capacity: int) -> None:
        self._peer = Peer(url, f"{name}-{os.urandom(8).hex()}")
        self._name = name
        self._projects = list(projects)
        self._capacity = capacity
        self._seen = 0
        self.held: list[Assignment] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of: object) -> None:
        self._peer.__exit__(None, None, None)

    def hello(self, **facts: Any) -> None:
        """Say what the fetcher wants, and what it holds."""
        self._peer.send(
            Hello(
                session=self._peer.session,
                n=self._peer.number(),
                capacity=self._capacity,
                projects=self._projects,
                holds=[task.token for task in self.held],
                seen=self._seen,
                name=self._name,
                **facts,
            )
        )

    def take(self, count: int) -> None:
        """Wait until it holds this many tasks."""
        self.hello()
        while len(self.held) < count:
            self._hear()

    def run(self, count: int, outcome: Callable[[Assignment], dict[str, Any]]) -> None:
        """Take and report this many tasks, or some more."""
        while count > 0:
            self.take(1)
            some, self.held = self.held[:1000], self.held[1000:]
            count -= len(some)
            self._report([TaskReport(task.project, task.taskid, task.token, **outcome(task)) for task in some])

    def _report(self, reports: list[TaskReport | None]) -> None:
        self._peer.send(Done(session=self._peer.session, n=self._peer.number(), tasks=reports))
        while not isinstance(self._hear(), DoneReply):
            pass

    def _hear(self) -> Any:
        message = self._peer.receive()
        if isinstance(message, Select):
            self._seen = message.number
            self.held += message.tasks
        return message


def outcome_of(task: Assignment) -> dict[str, Any]:
    """Choose the outcome of a task: one host is unreachable, another project is slow, all else succeeds."""
    if task.project == "slow":
        return {"ok": False, "error": "TimeoutError: timed out", "kind": "TimeoutError: timed out"}
    if task.project == "blog":
        return {"ok": False, "error": "HTTP 429", "retry_after": 1800.0, "fetched": Fetched(status_code=429)}
    if task.url.startswith(BROKEN):
        return {"ok": False, "error": "HTTP 503 Service Unavailable", "kind": "HTTP 503"}
    return {}


# ------------------------------------------------------------------------------------------------ the night


class Night:
    """Daemon in the middle of a night; close it after use.

    Args:
        tasks: number of tasks in all projects, 600 at least.
    """

    def __init__(self, tasks: int) -> None:
        self._few = min(200, tasks // 60)
        self._each = (tasks - self._few * len(SPECIAL)) // len(SHOPS)
        self._burst = max(20, tasks // 400)
        self._stack = ExitStack()
        self.daemon = Daemon(self._config("1 MiB"), core="")

    def __enter__(self) -> Self:
        with ExitStack() as begun:
            begun.enter_context(self.daemon)
            self.daemon.wait()
            with Client(self.daemon.url) as client:
                self._push(client)
                self._change(client)
                self._fetch(client, begun)
            self._stack = begun.pop_all()
        return self

    def __exit__(self, *of: object) -> None:
        self._stack.close()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Make the daemon believe that its disk is full."""
        with Client(self.daemon.url) as client:
            self._leave_free("1000000 GiB")
            _until(lambda: not client.daemon.show().has_room)
            yield
            self._leave_free("1 MiB")
            _until(lambda: client.daemon.show().has_room)

    def _leave_free(self, size: str) -> None:
        (self.daemon.folder / "taskqueue.toml").write_text(self._config(size))
        os.kill(self.daemon.pid, signal.SIGHUP)

    def _config(self, min_free: str) -> str:
        in_six, in_seven = (time.strftime("%H:00", time.gmtime(time.time() + hours * 3600)) for hours in (6, 7))
        return CONFIG.format(min_free=min_free, burst=self._burst, hours=f"{in_six}-{in_seven}")

    def _push(self, client: Client) -> None:
        for project in (*SPECIAL, *SHOPS):
            client.projects.start(project)
        for project in SPECIAL:
            parents = [PARENT] if project == "reports" else []
            urls = (f"http://{project}.example/{number}" for number in range(self._few))
            client.push_many(project, (new_task(url, depends_on=parents) for url in urls))
        for project in SHOPS:
            urls = (f"http://host-{number % HOSTS}.example/{project}/{number}" for number in range(self._each))
            client.push_many(project, urls)

    def _change(self, client: Client) -> None:
        client.projects.set("news", {"rate": 20})
        client.projects.set("news", {"rate": 5})
        client.projects.pause("papers")
        shown = ask(self.daemon.url, ("task", "cancel", "calendar", "--url-glob", "http://calendar.example/*", "--yes"))
        if shown.status:
            raise SystemExit(shown.text)

    def _fetch(self, client: Client, begun: ExitStack) -> None:
        images = begun.enter_context(Fetcher(self.daemon.url, "img1", ["images"], 1))
        images.take(1)
        self._hang(client, images)
        for name, count in (("web1", self._burst * len(SHOPS) * 3 // 4), ("web2", 1)):
            begun.enter_context(Fetcher(self.daemon.url, name, FETCHED, 1000)).run(count, outcome_of)

    def _hang(self, client: Client, fetcher: Fetcher) -> None:
        """Let the fetcher report that its handler goes on although its task was cancelled."""
        (task,) = fetcher.held
        client.tasks.cancel(task.project, [task.taskid])
        running = [task.token]
        fetcher.hello(running=running)
        fetcher.held.clear()
        fetcher.hello(running=running, hung=Hung(1, 540.0, task.project, task.taskid, task.url))
        _until(lambda: any(each.hung for each in client.fetchers.list().fetchers))


def _until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so.

    Raises:
        SystemExit: it takes too long.
    """
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > ends_at:
            raise SystemExit("the daemon did not reach the expected state in time")
        time.sleep(0.05)


# ------------------------------------------------------------------------------------------------ asking


def ask(url: str, command: Sequence[str], question: Question | None = None) -> Answer:
    """Run a command, as an operator does."""
    environment = {**os.environ, "TASKQUEUE_DAEMON": url, "COLUMNS": "120"}
    spent, began = os.times(), time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-m", "taskqueue", *command], capture_output=True, text=True, env=environment, check=False
    )
    seconds, now = time.perf_counter() - began, os.times()
    cpu = now.children_user + now.children_system - spent.children_user - spent.children_system
    return Answer(question or Question("", tuple(command)), run.returncode, run.stdout + run.stderr, seconds, cpu)


def answers(url: str, questions: Sequence[Question], rounds: int) -> Iterator[Answer]:
    """Yield the answer to each question, with the median of its times."""
    for question in questions:
        asked = [ask(url, question.command, question) for _ in range(1 if question.once else rounds)]
        seconds, cpu_seconds = (median(each) for each in zip(*(answer[3:] for answer in asked), strict=True))
        yield asked[0]._replace(seconds=seconds, cpu_seconds=cpu_seconds)


def table(found: Sequence[Answer], whole: bool) -> Iterator[str]:
    """Yield lines of a table: question, command, seconds, the first lines of the answer."""
    yield "| question | command | s | CPU, s | answer |"
    yield "|---|---|---:|---:|---|"
    for answer in found:
        said = "<br>".join(lines_of(answer.text)[: None if whole else SHOWN])
        command = " ".join(("taskqueue", *map(shlex.quote, answer.question.command)))
        times = f"{answer.seconds:.2f} | {answer.cpu_seconds:.2f}"
        yield f"| {answer.question.asks} | `{command}` | {times} | {said.replace('|', '/')} |"


def lines_of(text: str) -> list[str]:
    """Return non-empty lines, with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def main() -> None:
    """Build the night, ask, and print."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tasks", type=int, default=200_000)
    made.add_argument("--rounds", type=int, default=3, help="runs of each command that changes nothing")
    made.add_argument("--whole", action="store_true", help="print the whole of each answer")
    options = made.parse_args()
    began = time.perf_counter()
    with Night(options.tasks) as night:
        projects, seconds = len(SHOPS) + len(SPECIAL), time.perf_counter() - began
        print(f"{options.tasks:,} tasks in {projects} projects, {seconds:.0f} s to build", end="\n\n", flush=True)
        found = list(answers(night.daemon.url, QUESTIONS, options.rounds))
        with night.full_disk():
            found += answers(night.daemon.url, FULL, options.rounds)
    print("\n".join(table(found, options.whole)))


if __name__ == "__main__":
    main()
