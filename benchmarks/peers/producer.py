"""Process of ordinary producers: threads that push one task after the other. Prints one JSON object at its end.

    python -m benchmarks.peers.producer PEER THREADS TASKS GATE

It says that it is ready by a file GATE.PID, and begins when there is a file GATE.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 0.002


def main() -> None:
    """Push a number of tasks in each thread."""
    peer, threads, tasks, gate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    push = import_module(f"benchmarks.peers.{peer}").push
    shares = [[os.urandom(16).hex() for _ in range(tasks)] for _ in range(threads)]
    producers = [threading.Thread(target=push_all, args=(push, share)) for share in shares]
    wait_for(gate)
    began_at, spent = time.time(), time.process_time()
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    spent = time.process_time() - spent
    taskids = [taskid for share in shares for taskid in share]
    print(json.dumps({"began_at": began_at, "cpu_seconds": spent, "taskids": taskids}))


def push_all(push: Callable[[str], object], taskids: list[str]) -> None:
    """Push tasks one after the other."""
    for taskid in taskids:
        push(taskid)


def wait_for(gate: Path) -> None:
    """Say that this process is ready, and wait until all are."""
    gate.with_name(f"{gate.name}.{os.getpid()}").touch()
    while not gate.exists():
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
