"""Processes of benchmarks: their cores, their costs, and what they print at their end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def start(
    command: Sequence[str], cores: str, log: IO[Any] | None = None, environment: Mapping[str, str] = NOTHING
) -> subprocess.Popen[bytes]:
    """Start a command on these cores ("0", "0,1"; empty: any).

    Args:
        log: file for its output, stdout included; None: stdout is a pipe.
        environment: variables besides those of this process.
    """
    prefix = ["taskset", "-c", cores] if cores else []
    out = subprocess.PIPE if log is None else log
    variables = {**os.environ, **environment}
    return subprocess.Popen([*prefix, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=variables)


def start_module(name: str, arguments: Sequence[str], cores: str) -> subprocess.Popen[bytes]:
    """Start ``python -m`` name; ``printed`` returns what it prints at its end."""
    return start([sys.executable, "-m", name, *arguments], cores)


def printed(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait for its end; return the one JSON object that it printed.

    Raises:
        SystemExit: it failed.
    """
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args!r} failed with {process.returncode}")
    result: dict[str, Any] = json.loads(out)
    return result


def stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM and wait; send SIGKILL after 30 seconds."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_with_children(pid: int) -> float:
    """Sum the CPU time of a process and of its children, those alive included."""
    while True:
        living = children(pid)
        with suppress(FileNotFoundError):
            spent = sum(map(cpu_seconds, [pid, *living]))
            # A child that ends meanwhile would be missing, or counted twice.
            if children(pid) == living:
                return spent


def children(pid: int) -> list[int]:
    """List its children that are alive."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(folder: Path) -> int:
    """Size of all files in a folder, subfolders included."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def free_port() -> int:
    """Return an unused loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the process listens at this loopback port.

    Raises:
        SystemExit: it has ended instead.
    """
    while True:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} has ended with {process.returncode}")
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.001)


def stay_on(cores: str) -> None:
    """Keep this process, and its children by default, on these cores; empty: any."""
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
