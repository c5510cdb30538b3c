"""Fetcher process: python -m tests.integration.fetcher_main URL PROJECT CAPACITY RECORD SEED

Takes tasks, does nothing with them, and reports them done in batches of random size, until it is stopped. It writes

    start TASKID TOKEN SESSION    before it starts a task
    done TASKID OUTCOME           when its report has been answered

A start without a done is a task that the fetcher held, or whose report was unanswered, when it was killed. After
SIGTERM it ends once all reports are answered.
"""

from __future__ import annotations

import os
import random
import signal
import sys

from tests.integration.line import Line, Message, Record, tell


class Fetcher:
    """Fetcher that keeps to the protocol, in one session across restarts of the daemon."""

    def __init__(self, url: str, project: str, capacity: int, record: Record, chance: random.Random) -> None:
        self._line = Line(url, f"fetcher-{project}-{os.getpid()}")
        self._project = project
        self._capacity = capacity
        self._record = record
        self._chance = chance
        self._seen = 0
        self._started: list[Message] = []
        self._reported: dict[int, list[Message]] = {}
        self._leaving = False
        signal.signal(signal.SIGTERM, self._leave)

    def run(self) -> None:
        self._hello()
        while self._reported or not self._leaving:
            message = self._line.receive()
            if message is None:
                self._hello()
            elif message["type"] == "select":
                self._take(message)
            elif message["type"] == "done-reply" and self._line.answered(message):
                self._count(message)
            self._report()

    def _leave(self, *_: object) -> None:
        self._leaving = True

    def _hello(self) -> None:
        reported = [task for tasks in self._reported.values() for task in tasks]
        holds = [task["token"] for task in self._started + reported]
        self._line.say("hello", capacity=self._capacity, projects=[self._project], holds=holds, seen=self._seen)

    def _take(self, select: Message) -> None:
        if select["number"] == self._seen + 1:
            self._seen += 1
            session = self._line.session
            self._record.write(*(f"start {task['taskid']} {task['token']} {session}" for task in select["tasks"]))
            self._started += select["tasks"]
        elif select["number"] > self._seen:
            self._hello()

    def _report(self) -> None:
        """Report the oldest started tasks, one batch at a time."""
        if self._reported or not self._started:
            return
        count = self._chance.randint(1, len(self._started))
        batch, self._started = self._started[:count], self._started[count:]
        items = [{key: task[key] for key in ("project", "taskid", "token")} for task in batch]
        self._reported[self._line.ask("done", tasks=items)] = batch

    def _count(self, reply: Message) -> None:
        batch = self._reported.pop(reply["n"])
        outcomes = reply["outcomes"]
        self._record.write(*(f"done {task['taskid']} {what}" for task, what in zip(batch, outcomes, strict=True)))
        tell(outcomes.count("done"))


if __name__ == "__main__":
    url, project, capacity, record, seed = sys.argv[1:]
    Fetcher(url, project, int(capacity), Record(record), random.Random(int(seed))).run()
