"""Frames and batches of a lifecycle, recorded from the real core and the real ledger.

    recorded(load).turns           turns with numbers of received frames, written batches, sent frames
    recorded_by(python, load)      the same of the build that another interpreter has installed

A turn receives TURN_FRAMES messages of new tasks, as a busy daemon does, and the ``done`` of tasks dispatched in the
turn before.
"""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Sequence
from itertools import count
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Raw, Struct, field

from benchmarks.contest import Load
from benchmarks.peers import ours
from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import Boot, Peer, Wall
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest, Incoming
from taskqueue.protocol.tasks import DoneReply, NewTasksReply
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch
from taskqueue.store.ledger import Ledger
from tests.memory_store import Disk, MemoryStore

TURN_FRAMES: Final = 4
TURN_SECONDS: Final = 0.03
WALL: Final = Wall(1_700_000_000.0)


class Turn(Struct):
    """One turn of the daemon.

    Attributes:
        new_in, done_in: received frames of each kind.
        written: records written in one batch; None if there are none.
        selects: frames that left at once, for the fetcher.
        new_out, done_out: answers that left after the batch was synced, for the producer and for the fetcher.
    """

    new_in: int
    done_in: int
    written: Batch | None = None
    selects: list[bytes] = field(default_factory=list)
    new_out: list[bytes] = field(default_factory=list)
    done_out: list[bytes] = field(default_factory=list)

    def say(self, message: AnyOutgoing) -> None:
        """Add a message to the frames sent."""
        kinds: dict[type, list[bytes]] = {Select: self.selects, NewTasksReply: self.new_out, DoneReply: self.done_out}
        if (frames := kinds.get(type(message))) is not None:
            frames.append(encode(message))


class Spy(MemoryStore):
    """Store in memory that remembers the last batch."""

    last: Batch | None = None

    def write(self, epoch: int, batch: Batch) -> None:
        self.last = batch
        super().write(epoch, batch)


class Record(NamedTuple):
    """All turns of a load.

    Attributes:
        welcome: answer to the fetcher's hello.
    """

    turns: list[Turn]
    welcome: bytes


def recorded(load: Load) -> Record:
    """Record the turns of this build."""
    recording = Recording(load)
    return Record(recording.turns, recording.welcome)


def recorded_by(python: str, load: Load) -> Record:
    """Record the turns of the build of another interpreter, which imports only this module from here."""
    command = [python, "-I", "-c", START, *(str(number) for number in load)]
    record: Record = pickle.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return record


START: Final = f"""
import pickle, sys
sys.path.append({str(Path(__file__).parents[2])!r})
from benchmarks.contest import Load
from benchmarks.peers.recording import recorded
sys.stdout.buffer.write(pickle.dumps(recorded(Load(*map(int, sys.argv[1:])))))
"""


class Recording:
    """Producer, fetcher and daemon around the real core and ledger, recording each turn."""

    def __init__(self, load: Load) -> None:
        self.turns: list[Turn] = []
        self.welcome = b""
        self._load = load
        self._numbers = count(2)
        self._store = Spy(Disk())
        self._ledger = Ledger(self._store)
        config = CoreConfig(projects={ours.PROJECT: {"rate": inf}})
        self._scheduler = Scheduler(self._ledger.begin("boot"), config, Calendar(), self._now)
        self._record()

    def _record(self) -> None:
        said, _ = self._turn([ours.hello(self._load)])
        self.welcome = encode(said[0])
        pushes = [decode_request(frame)[0] for frame in ours.new_task_frames(self._load.made())]
        done: list[AnyRequest] = []
        while pushes or done:
            now, pushes = pushes[:TURN_FRAMES], pushes[TURN_FRAMES:]
            said, written = self._turn([*now, *done])
            turn = Turn(len(now), len(done), written)
            for message in said:
                turn.say(message)
            self.turns.append(turn)
            done = [each for message in said if isinstance(message, Select) for each in self._answers(message)]

    def _turn(self, requests: Sequence[AnyRequest]) -> tuple[list[AnyOutgoing], Batch | None]:
        now, heard = self._now, [Incoming(Peer(request.session.encode()), request) for request in requests]
        turn = self._scheduler.begin(now, heard)
        result = turn.decide(self._ledger.find(turn.needs))
        self._store.last = None
        self._ledger.commit(result.writes)
        # No request is repeated here, so no stored answer is sent.
        return [said.message for said in result.outgoing if not isinstance(said.message, Raw)], self._store.last

    def _answers(self, select: Select) -> list[AnyRequest]:
        starts = range(0, len(select.tasks), self._load.batch)
        return [ours.done(next(self._numbers), select, start, start + self._load.batch) for start in starts]

    @property
    def _now(self) -> Now:
        elapsed = len(self.turns) * TURN_SECONDS
        return Now(wall=WALL + elapsed, boot=Boot(elapsed))
