"""Published crawlers, unchanged, on a site that judges them: python -m tests.politeness.crawlers

README.md, the examples and the documents say by which commands each is run, and these commands are run here. Changed
are only the crawled site, the timeout of requests, and the rate of the project, which no site can see.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from taskqueue import Client
from tests.integration.conftest import ROOT, Daemon
from tests.integration.nursery import Forked
from tests.politeness.judging_site import JudgingSite, complaints

TIMEOUT_SECONDS: Final = 5
"""Timeout for a page that hangs; on any machine others come sooner."""
WAIT_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.02

MOST_MEMORY: Final = 150 << 20
"""Memory limit of a worker, whatever it is sent."""

PACE: Final = {"slot": {"delay": 0.01}, "retries": 0}
"""Settings of all projects; those in the commands win."""

PAGES: Final = ("README.md", "docs/howto/fetching.md", "docs/howto/robots.md", "docs/howto/workers.md")
"""Pages with a file ``crawler.py`` and the commands that run it."""

ENDING: Final = ("crawl_to_the_end.py", "producer.py")
"""Programs that end by themselves."""

ROBOTS_FRONT: Final = ("/page/2", "/busy/0")
"""Pages few enough for a crawl-delay of a second."""


class Crawler(NamedTuple):
    """Crawler as it is published.

    Attributes:
        project: project that it crawls for.
        files: its code, by file name.
        commands: its commands, one a line.
    """

    project: str
    files: dict[str, str]
    commands: list[str]
    keeps_to_robots: bool = False


class Crawled(NamedTuple):
    """Result of a crawl.

    Attributes:
        complaints: lines of the site, and of hosts that must not be visited.
        peak_bytes: peak resident memory of the largest process.
    """

    complaints: list[str]
    requests: int
    peak_bytes: int


def crawlers() -> dict[str, Crawler]:
    """Find all crawlers, by where they are published."""
    examples = {f"examples/{path.name}": path.read_text() for path in (ROOT / "examples").glob("*.py")}
    found = {
        name: Crawler("demo", examples, _commands(code), "robots" in code)
        for name, code in examples.items()
        if "python examples/" in code and "Http" in "".join(examples[used] for used in _used(code))
    }
    return found | {page: _published((ROOT / page).read_text()) for page in PAGES}


def _published(page: str) -> Crawler:
    [code] = re.findall(r"<!-- file: crawler.py -->\n```python\n(.*?)```", page, re.DOTALL)
    # A worker that has ended has no peak memory left to read.
    commands = [line.removesuffix(" --until-finished") for line in _commands(page)]
    project = shlex.split(commands[0])[3]
    return Crawler(project, {"crawler.py": code}, commands, "robots" in code)


def crawl(crawler: Crawler, folder: Path) -> Crawled:
    """Run a crawler until its project is finished; return the site's judgement.

    Raises:
        AssertionError: a process has ended, or the crawl does not end.
    """
    with ExitStack() as stack:
        stranger = JudgingSite()
        stack.callback(stranger.close)
        local = folder / "local.html"
        local.write_text('<a href="/from-disk">')
        foreign = f'<a href="{local.as_uri()}"><a href="{stranger.url}/"><a href="mailto:ann@site"><a href="data:,x">'
        site = JudgingSite(foreign, ROBOTS_FRONT if crawler.keeps_to_robots else (), crawler.keeps_to_robots)
        stack.callback(site.close)
        site.redirect("/away", f"{stranger.url}/secret")
        site.redirect("/disk", local.as_uri())
        peak_bytes = _run(crawler, folder, site)
    said = complaints(site, keeps_to_robots=crawler.keeps_to_robots)
    said += [f"{visit.path}: asked of a stranger" for visit in stranger.visits]
    return Crawled(said, len(site.visits), peak_bytes)


def _run(crawler: Crawler, folder: Path, site: JudgingSite) -> int:
    """Run a crawler; return the peak memory."""
    for name, code in crawler.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(_changed(code, site))
    daemon = Daemon(folder, auto_create=False, defaults=PACE).start()
    try:
        with Client(daemon.url) as client, Programs(folder, daemon.url) as programs:
            for command in crawler.commands:
                programs.run(_of_site(command, site))
            programs.wait(lambda: bool(site.visits))
            assert client.projects.wait(crawler.project, WAIT_SECONDS), "the crawl does not end"
            return programs.peak_bytes()
    finally:
        daemon.kill()


class Programs:
    """Programs that a crawler's commands have started; the context ends all of them."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = {"TASKQUEUE_DAEMON": url, "CHANNEL": f"ipc://{folder}/channel"}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *raised: object) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(WAIT_SECONDS)
            finally:
                process.kill()

    def run(self, command: str) -> None:
        """Run a command as a user types it; a command that does not end by itself goes on."""
        what, *arguments = shlex.split(command.removesuffix("&"))
        start = [sys.executable, *(["-m", "taskqueue.cli.main"] if what == "taskqueue" else [])]
        with (self._folder / "programs.log").open("a") as log:
            process = Forked[bytes](
                [*start, *arguments], cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )
        if (what == "taskqueue" and arguments[0] != "work") or arguments[0].endswith(ENDING):
            assert process.wait(WAIT_SECONDS) == 0, f"{command}: {self._log()}"
        else:
            self._running.append(process)

    def wait(self, true: Callable[[], bool]) -> None:
        """Wait until something is true, while all programs go on."""
        until = time.monotonic() + WAIT_SECONDS
        while not true():
            assert time.monotonic() < until, f"nothing happens: {self._log()}"
            assert all(process.poll() is None for process in self._running), self._log()
            time.sleep(LOOK_SECONDS)

    def peak_bytes(self) -> int:
        """Peak resident memory of the largest process."""
        return max(1024 * int(_peak_kilobytes(process.pid)) for process in self._running)

    def _log(self) -> str:
        return (self._folder / "programs.log").read_text()


def _peak_kilobytes(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return str(re.findall(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)[0])


def _commands(text: str) -> list[str]:
    """Find the command lines of a page or of code, up to the one that starts the worker."""
    lines = re.findall(r"^ *((?:taskqueue (?:project set|push|work) |python examples/).*)$", text, re.MULTILINE)
    until = next((n for n, line in enumerate(lines) if line.startswith("taskqueue work")), len(lines))
    return lines[: until + 1]


def _used(code: str) -> list[str]:
    """Find the examples that the commands of an example run, itself included."""
    return re.findall(r"^python (examples/\w+\.py)", code, re.MULTILINE)


def _changed(code: str, site: JudgingSite) -> str:
    """Change the code to another site and a shorter timeout."""
    impatient = re.sub(r"^(http = \w+\(.*)\)$", rf"\1, timeout={TIMEOUT_SECONDS})", code, flags=re.MULTILINE)
    assert (impatient != code) == ("Http(" in code)
    return _of_site(impatient, site)


def _of_site(text: str, site: JudgingSite) -> str:
    """Replace the made-up sites in a text by the real one."""
    for made_up, real in (
        ("https://example.com", site.url),
        ("https://EXAMPLE.com", site.url.upper()),
        ("https://example.org/", f"{site.url}/page/0"),
        ("http://127.0.0.1:8000", site.url),
    ):
        text = text.replace(made_up, real)
    text = text.replace(" --until-finished", "")  # its memory is read when the crawl has ended
    return re.sub(r" slot.delay=[\d.]+", "", re.sub(r"\brate=\d+", "rate=inf", text))


def main(*names: str) -> int:
    """Run these crawlers, or all; return 1 if the site complains, or a crawler takes too much memory."""
    bad = False
    print("| crawler | requests | complaints | peak memory |", "|---|---:|---:|---:|", sep="\n")
    for name, crawler in sorted(crawlers().items()):
        if names and name not in names:
            continue
        with TemporaryDirectory(prefix="crawlers-") as folder:
            crawled = crawl(crawler, Path(folder))
        peak = crawled.peak_bytes / (1 << 20)
        print(f"| `{name}` | {crawled.requests} | {len(crawled.complaints)} | {peak:.0f} MiB |")
        print(*crawled.complaints, sep="\n", end="\n" * bool(crawled.complaints), flush=True)
        bad |= bool(crawled.complaints) or crawled.peak_bytes > MOST_MEMORY
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
