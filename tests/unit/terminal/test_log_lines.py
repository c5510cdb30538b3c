"""A log without a reader never blocks the program, and reports later how many lines were lost."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import TextIO

from taskqueue.terminal.log_lines import LINE_BYTES, LogHandler, write_line

SMALLEST_PIPE = 4096

TELLING = """
import logging, os, sys, warnings
from taskqueue.terminal.log_lines import LogHandler

warnings.simplefilter("ignore")  # of a fork beside threads, in newer Pythons
log = logging.getLogger("telling")
log.addHandler(LogHandler(int(sys.argv[1])))

def tell(numbers):
    for number in numbers:
        log.warning("event number=%d", number)

tell(range(100))
log.handlers[0].flush()
if os.fork() == 0:
    tell(range(100, 200))
    sys.exit()
os.wait()
tell(range(200, 300))
"""
"""Program that logs, forks a child that also logs, and ends."""


@contextmanager
def pipe() -> Iterator[tuple[BufferedReader, TextIO]]:
    """Make a pipe that a page fills: its reading and its writing end."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as writer:
        yield reader, writer


@contextmanager
def terminal() -> Iterator[tuple[BufferedReader, TextIO]]:
    """Make a terminal: its screen, and the end that a program writes to."""
    showing, writing = pty.openpty()
    with os.fdopen(showing, "rb") as screen, os.fdopen(writing, "w") as writer:
        yield screen, writer


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, "", 0, message, arguments, None)


def test_a_reader_that_stands_still_costs_lines_which_are_counted_but_no_time() -> None:
    with pipe() as (reader, writer):
        handler = LogHandler(writer.fileno(), most_bytes=20_000, stuck_seconds=0.01)
        handler.emit(record("event number=%d", -1))
        first = reader.readline().decode()
        # A page with room would take lines of the thread between those that are lost, and so let others in.
        os.write(writer.fileno(), b"x" * (SMALLEST_PIPE - 1) + b"\n")

        for number in range(1000):
            handler.emit(record("event number=%d %s", number, "x" * 100))
        handler.close()

        reader.readline()
        lines: list[str] = []
        while not lines or "log-lost" not in lines[-1]:
            lines.append(reader.readline().decode())
        handler.emit(record("event number=%d", 1000))
        lines.append(reader.readline().decode())
    kept = len(lines) - 2
    assert "number=-1" in first
    assert [line.split()[4] for line in lines[:kept]] == [f"number={number}" for number in range(kept)]
    assert 20 < kept < 200
    assert f"log-lost lines={1000 - kept};" in lines[-2]
    assert "number=1000" in lines[-1]


def test_a_terminal_that_shows_nothing_more_costs_lines_but_no_time() -> None:
    with terminal() as (screen, writer):
        handler = LogHandler(writer.fileno(), most_bytes=20_000, stuck_seconds=0.01)

        for number in range(1000):
            handler.emit(record("event number=%d %s", number, "x" * 100))
        handler.close()

        lines = [screen.readline()]
        while b"log-lost" not in lines[-1]:
            lines.append(screen.readline())
    assert b"number=0 " in lines[0]
    assert len(lines) < 1000


def test_all_that_a_program_and_its_children_tell_is_written_before_they_end() -> None:
    with pipe() as (reader, writer):
        command = [sys.executable, "-c", TELLING, str(writer.fileno())]
        program = subprocess.Popen(command, pass_fds=(writer.fileno(),))
        writer.close()
        lines = reader.read().decode().splitlines()

    assert program.wait() == 0
    assert [int(line.partition("number=")[2]) for line in lines] == [*range(100), *range(100, 200), *range(200, 300)]


def test_a_line_that_is_too_long_keeps_its_beginning_and_its_end() -> None:
    with pipe() as (reader, writer):
        handler = LogHandler(writer.fileno())
        handler.emit(record("event url=%s end", "x" * 100_000))
        line = reader.readline().decode()

    assert "event url=xxx" in line
    assert line.endswith("x end\n")
    assert len(line) < LINE_BYTES + 100


def test_a_line_beside_the_log_waits_for_no_reader_that_stands_still() -> None:
    with pipe() as (reader, writer):
        os.write(writer.fileno(), b"x" * SMALLEST_PIPE)

        write_line(writer, "never read", 0.01)

        assert reader.read(SMALLEST_PIPE) == b"x" * SMALLEST_PIPE
        write_line(writer, "two\nlines")
        assert reader.readline() == b"two\\nlines\n"


def test_a_line_beside_the_log_waits_for_no_terminal_that_shows_nothing_more() -> None:
    with terminal() as (screen, writer):
        write_line(writer, "x" * 100_000, 0.01)

        assert screen.readline() == b"x" * 100_000 + b"\r\n"
