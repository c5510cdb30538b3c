"""Producer process: python -m tests.integration.producer_main URL PROJECT NAME COUNT RECORD

Pushes COUNT tasks named NAME-INDEX, pipelined, and repeats unanswered requests. For each task it writes

    TASKID PRIORITY OUTCOME    when its request has been answered

and then ends.
"""

from __future__ import annotations

import os
import sys

from tests.integration.line import WINDOW, Line, Message, OrderlyLine, Record

BATCH = 100
BODY = os.urandom(300)


def priority_of(index: int) -> int:
    """Return the priority of a task's index: a few priorities, well mixed."""
    return index * 7919 % 5


def task_of(name: str, index: int) -> Message:
    taskid = f"{name}-{index}"
    schedule = {"priority": priority_of(index)}
    return {"taskid": taskid, "url": f"http://site/{taskid}", "schedule": schedule, "body": BODY}


def produce(line: Line, project: str, name: str, count: int, record: Record) -> None:
    batches = [range(start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
    waiting = list(reversed(batches))
    asked: dict[int, range] = {}
    while waiting or line.unanswered:
        while waiting and len(line.unanswered) < WINDOW:
            batch = waiting.pop()
            asked[line.ask("new-task", project=project, tasks=[task_of(name, each) for each in batch])] = batch
        reply = line.receive()
        if reply is not None and line.answered(reply):
            pairs = zip(asked.pop(reply["n"]), reply["outcomes"], strict=True)
            record.write(*(f"{name}-{index} {priority_of(index)} {outcome}" for index, outcome in pairs))


if __name__ == "__main__":
    url, project, name, count, path = sys.argv[1:]
    produce(OrderlyLine(url, f"producer-{name}-{os.getpid()}"), project, name, int(count), Record(path))
