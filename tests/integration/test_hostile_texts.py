"""Every command on a daemon whose texts from outside all attack the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from taskqueue.cli.main import taskqueue
from taskqueue.client.tasks.new_task import default_taskid
from tests.integration.conftest import ROOT, Daemon, DaemonFactory, PeerFactory

WAIT_SECONDS = 120

EVIL = "\x1b]0;owned\x07\x1b[4242m\x9b4243m\x7f\u202e\u2066\u200b\u2028[red]x[/red]:boom:"
"""Text that sets the title, colours, reverses and hides what follows, begins a line, and is markup; short, for 128
bytes."""

VISIBLE = r"\u001b]0;owned\u0007\u001b[4242m\u009b4243m\u007f\u202e\u2066\u200b\u2028[red]x[/red]:boom:"

URL = f"http://site/{EVIL}"
OWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Sequences that rich sends to a terminal itself."""

OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069]")
"""Characters that must not remain besides ``OWN``."""

EVIL_SLOT = "".join(char for char in EVIL if char > "\x1f" and char != "\x7f")
"""Slot name without the ASCII characters that a terminal obeys, which names may not have."""

FILTER = {"states": ["failed"], "url": f"*{EVIL}*", "error": f"*{EVIL}*"}


@pytest.fixture
def it(daemon: DaemonFactory, peer: PeerFactory) -> Daemon:
    """Daemon with hostile texts wherever it accepts any."""
    daemon_ = daemon(log_level="debug", defaults={"retry_delay": [1000]})
    fetcher = peer(daemon_)
    settings = {
        "fetch": {EVIL: EVIL}, "slot": {"by": "named"}, "group": "papers", "retries": 0, "fail_pause_num": 2,
        "cron": {"daily": {"every": "1d", "task": {"url": URL}}}, "on_finished": {"url": URL, "taskid": EVIL},
        "on_failure": {"url": f"{URL}{{taskid}}", "body": [EVIL, "{error}"]},
    }  # fmt: skip
    accepted(fetcher.ask("project-set", project="news", settings=settings, actor=EVIL))
    tasks = [{"taskid": taskid, "url": URL, "body": {"fetch": EVIL, EVIL: EVIL}} for taskid in (EVIL, "a", "b", "c")]
    tasks.append({"taskid": default_taskid(URL), "url": URL})
    tasks.append({"taskid": "paced", "url": URL, "schedule": {"slot": EVIL_SLOT}})
    accepted(fetcher.ask("new-task", project="news", tasks=tasks))
    accepted(fetcher.ask("hello", capacity=3, name=EVIL, projects=["news"]))
    *over, held = [{key: task[key] for key in ("project", "taskid", "token")} for task in fetcher.receive()["tasks"]]
    accepted(fetcher.ask("note", notes=[held | {"note": EVIL}]))
    accepted(fetcher.ask("done", tasks=[task | {"ok": False, "error": EVIL} for task in over]))
    members = [{"taskid": EVIL + "f", "url": URL}, {"taskid": EVIL + "g", "url": URL, "depends_on": [EVIL + "f"]}]
    accepted(fetcher.ask("flow-stage", project="news", flow="night", first=0, tasks=members))
    accepted(fetcher.ask("flow-submit", project="news", flow="night", count=2))
    accepted(fetcher.ask("bulk", action="retry", project="news", filter=FILTER, dry_run=True, actor=EVIL))
    return daemon_


def accepted(answer: dict[str, Any]) -> None:
    assert answer["type"] != "error", answer


TASK = ["news", EVIL]

WALK: dict[str, list[list[str]]] = {
    "status": [[], ["--json"], ["news"], ["--filter", EVIL], ["--group", EVIL], [EVIL], ["--follow", EVIL]],
    "fetcher list": [[], ["--json"], ["news"], ["--filter", EVIL]],
    "fetcher show": [[EVIL], [EVIL, "--json"], ["ghost" + EVIL]],
    "fetcher drain": [["ghost" + EVIL]],
    "fetcher resume": [["ghost" + EVIL], [EVIL]],
    "daemon show": [[], ["--json"], ["--history"], [EVIL]],
    "daemon verify": [[]],
    "stats": [[], ["--json"], ["news", "--history"], [EVIL], ["news", "--job", EVIL], ["news", "--job", "monday"]],
    "failures": [
        *(["--by", by] for by in ("error", "host", "fetcher", "project")), ["news", "--json"], ["--since", EVIL],
    ],
    "why": [["news"], TASK, ["news", URL], ["news", URL, "--json"]],
    "project wait": [["news", "--timeout", "0"], [EVIL]],
    "project list": [[], ["--json"]],
    "project show": [["news"], ["news", "--json"], ["missing"]],
    "project set": [["news", f"user_agent={EVIL}"], ["news", f'fetch={{"x": "{URL[12:20]}"}}'], ["news", EVIL]],
    "project unset": [["news", "fetch.x"], ["news", EVIL]],
    "project import": [["news", "{lines}"], ["back", EVIL], [EVIL, "{lines}"]],
    **{f"project {action}": [["news"], [EVIL], ["missing"]] for action in ("pause", "resume", "stop", "start")},
    "cron list": [[], ["--json"]],
    "cron set": [["news", EVIL, "--every", "1d"], ["news", "daily", "--every", EVIL], ["news", "x", "--every", "1d",
                 "--url", URL], ["news", EVIL, "--every", "1d", "--flow", "-"],
                 ["news", "x", "--every", "1d", "--flow", EVIL]],
    "cron remove": [["news", EVIL], ["news", "x"]],
    "slot list": [["news", "--sort", by] for by in ("backlog", "errors", "delay", "name")]
    + [["news", "--json"], ["news", "--stored"], [EVIL]],
    "slot show": [["news", EVIL_SLOT], ["news", EVIL_SLOT, "--json"], ["news", EVIL], ["missing", "x"]],
    "slot unset": [["news", EVIL_SLOT, "burst"], ["news", "x", EVIL], ["missing", "x"]],
    "slot set": [["news", EVIL_SLOT, "--delay", "1d"], ["news", EVIL, "--delay", "1"], ["news", "x", "--delay", EVIL],
                 ["news", "x", "--block-until", EVIL], ["missing", "x", "--delay", "1"]],
    "task list": [["news", "--state", state] for state in ("ready", "processing", "failed")]
    + [["news", "--state", "failed", "--json"], ["news", "--state", EVIL], ["news", "--job", EVIL]],
    "task show": [TASK, [*TASK, "--json"], ["news", "a", "b"], ["news", "ghost-" + EVIL]],
    "task wait": [[*TASK, "--timeout", "0"], ["news", "ghost-" + EVIL]],
    "task children": [["news", EVIL + "g"], ["news", EVIL + "g", "--json"], ["news", "ghost-" + EVIL]],
    "task parents": [["news", EVIL + "g"], ["news", EVIL + "g", "--json"], ["news", "ghost-" + EVIL]],
    "flow submit": [["news", "{config}"], ["news", "{lines}"], ["news", EVIL]],
    "flow list": [[], ["--json"], ["--cron", EVIL]],
    "flow show": [["news", "night", "--tasks"], ["news", "night"], ["news", "night", "--json"], ["news", EVIL]],
    "flow wait": [["news", "night", "--timeout", "0"], ["news", EVIL]],
    "task rerun": [["news", EVIL + "g", "--downstream", "--dry-run"], ["news", "ghost-" + EVIL]],
    "flow cancel": [["news", "night"], ["news", EVIL]],
    "task retry": [TASK, [*TASK, "--json"], ["news", "--error-glob", EVIL, "--yes"]],
    "task reprioritise": [["news", "--priority", "1", "--url-glob", EVIL, "--yes"], ["news", "--priority", EVIL]],
    "task reschedule": [["news", "--delay", "1h", "--url-glob", EVIL, "--dry-run"], ["news", "--at", EVIL]],
    "operation list": [[], ["--json"]],
    "operation show": [["{operation}"], ["{operation}", "--json"], [EVIL]],
    "operation wait": [["{operation}", "--timeout", "0"], [EVIL]],
    "operation cancel": [["{operation}"], [EVIL]],
    "operation undo": [["{operation}", "--yes"], [EVIL, "--yes"]],
    "log": [[], ["--json"], ["--since", EVIL]],
    "push": [
        ["news", URL], ["news", URL, "--any-scheme", "--taskid", EVIL], ["news", "--file", "{lines}"],
        ["news", "--file", EVIL],
        ["news", "--file", "{packed}"], ["news", URL, "--json"], [EVIL, URL], ["news", URL, "--job", EVIL],
    ],
    "task cancel": [TASK, ["news", "--error-glob", EVIL, "--yes"]],
    "store init": [["--store", "{initial}"], ["--store", EVIL, "--print-sql"],
                   ["--store", "postgresql://" + EVIL], ["--print-sql", "--store", "postgresql:///" + EVIL]],
    "store show": [["{copy}"], ["--by", "project", "{copy}"], [EVIL]],
    "store check": [["{copy}"], [EVIL]],
    "store backup": [["{copy}", "--store", "{store}"], [EVIL, "--store", EVIL]],
    "store restore": [[EVIL, "--store", "{restored}"]],
    "store repair": [["{copy}", "{repaired}"], [EVIL, EVIL]],
    "store compact": [[EVIL]],
    "store export": [["--store", "{copy}"], ["--format", "msgpack", "--store", EVIL], [EVIL]],
    "store import": [["{lines}", "--store", "{restored}"], [EVIL]],
    "config init": [["-"], [EVIL + "/x"]],
    "config check": [["{config}"], [EVIL]],
    "config board": [[]],
    "config alerts": [[]],
    "completion": [["bash"], [EVIL]],
    "demo": [["--site", EVIL], ["--rate", EVIL]],
    "work": [[EVIL], [f"{EVIL}:{EVIL}"], ["json:" + EVIL], ["broken:run"]],
    "daemon start": [["-c", EVIL], ["--log-level", EVIL], ["-c", "{config}"]],
    "web start": [["--bind", EVIL], ["--proxy-role", EVIL], ["--trust-proxy", EVIL]],
    "key server": [["--keys", "{keys}"], ["--keys", "{lines}/" + EVIL]],
    "key generate": [["x", "--keys", "{keys}", "--out", "{restored}.key"], [EVIL, "--server", EVIL],
                     ["x", "--keys", EVIL + "/" + EVIL], ["x", "--server", EVIL]],
    "key authorise": [["x", "ab" * 32, "--role", "viewer", "--keys", "{keys}"],
                      ["y", EVIL, "--role", "viewer"], [EVIL, "cd" * 32, "--role", "viewer", "--keys", "{keys}"],
                      [EVIL, "--token", "--role", "viewer", "--keys", "{keys}"],
                      ["z", "--token", "--role", "viewer", "--keys", "{keys}"],
                      ["y", "cd" * 32, "--role", EVIL], ["y", "{lines}", "--role", "viewer", "--keys", "{keys}"]],
    "key set": [["x", "--projects", EVIL, "--keys", "{keys}"], [EVIL, "--role", "viewer", "--keys", "{keys}"]],
    "key list": [["--keys", "{keys}"], ["--keys", "{keys}", "--json"], ["--keys", "{lines}"], ["--keys", EVIL]],
    "key may": [["x", "status", "--keys", "{keys}"], ["x", EVIL, "--keys", "{keys}"],
                [EVIL, "status", "--keys", "{keys}"]],
    "key rotate": [["x", EVIL, "--keys", "{keys}"], ["x", "ef" * 32, "--keys", "{keys}"], [EVIL, "--finish"],
                   ["z", "--token", "--keys", "{keys}"], [EVIL, "--token", "--keys", "{keys}"]],
    "key revoke": [[EVIL, "--keys", "{keys}"], ["x", "--keys", "{keys}"]],
    "daemon reload": [["--pid-file", EVIL], ["--pid-file", "{lines}"]],
    "daemon stop": [["--pid-file", EVIL], ["--pid-file", "{lines}"]],
    **{f"project {action}": [["news", "--yes"], [EVIL, "--yes"], ["missing", "--yes"]]
       for action in ("clear", "reset", "delete")},
    "top": [["--filter", EVIL], ["--sort", EVIL]],
}  # fmt: skip
"""Arguments for every command, in this order; ``store backup`` comes before commands on the copy."""

SHOWING = {
    "status": VISIBLE, "fetcher list": VISIBLE, "failures": VISIBLE, "why": VISIBLE, "project show": VISIBLE,
    "task list": VISIBLE, "task show": VISIBLE, "operation list": VISIBLE, "operation show": VISIBLE, "log": VISIBLE,
    "cron set": VISIBLE, "push": VISIBLE, "store show": VISIBLE, "work": VISIBLE, "daemon start": VISIBLE,
    "store export": "owned", "daemon stop": VISIBLE, "config check": VISIBLE, "fetcher show": VISIBLE,
    "task parents": VISIBLE, "store init": VISIBLE, "slot list": r"\u009b4243m", "slot show": r"\u009b4243m",
    "slot set": r"\u009b4243m", "flow show": VISIBLE, "flow submit": VISIBLE, "task rerun": VISIBLE,
    "key may": VISIBLE,
}  # fmt: skip
"""Commands that show the text, and how: visibly, not left out."""


def commands(group: click.Command, path: str = "") -> Iterator[str]:
    """Yield the names of all commands."""
    if not isinstance(group, click.Group):
        yield path
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command, f"{path} {name}".strip())


def test_the_walk_has_every_command() -> None:
    assert set(WALK) == set(commands(taskqueue))


@pytest.fixture
def calls(it: Daemon, tmp_path: Path) -> list[tuple[str, list[str]]]:
    """List calls with the name of their command."""
    (tmp_path / "tasks.jsonl").write_text(
        f"{EVIL}\n{json.dumps({EVIL: 1})}\n{json.dumps({'url': URL, 'taskid': EVIL * 9})}\n"
    )
    (tmp_path / "tasks.msgpack").write_bytes(b"\x81\xa5\x1b]0;o\x01")
    (tmp_path / "bad.toml").write_text(f"[projects.news]\n{json.dumps(EVIL)} = 1\n")
    (tmp_path / "broken.py").write_text(f"raise ValueError({EVIL!r})\n")
    places = {
        "lines": str(tmp_path / "tasks.jsonl"), "packed": str(tmp_path / "tasks.msgpack"),
        "config": str(tmp_path / "bad.toml"), "copy": str(tmp_path / "copy"), "restored": str(tmp_path / "restored"),
        "keys": str(tmp_path / "keys" / "access.json"),
        "repaired": str(tmp_path / "repaired"), "initial": str(tmp_path / "initial"),
        "store": str(it.store_path), "operation": "1",
    }  # fmt: skip
    order = sorted(WALK, key=lambda name: (name.startswith("store") and name != "store backup", name == "top"))
    return [
        (name, [*name.split(), *(places.get(word.strip("{}"), word) for word in arguments)])
        for name in order
        for arguments in WALK[name]
        if name != "top"
    ]


def environment(it: Daemon) -> dict[str, str]:
    return os.environ | {"TASKQUEUE_DAEMON": it.url, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONUTF8": "1"}


def run(it: Daemon, folder: Path, calls: list[tuple[str, list[str]]], **streams: Any) -> subprocess.Popen[bytes]:
    program = [
        sys.executable,
        str(Path(__file__).with_name("commands_main.py")),
        json.dumps([call for _, call in calls]),
    ]
    return subprocess.Popen(program, cwd=folder, env=environment(it), **streams)


def by_command(text: str, calls: list[tuple[str, list[str]]]) -> dict[str, str]:
    """Split the output by command."""
    found: dict[str, str] = {}
    parts = re.split(r"^### (\d+)\r?\n", text, flags=re.MULTILINE)
    for number, part in zip(parts[1::2], parts[2::2], strict=True):
        name = calls[int(number)][0]
        found[name] = found.get(name, "") + part
    return found


def obeyed(text: str) -> str | None:
    """Return the first place that a terminal would obey without the command's intention."""
    clean = OWN.sub(lambda own: own[0] if "424" in own[0] else "", text)
    found = OBEYED.search(clean)
    return None if found is None else repr(clean[max(0, found.start() - 60) : found.end() + 20])


def test_no_command_writes_what_a_terminal_would_obey_into_a_pipe(
    it: Daemon, tmp_path: Path, calls: list[tuple[str, list[str]]]
) -> None:
    process = run(it, tmp_path, calls, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = (part.decode() for part in process.communicate(timeout=WAIT_SECONDS))

    written = {name: by_command(out, calls)[name] + by_command(err, calls)[name] for name, _ in calls}
    assert {name: where for name, text in written.items() if (where := obeyed(text))} == {}
    assert {name: text for name, text in written.items() if "Traceback" in text} == {}
    assert {name: written[name] for name, shown in SHOWING.items() if shown not in written[name]} == {}


def test_no_command_writes_what_a_terminal_would_obey_to_a_terminal(
    it: Daemon, tmp_path: Path, calls: list[tuple[str, list[str]]]
) -> None:
    outside, inside = pty.openpty()
    fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
    process = run(it, tmp_path, calls, stdin=subprocess.DEVNULL, stdout=inside, stderr=inside)
    os.close(inside)

    text = read(outside)

    process.wait(WAIT_SECONDS)
    assert {name: where for name, part in by_command(text, calls).items() if (where := obeyed(part))} == {}
    assert "owned" in text


def test_top_obeys_nothing_that_it_shows(it: Daemon, tmp_path: Path) -> None:
    outside, inside = pty.openpty()
    fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
    command = [sys.executable, "-m", "taskqueue.cli.main", "top", "--interval", "0.2"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(it), stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)

    text = read(outside, until="owned", press=b"fq")

    process.wait(WAIT_SECONDS)
    assert VISIBLE[:20] in text
    assert obeyed(text) is None


def read(terminal: int, until: str = "", press: bytes = b"") -> str:
    """Read all that is written to a terminal; press keys as soon as some text is there."""
    written = b""
    try:
        while part := os.read(terminal, 1 << 16):
            written += part
            if press and until.encode() in written:
                os.write(terminal, press)
                press = b""
    except OSError:
        pass  # the last process has closed it
    os.close(terminal)
    return written.decode()


def test_the_daemons_log_obeys_nothing_that_it_tells(it: Daemon) -> None:
    it.stop()

    log = it.log()
    assert VISIBLE[:40] in log
    assert obeyed(log) is None
