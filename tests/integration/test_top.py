"""``taskqueue top`` on a real terminal, with real keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.nursery import WAIT_SECONDS, Forked

IN_ITS_TERMINAL = """
import os, sys
from taskqueue.cli.main import main
os.open(os.ttyname(0), os.O_RDWR)
sys.exit(main())
"""
"""Program that makes Ctrl-C a signal: the first terminal that a new session opens controls it."""
COMMAND = [sys.executable, "-c", IN_ITS_TERMINAL, "top", "--interval", "0.2"]

HOME = b"\x1b[H"
"""Beginning of each picture."""

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

DaemonFactory = Callable[..., Any]
PeerFactory = Callable[..., Any]


class Terminal:
    """Terminal of 80 x 24 with a command in it."""

    def __init__(self, url: str, *options: str) -> None:
        self._outside, inside = pty.openpty()
        self.before = termios.tcgetattr(inside)
        self.resize(24, 80)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = Forked[bytes](
            [*COMMAND, *options, "--daemon", url],
            start_new_session=True,
            stdin=inside,
            stdout=inside,
            stderr=subprocess.PIPE,
            env=environment | {"TERM": "xterm"},
        )
        self.inside = inside
        self._seen = b""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._outside, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._outside, keys.encode())

    def until(self, shows: Callable[[list[str]], bool]) -> list[str]:
        """Return the lines of the first whole picture that passes; pytest's timeout ends it otherwise."""
        while True:
            *_, picture, rest = [b"", *self._seen.split(HOME)]
            lines = ESCAPES.sub("", picture.decode()).split("\r\n")
            self._seen = rest if not picture else HOME.join((picture, rest))
            if picture and shows(lines):
                return [line.rstrip() for line in lines]
            self._seen = rest
            while HOME not in self._seen:
                self._seen += os.read(self._outside, 65536)

    def end(self) -> tuple[int, str]:
        """Return exit status and stderr; pictures until then are read and dropped."""
        assert self.process.stderr is not None
        errors, written = self.process.stderr.fileno(), b""
        while True:
            readable = select.select([self._outside, errors], [], [])[0]
            if self._outside in readable:
                os.read(self._outside, 65536)
            elif not (more := os.read(errors, 65536)):
                return self.process.wait(WAIT_SECONDS), written.decode()
            else:
                written += more

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._outside)
        os.close(self.inside)


Top = Callable[..., Terminal]


@pytest.fixture
def top(daemon: DaemonFactory, peer: PeerFactory) -> Iterator[Top]:
    """Start top on a daemon with 200 projects, of which p150 has tasks, and a fetcher that holds one of them."""
    started: list[Terminal] = []
    it = daemon(projects={f"p{n:03}": {} for n in range(200)})
    fetcher = peer(it)
    fetcher.ask("hello", capacity=1, name="web1:4711", projects=["p150"])
    fetcher.push("p150", "a", "b", "c")
    fetcher.receive()

    def start(*options: str) -> Terminal:
        started.append(Terminal(it.url, *options))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def first(name: str) -> Callable[[list[str]], bool]:
    """Make a check that the first row begins with ``name``."""
    return lambda lines: len(lines) > 5 and lines[5].startswith(name)


def test_the_busiest_project_comes_first_and_the_screen_is_filled(top: Top) -> None:
    lines = top().until(first("p150"))

    assert len(lines) == 24
    assert lines[1].startswith("2 ready, 0 delayed, 1 processing; 1 fetcher holds 1 of 1")
    assert lines[5].split()[:4] == ["p150", "running", "2", "1"]
    assert lines[-1].startswith("1-17 of 200 by selected_5m  q quit")


def test_keys_sort_scroll_filter_and_show_fetchers(top: Top) -> None:
    terminal = top("--sort", "name")
    terminal.until(first("p000"))

    terminal.press("G")
    terminal.until(first("p183"))
    terminal.press("\x1b[A")
    terminal.until(first("p182"))
    terminal.press("g ")
    terminal.until(first("p017"))
    terminal.press("/15\r")
    assert "1-12 of 12 by name" in terminal.until(first("p015"))[-1]
    terminal.press("ssss")
    terminal.until(lambda lines: first("p150")(lines) and "by new_5m" in lines[-1])
    terminal.press("f")
    assert terminal.until(first("web1:4711"))[5].split()[:2] == ["web1:4711", "1/1"]


def test_the_screen_follows_the_size_of_the_terminal(top: Top) -> None:
    terminal = top()
    terminal.until(first("p150"))

    terminal.resize(40, 160)
    assert "rate" in terminal.until(lambda lines: len(lines) == 40)[4]


@pytest.mark.parametrize("how", ["q", "Ctrl-C", "SIGINT"])
def test_it_ends_without_a_word_and_gives_the_terminal_back(top: Top, how: str) -> None:
    terminal = top()
    terminal.until(first("p150"))
    assert termios.tcgetattr(terminal.inside) != terminal.before

    if how == "SIGINT":
        terminal.process.send_signal(signal.SIGINT)
    else:
        terminal.press({"q": "q", "Ctrl-C": "\x03"}[how])

    assert terminal.end() == (0, "")
    assert termios.tcgetattr(terminal.inside) == terminal.before


def test_a_daemon_that_does_not_answer_any_more_is_waited_for(
    top: Top, daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(projects={"news": {}})
    terminal = Terminal(it.url, "--timeout", "0.2")
    try:
        terminal.until(first("news"))
        it.stop()
        assert "no answer within 0.2 s" in terminal.until(lambda lines: "no answer" in lines[0])[0]
        it.start()
        terminal.until(lambda lines: "no answer" not in lines[0])
    finally:
        terminal.close()
