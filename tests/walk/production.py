"""Walk from nothing to production: the steps of docs/howto, each with its time, watched by a real Prometheus.

    python -m tests.walk.production      print each command and what it printed, and a table; 1 if one was not expected

    daemon   192.0.2.1 ──┐   by the command line of conf/taskqueue.service, with keys and the dashboard
    worker         .2 ───┼── bridge
    monitor        .3 ───┤   Prometheus, with the alerts and the board of ``taskqueue config``
    operator       .4 ───┘

What an operator would have to guess is counted: a command of which no page of docs/howto and no file for operators
shows all options. The package is built and installed as users do, but its dependencies are those of this environment.
All processes run as the user who walks, and without the sandbox of the units.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import site
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.prometheus import Prometheus
from tests.walk.machines import LOOK_SECONDS, ROOT, WAIT_SECONDS, Machine, Walk, begin, running

MACHINES: Final = ("daemon", "worker", "monitor", "operator")
HERE: Final = "192.0.2.254"
"""Address of this process on the bridge."""
WEB: Final = "192.0.2.1:7401"
MONITOR: Final = "192.0.2.3:9090"
PROGRAM: Final = "/opt/taskqueue/bin/taskqueue"
UNIT: Final = ROOT / "conf" / "taskqueue.service"
WORKER_UNIT: Final = ROOT / "conf" / "taskqueue-worker@.service"
WATCH: Final = ROOT / "docs" / "howto" / "watch.md"
FORMER_STORE: Final = ROOT / "tests" / "former_stores" / "release_0_1_0" / "store.tar.xz"
NOT_SOURCES: Final = (".git", ".venv*", "build", "dist", "data", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
ALERT_SECONDS: Final = 180.0
"""Longest wait for an alert: some hold for a minute before they fire."""
EACH_SECOND: Final = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
"""Settings of Prometheus for a walk that does not wait."""
VARIABLES: Final = {"$instance": ".*", "$project": ".*", "$__rate_interval": "1m"}
"""Values of the board's variables."""

CONFIG: Final = """\
[daemon]
bind = "tcp://192.0.2.1:7400"
keys = "{var}/access.json"
web = "192.0.2.1:7401"
[store]
path = "{store}"
min_free = "{min_free}"
"""
FIRST: Final = "http://first.example/page"
ENOUGH: Final = "1 MiB"
NEVER_ENOUGH: Final = "1000000 GiB"

HANDLER: Final = """\
import time
from taskqueue import Drop, Retry

def crawl(task):
    kind = task.url.rpartition("/")[2].partition("?")[0]
    if kind == "busy":
        raise Retry(status_code=429)
    if kind == "broken":
        raise RuntimeError("HTTP 500")
    if kind == "gone":
        raise Drop("HTTP 404")
    if kind == "slow":
        time.sleep(10)
    time.sleep(0.01)
"""
PRODUCER: Final = """\
import itertools, time
from taskqueue import Client, TaskQueueError, new_task
with Client() as client:
    for n in itertools.count():
        kinds = ["page"] * 8 + ["broken", "gone"] + ["busy", "slow"] * (n % 20 == 0)
        urls = [f"http://host-{i}.example/{kind}?{n}" for i, kind in enumerate(kinds)]
        try:
            client.push_many("news", [*urls, new_task(f"http://later.example/page?{n}", delay=1)])
        except TaskQueueError as error:
            print(error, flush=True)
        time.sleep(0.5)
"""


class Step(NamedTuple):
    """Row of the table.

    Attributes:
        page: document that has its commands.
        guesses: what none of the documents shows.
    """

    title: str
    page: str
    seconds: float
    commands: int
    guesses: list[str]


class Production(Walk):
    """Walk from nothing to production.

    Attributes:
        steps: steps that were made.
        var, etc: folders of the daemon's machine, for /var/lib/taskqueue and /etc/taskqueue.
        prometheus: once it runs.
    """

    prometheus: Prometheus

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(MACHINES, folder, stack)
        subprocess.run(["ip", "address", "add", f"{HERE}/24", "dev", "bridge"], check=True)
        _, self.worker, self.monitor, self.operator = self.machines
        self.steps: list[Step] = []
        self.var, self.etc = self.daemon.folder / "var", self.daemon.folder / "etc"
        self.config = self.etc / "taskqueue.toml"
        self._folder = folder
        self._ran: list[tuple[str, ...]] = []
        self._service: subprocess.Popen[bytes] | None = None
        self._notified = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._notified.bind(str(folder / "notify"))
        self._notified.settimeout(WAIT_SECONDS)
        for made in (self.var, self.etc):
            made.mkdir()

    @contextmanager
    def step(self, title: str, page: str) -> Iterator[None]:
        """Take the time of a step, and look whether documents have its commands."""
        print(f"\n## {title}", flush=True)
        self._ran, began_at = [], time.monotonic()
        yield
        seconds = time.monotonic() - began_at
        guesses = sorted({guess for words in self._ran for guess in guesses_of(words)})
        self.steps.append(Step(title, page, seconds, len(self._ran), guesses))

    def run(self, at: Machine, *words: str, status: int = 0, why: str = "") -> str:
        """Run a command on a machine, as ``Walk`` does, and keep it for the table."""
        if words[0] == "taskqueue":
            self._ran.append(words)
        return super().run(at, *words, status=status, why=why)

    def expect(self, is_so: bool, what: str) -> None:
        """Note what is not as it should be."""
        print(f"    {'ok' if is_so else 'NOT SO'}: {what}", flush=True)
        if not is_so:
            self.unexpected.append(what)

    def wait_until(self, is_so: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until it is so, and say how long that took."""
        began_at = time.monotonic()
        while not is_so() and time.monotonic() < began_at + seconds:
            time.sleep(LOOK_SECONDS)
        self.expect(is_so(), f"{what}, after {time.monotonic() - began_at:.1f} s")

    # ------------------------------------------------------------------------------------------------ the daemon

    def configure(self, store: str = "store", min_free: str = ENOUGH) -> None:
        """Write the daemon's config file."""
        self.config.write_text(CONFIG.format(var=self.var, store=self.var / store, min_free=min_free))

    def start_service(self) -> None:
        """Start the daemon by its unit's command line, and wait until it reports that it serves."""
        command = setting_of(UNIT, "ExecStart").replace("/etc/taskqueue", str(self.etc))
        words = shlex.split(command.replace(PROGRAM, "taskqueue"))
        variables = self.daemon.environment() | {"NOTIFY_SOCKET": self._notified.getsockname()}
        print(f"\n[{self.daemon.name} {self.daemon.address}] by its unit\n$ {' '.join(words)}", flush=True)
        with (self.daemon.folder / "log").open("a") as log:
            service = running(self.daemon.command(*words), cwd=self.var, env=variables, stdout=log, stderr=log)
            self._service = self._stack.enter_context(service)
        said = self._notified.recv(4096).decode()
        self.expect(said.startswith("READY=1"), said.partition("STATUS=")[2])

    def reload_service(self) -> None:
        """Do what ExecReload says last; before, it checks the file of an installed daemon."""
        assert self._service is not None
        reload = settings_of(UNIT, "ExecReload")[-1].replace("$MAINPID", str(self._service.pid))
        subprocess.run(shlex.split(reload), check=True)

    def stop_service(self, *, is_killed: bool = False) -> None:
        """Stop the daemon, or kill it."""
        assert self._service is not None
        (self._service.kill if is_killed else self._service.terminate)()
        self._service.wait(WAIT_SECONDS)
        self._notified.setblocking(False)
        try:
            while True:
                self._notified.recv(4096)
        except BlockingIOError:
            self._notified.settimeout(WAIT_SECONDS)


def settings_of(unit: Path, name: str) -> list[str]:
    """Return all values of a setting of a unit, one at least."""
    found = re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    assert found, f"{unit}: {name}"
    return found


def setting_of(unit: Path, name: str) -> str:
    """Return the first value of a setting of a unit."""
    return settings_of(unit, name)[0]


def guesses_of(words: tuple[str, ...]) -> list[str]:
    """Return the command with those of its options that no page shows which names the command."""
    plain = [word for word in words if re.fullmatch(r"[a-z]+", word)]
    options = [word for word in words if word.startswith("--")]
    files = [*(ROOT / "docs" / "howto").glob("*.md"), *(ROOT / "conf").iterdir(), ROOT / "compose.yml"]
    texts = [path.read_text() for path in files]
    for count in (3, 2):
        command = " ".join(plain[:count])
        if pages := [text for text in texts if command in text]:
            return [f"`{command} {each}`" for each in options if not any(each in text for text in pages)]
    return [f"`{' '.join(plain[:3])}`"]


# ------------------------------------------------------------------------------------------------ steps


def install(it: Production, folder: Path) -> None:
    """Build the package and install it into a fresh environment, which all machines share."""
    tree, wheels, made = folder / "tree", folder / "wheels", folder / "opt"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    isolated = ["--no-index", "--no-deps"]
    subprocess.run([*pip, "wheel", *isolated, "--no-build-isolation", "-w", wheels, "."], cwd=tree, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    python = made / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", *isolated, *wheels.glob("*.whl")], check=True)
    shutil.rmtree(tree)
    packages = next(made.glob("lib/*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    for machine in it.machines:
        machine.python = str(python)
        machine.variables["PYTHONPATH"] = ""
    where = it.run(it.operator, "-c", "import taskqueue; print(taskqueue.__file__)")
    it.expect(where.startswith(str(made)), "it is the installed one")


def serve(it: Production) -> str:
    """Start the daemon, with keys and the dashboard; return its public key."""
    it.run(it.daemon, "taskqueue", "config", "init", str(it.config), why="every setting with its default")
    it.configure()
    it.run(it.daemon, "taskqueue", "config", "check", str(it.config))
    it.daemon.variables["TASKQUEUE_DAEMON_KEYS"] = str(it.var / "access.json")
    server = it.run(it.daemon, "taskqueue", "key", "server", why="its public key").split()[-1]
    it.start_service()
    return server


def let_in(it: Production, server: str) -> None:
    """Make keys for a worker and an operator, and a token for Prometheus."""
    it.new_key(it.worker, "web1", server, "--role", "fetcher", "--projects", "news")
    it.new_key(it.operator, "ops", server, "--role", "admin")
    token = it.run(
        it.daemon, "taskqueue", "key", "authorise", "prometheus", "--token", "--role", "viewer", why="for Prometheus"
    )
    (it.monitor.folder / "token").write_text(token.split()[-1])


def start_worker(it: Production) -> None:
    """Start a worker by its unit's command line."""
    (it.worker.folder / "crawler.py").write_text(HANDLER)
    command = setting_of(WORKER_UNIT, "ExecStart").replace(PROGRAM, "taskqueue").replace("%i@%H", "crawler@worker")
    it.begin(it.worker, "log", *shlex.split(command.replace("$HANDLER", "crawler:crawl").replace("$PROJECTS", "news")))


def crawl(it: Production) -> None:
    """Set a project up, push the first task, and see it done; then go on pushing."""
    settings = ("rate=inf", "slot.by=host", "slot.delay=0.05", "processing_timeout=2", "retry_delay=1", "retries=2")
    it.run(it.operator, "taskqueue", "project", "set", "news", *settings, "fail_pause_num=0")
    it.run(it.operator, "taskqueue", "push", "news", FIRST)
    it.await_output(it.operator, "success", "taskqueue", "task", "show", "news", FIRST, why="it was done")
    it.run(it.operator, "taskqueue", "project", "start", "forum", why="a project without a fetcher")
    it.run(it.operator, "taskqueue", "push", "forum", "http://forum.example/")
    it.begin(it.operator, "produced", "-c", PRODUCER)


def watch(it: Production) -> None:
    """Start Prometheus with the scrape config of the page, and with the alerts."""
    alerts = it.monitor.folder / "prometheus-alerts.yml"
    alerts.write_text(it.run(it.monitor, "taskqueue", "config", "alerts", why="the alerts") + "\n")
    block = re.search(r"```yaml\n(.*?)```", WATCH.read_text(), re.DOTALL)
    assert block is not None
    token = str(it.monitor.folder / "token")
    config = block[1].replace("127.0.0.1:7401", WEB).replace("/etc/prometheus/taskqueue-token", token)
    it.prometheus = Prometheus(it.monitor.folder, EACH_SECOND + config, MONITOR, it.monitor.enter)
    it.wait_until(lambda: it.prometheus.values("taskqueue_up") == [1.0], "Prometheus sees the daemon")


def alert(it: Production) -> None:
    """Have a disk without room, and see its alert fire and end."""
    it.expect(it.prometheus.firing() == set(), f"no alert fires: {it.prometheus.firing()}")
    it.configure(min_free=NEVER_ENOUGH)
    it.reload_service()
    name = "TaskqueueDiskNearlyFull"
    it.wait_until(lambda: name in it.prometheus.firing(), f"{name} fires")
    it.await_output(it.operator, "full", "taskqueue", "status", why="what an operator sees")
    it.configure()
    it.reload_service()
    it.wait_until(lambda: name not in it.prometheus.firing(), f"{name} has ended")


def board(it: Production) -> None:
    """Ask Prometheus each query of the board, until each has a value."""
    made = json.loads(it.run(it.monitor, "taskqueue", "config", "board", why="the board"))
    queries = [(panel["title"], each["expr"]) for panel in made["panels"] for each in panel.get("targets", ())]

    def empty() -> list[str]:
        return [f"{title}: {query}" for title, query in queries if not answered(it.prometheus, query)]

    it.wait_until(lambda: not empty(), f"each of {len(queries)} queries of the board has a value", ALERT_SECONDS)
    for each in empty():
        print(f"    without a value: {each}")


def answered(prometheus: Prometheus, query: str) -> bool:
    """Whether a query of the board has a value that is a number."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return any(map(math.isfinite, prometheus.values(query)))


def back_up(it: Production) -> None:
    """Copy the store while all goes on."""
    it.run(it.daemon, "taskqueue", "store", "backup", "monday", "-c", str(it.config))
    it.run(it.daemon, "taskqueue", "store", "check", "monday")


def restore(it: Production) -> None:
    """Lose the store and the daemon, see the alert, put the backup back, and find what was acknowledged before it."""
    it.stop_service(is_killed=True)
    shutil.rmtree(it.var / "store")
    it.wait_until(lambda: "TaskqueueAway" in it.prometheus.firing(), "TaskqueueAway fires", ALERT_SECONDS)
    it.run(it.daemon, "taskqueue", "store", "restore", "monday", "-c", str(it.config))
    it.start_service()
    it.wait_until(lambda: "TaskqueueAway" not in it.prometheus.firing(), "TaskqueueAway has ended")
    it.run(it.daemon, "taskqueue", "daemon", "verify")
    again = it.run(it.operator, "taskqueue", "push", "news", FIRST, why="from before the backup")
    it.expect("1 ignored" in again, "the task from before the backup is known")


def upgrade(it: Production) -> None:
    """Have this version go on with the store that the former release left behind."""
    it.stop_service()
    with tarfile.open(FORMER_STORE) as archive:
        archive.extractall(it.var / "former", filter="data")
    it.configure(store="former/store")
    it.run(
        it.daemon, "taskqueue", "store", "backup", "late", "-c", str(it.config), status=1, why="by the newer version"
    )
    shutil.copytree(it.var / "former", it.var / "former-copy")
    it.run(it.daemon, "taskqueue", "config", "check", str(it.config))
    it.start_service()
    it.run(it.daemon, "taskqueue", "daemon", "verify")
    it.await_output(it.operator, "success", "taskqueue", "task", "show", "news", "done", why="by the former release")


def walk(folder: Path, stack: ExitStack) -> Walk:
    """Make all steps, and print the table."""
    it = Production(folder, stack)
    with it.step("the package, in a fresh environment", "run-the-daemon"):
        install(it, folder)
    with it.step("the daemon, by its unit", "run-the-daemon"):
        server = serve(it)
    with it.step("keys for worker and operator, a token", "keys"):
        let_in(it, server)
    with it.step("a worker, by its unit", "run-the-daemon"):
        start_worker(it)
    with it.step("the first task", "workers"):
        crawl(it)
    with it.step("Prometheus with the alerts", "watch"):
        watch(it)
    stack.callback(it.prometheus.process.kill)
    with it.step("a full disk: an alert fires and ends", "watch"):
        alert(it)
    with it.step("a backup", "backup-and-undo"):
        back_up(it)
    with it.step("the store is lost and restored, another alert", "backup-and-undo"):
        restore(it)
    with it.step("the board, each query with a value", "watch"):
        board(it)
    with it.step("an upgrade from the former release", "upgrade"):
        upgrade(it)
    print("\n" + "\n".join(table(it.steps)))
    return it


def table(steps: list[Step]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield from ("| step | page | seconds | commands | guessed |", "|---|---|---:|---:|---|")
    for step in steps:
        yield f"| {step.title} | {step.page} | {step.seconds:.1f} | {step.commands} | {', '.join(step.guesses)} |"
    yield f"| all | | {sum(step.seconds for step in steps):.1f} | {sum(step.commands for step in steps)} | |"


if __name__ == "__main__":
    sys.exit(begin("tests.walk.production", walk))
