"""Blocks of documents, run as a reader types them: from top to bottom, in one empty folder, against a daemon.

    markdown ──► blocks, each with its marks ──► files, commands and programs ──► exit status, output

A mark is an HTML comment on the line before a block; readers don't see it:

    <!-- file: crawler.py -->     the block is written to that file
    <!-- background -->           the commands run on until the page's end
    <!-- not run: reason -->      the block is not run
    <!-- fails: 1 -->             the exit status that a reader sees, if it is not 0
    <!-- output -->               its lines are in the output of the block before, in order; ``…`` is any text
    <!-- output: soon -->         the same; the block before is run again until its output has them

Shell blocks share a terminal: what one exports, and the folder that it enters, is there for the next one. The ports of
the documents become private ports, in commands and files; outputs get the documents' ports back. A page that starts no
daemon finds one, and a page that serves no site finds one at port 8000.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

RUN: Final = ("python", "sh")
SHOWN: Final = ("text", "toml", "json", "sql", "ini", "yaml", "html", "http", "hex")
"""Languages of blocks that are read, or written to files."""
MARK: Final = re.compile(r"<!-- (file|background|not run|fails|output)(?:: (.+?))? -->\s*")
NEEDS_A_VALUE: Final = ("file", "not run", "fails")

BLOCK_SECONDS: Final = 120.0
"""How long a block may take before it counts as hung."""
STOP_SECONDS: Final = 20.0
"""How long a program has to end after SIGTERM, before it is killed."""
LOOK_SECONDS: Final = 0.05

PUBLIC_PORTS: Final = (*range(7400, 7412), *range(8000, 8004))
DAEMON_PORT: Final = 7400
WEB_PORT: Final = 7401
SITE_PORT: Final = 8000

LISTENS: Final = {
    DAEMON_PORT: r"taskqueue (daemon start|scheduler)\b",
    WEB_PORT: r"--web\b|taskqueue web start\b",
    SITE_PORT: r"^(?!.*taskqueue ).*\b8000\b",
}
"""Commands by which a background block opens a port."""


class Block(NamedTuple):
    """A fenced block of a document.

    Attributes:
        language: the word after the fence; empty if there is none.
        line: number of its fence in the document.
        marks: values by names; empty where a mark has none.
    """

    language: str
    code: str
    line: int
    marks: dict[str, str]

    @property
    def is_run(self) -> bool:
        """True if a test runs the block as commands or as a program."""
        return self.language in RUN and not {"file", "not run"} & self.marks.keys()

    def has(self, pattern: str) -> bool:
        """Whether a line of its code matches."""
        return re.search(pattern, self.code, re.MULTILINE) is not None


def blocks_of(text: str) -> list[Block]:
    """Fenced blocks of a document, from top to bottom."""
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    marked_until = -1
    for token in MarkdownIt("commonmark").parse(text):
        if token.map is None:
            continue
        first, end = token.map
        if token.type == "html_block" and (found := MARK.fullmatch(token.content)):
            marks = (marks if first == marked_until else {}) | {found[1]: found[2] or ""}
            marked_until = end
        elif token.type == "fence":
            here = marks if first == marked_until else {}
            blocks.append(Block(token.info.strip(), token.content, first + 1, here))
    return blocks


def complaints(text: str) -> list[str]:
    """Flaws of the blocks of a document, each in a line."""
    found = [
        f"line {token.map[0] + 1}: an indented block; fence it, and name its language"
        for token in MarkdownIt("commonmark").parse(text)
        if token.type == "code_block" and token.map
    ]
    for block in blocks_of(text):
        if block.language not in (*RUN, *SHOWN):
            found.append(f"line {block.line}: language: expected one of {', '.join((*RUN, *SHOWN))}")
        if missing := [name for name in NEEDS_A_VALUE if block.marks.get(name) == ""]:
            found.append(f"line {block.line}: {missing[0]}: says nothing")
        if "output" in block.marks and block.language != "text":
            found.append(f"line {block.line}: output: expected a block of text")
    return found + [
        f"line {number}: unknown mark, or not on the line before a block: {line.strip()}"
        for number, line in _lines_of_marks(text)
        if number + 1 not in _marked_lines(text)
    ]


def _lines_of_marks(text: str) -> Iterator[tuple[int, str]]:
    words = r"^ *<!-- (file|background|not run|fails|output)\b"
    return ((n, line) for n, line in enumerate(text.splitlines(), 1) if re.match(words, line))


def _marked_lines(text: str) -> set[int]:
    """Numbers of lines that a mark may stand before: blocks with marks, and their other marks."""
    return {block.line - above for block in blocks_of(text) for above in range(len(block.marks))}


class Ports:
    """Private ports in the place of those that documents name."""

    def __init__(self) -> None:
        self.base = _free_range(len(PUBLIC_PORTS))

    def private(self, port: int) -> int:
        """Port that stands for one of a document."""
        return self.base + PUBLIC_PORTS.index(port)

    def hide(self, text: str) -> str:
        """Text of a document with private ports, and with addresses where commands have a default."""
        text = re.sub(r"--web(?=\s|$)(?! +[\w.]*:\d)", f"--web 127.0.0.1:{WEB_PORT}", text)
        text = re.sub(r"taskqueue web start(?!.*--bind)", rf"\g<0> --bind 127.0.0.1:{WEB_PORT}", text)
        named = "|".join(map(str, PUBLIC_PORTS))
        return re.sub(rf"\b({named})\b", lambda found: str(self.private(int(found[1]))), text)

    def show(self, text: str) -> str:
        """Output of a command with the ports of the document."""
        for number, port in enumerate(PUBLIC_PORTS):
            text = re.sub(rf"\b{self.base + number}\b", str(port), text)
        return text


def _free_range(size: int) -> int:
    """First of some ports that are free now, below those that the system gives to clients.

    Processes begin to look at different places, because a port is not taken before the page needs it.
    """
    for attempt in range(700):
        base = 20_000 + size * ((os.getpid() + attempt) % 700)
        with ExitStack() as stack, suppress(OSError):
            for port in range(base, base + size):
                stack.enter_context(socket.create_server(("", port)))
            return base
    raise AssertionError("no free ports")


class Program:
    """A block that was started, in a process group of its own; its output goes to a file."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("w") as to:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=to, stderr=to,
                start_new_session=True,
            )  # fmt: skip

    def output(self) -> str:
        """Output so far."""
        return self._output.read_text(errors="replace")

    def stop(self) -> None:
        """End it, and all that it has started."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Page:
    """The blocks of a document while they are run; a context that ends their programs."""

    def __init__(self, name: str, text: str, folder: Path) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self.blocks = blocks_of(text)
        self._name = name
        self._outputs = folder
        self._ports = Ports()
        self._environment = self._environment_of_a_reader(folder)
        self._stack = ExitStack()
        self._last: tuple[Block, Program] | None = None
        self._count = 0

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def run(self) -> None:
        """Run every block.

        Raises:
            AssertionError: a block ended otherwise than it says, or printed something else; the message has its line.
        """
        run = [block for block in self.blocks if block.is_run]
        if run:
            self._prepare(run)
        for block in self.blocks:
            if "not run" in block.marks:
                continue
            if "file" in block.marks:
                self._write(block)
            elif "output" in block.marks:
                self._compare(block)
            elif block.is_run:
                self._run(block)

    def _prepare(self, run: list[Block]) -> None:
        """Start the site and the daemon, unless the page starts its own."""
        if not any(block.has(LISTENS[SITE_PORT]) for block in run if "background" in block.marks):
            self._stack.enter_context(a_site(self._ports.private(SITE_PORT)))
        names_us = any("taskqueue" in block.code for block in self.blocks if "not run" not in block.marks)
        if names_us and not any(block.has(LISTENS[DAEMON_PORT]) for block in run):
            needs_web = any(str(WEB_PORT) in block.code for block in self.blocks)
            command = f"taskqueue daemon start --store ../store{' --web' if needs_web else ''}"
            self._run(Block("sh", command, 0, {"background": ""}))

    def _run(self, block: Block) -> None:
        program = self._start(block)
        self._last = block, program
        if "background" in block.marks:
            self._await_listening(block, program)
        else:
            self._await_end(block, program)

    def _start(self, block: Block) -> Program:
        self._count += 1
        output = self._outputs / f"output-{self._count}"
        program = Program(self._command(block), self.folder, self._environment, output)
        self._stack.callback(program.stop)
        return program

    def _command(self, block: Block) -> list[str]:
        """A shell that goes on where the last one was, and keeps its folder and its variables for the next one."""
        state = shlex.quote(str(self._outputs / "terminal"))
        code = self._ports.hide(block.code)
        if block.language == "python":
            code = f"python -c {shlex.quote(code)}"
        before = f"[ ! -e {state} ] || . {state}\n"
        after = "" if "background" in block.marks else f"trap '{{ export -p; echo cd \"$PWD\"; }} > {state}' EXIT\n"
        return ["bash", "-e", "-o", "pipefail", "-c", before + after + code]

    def _write(self, block: Block) -> None:
        target = self.folder / block.marks["file"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._ports.hide(block.code))

    def _await_end(self, block: Block, program: Program) -> None:
        try:
            status = program.process.wait(BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            raise self._error(block, program, f"still runs after {BLOCK_SECONDS:g} s") from None
        if status != int(block.marks.get("fails", 0)):
            raise self._error(block, program, f"ended with {status}")

    def _await_listening(self, block: Block, program: Program) -> None:
        for port, says in LISTENS.items():
            if block.has(says):
                listens = partial(is_open, self._ports.private(port))
                self._wait(listens, block, program, f"nothing listens at port {port}")

    def _compare(self, block: Block) -> None:
        """Find the lines of a block in the output of the last one that was run."""
        assert self._last, f"{self._name}:{block.line}: no block before it was run"
        before, program = self._last
        lines = _patterns(block.code)
        problem = f"does not print line {block.line} and those below"
        if "background" in before.marks:
            self._wait(lambda: _are_in(self._ports.show(program.output()), lines), before, program, problem)
            return
        until = time.monotonic() + BLOCK_SECONDS
        while not _are_in(self._ports.show(program.output()), lines):
            if block.marks["output"] != "soon" or time.monotonic() > until:
                raise self._error(before, program, problem)
            time.sleep(LOOK_SECONDS)
            program = self._start(before)
            self._await_end(before, program)

    def _wait(self, is_so: Callable[[], bool], block: Block, program: Program, problem: str) -> None:
        until = time.monotonic() + BLOCK_SECONDS
        while not is_so():
            status = program.process.poll()
            if status is not None and not is_so():
                raise self._error(block, program, f"ended with {status}, and {problem}")
            if time.monotonic() > until:
                raise self._error(block, program, problem)
            time.sleep(LOOK_SECONDS)

    def _error(self, block: Block, program: Program, problem: str) -> AssertionError:
        said = self._ports.show(program.output())
        return AssertionError(f"{self._name}:{block.line}: {problem}\n\n{block.code}\nprinted:\n{said}")

    def _environment_of_a_reader(self, folder: Path) -> dict[str, str]:
        """Variables of a reader whose shell has the venv, and nothing else that matters here."""
        address = f"tcp://127.0.0.1:{self._ports.private(DAEMON_PORT)}"
        return os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TASKQUEUE_DAEMON": address,
            "TASKQUEUE_BIND": address,
        }


def _patterns(text: str) -> list[re.Pattern[str]]:
    """A pattern for each line; ``…`` is any text, and a space any number of them."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip() not in ("", "…")]
    return [re.compile(re.escape(line).replace("…", ".*")) for line in lines]


def _are_in(text: str, patterns: list[re.Pattern[str]]) -> bool:
    """Whether lines match these patterns, in their order; others may come between."""
    lines = iter([" ".join(line.split()) for line in text.splitlines()])
    return all(any(pattern.fullmatch(line) for line in lines) for pattern in patterns)


def is_open(port: int) -> bool:
    """Whether a program listens at a port of loopback."""
    with socket.socket() as tried:
        tried.settimeout(STOP_SECONDS)
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def a_site(port: int) -> Iterator[None]:
    """Serve a site where every path is a page with links to a few others; ``/missing…`` is answered by 404."""
    with ThreadingHTTPServer(("127.0.0.1", port), _SitePage) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(LOOK_SECONDS,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class _SitePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        links = "".join(f'<a href="/{name}">{name}</a>' for name in ("", "about", "a", "b", "news/1", "missing"))
        body = f"<title>{self.path}</title>{links}".encode()
        self.send_response(404 if self.path.startswith("/missing") else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""
