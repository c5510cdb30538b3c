"""Daemon without socket, clock and threads: the turn, as the real server takes it, and all ways to die.

    inbox ─► decode ─► begin ─► find ─► decide ─► keep ─► outbox ─► sync ─► network
                                                ▲      ▲                 ▲
                                          crash before, after     between two sends

Core, ledger, codec and outbox are the real ones. A turn takes time, so that the next one finds several messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgpack
from msgspec import Raw

from taskqueue.calendar import Calendar
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import PROCESSING
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.turn_result import TurnResult
from taskqueue.errors import Corrupt, Rejected, StoreError
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import decode_request, encode, request_number
from taskqueue.protocol.fetchers import HelloWanted, Select
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import AnyOutgoing, Incoming, Outgoing
from taskqueue.server.loop import Outbox
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.layout import ORDERS, decode_lease, project_key
from tests.simulation.laws import Round
from tests.simulation.reloads import compare_with_store, snapshot_equals_reload
from tests.simulation.storage import Fault, FaultyStore
from tests.simulation.world import Crash, Violation

if TYPE_CHECKING:
    from tests.simulation.site import Site

Frame = tuple[bytes, bytes]
"""Pair of (peer, payload)."""

MOST_HEARD: Final = 200
MOST_LEASES: Final = 100_000
COMPARE_SHARE: Final = 0.02
"""Share of turns after which the whole store is compared with the scheduler."""


class Host:
    """Process of the daemon, from its start to its death.

    Attributes:
        is_up: whether it lives.
        callers: peers that have sent a message over their connection to it, in the order of their first one.
    """

    def __init__(self, site: Site, store: FaultyStore, number: int, callers: Iterable[bytes] = ()) -> None:
        """Begin an epoch, and announce it to ``callers``, whose connections outlived the previous epoch."""
        self.site = site
        self.world = site.world
        self.judge = site.judge
        self.name = f"daemon.{number}"
        self.is_up = True
        self.is_succeeded = False
        self._rng = self.world.rng(self.name)
        self._store = store
        self._ledger = Ledger(store)
        self._inbox: list[Frame] = []
        self._told: CoreConfig | None = None
        self._outbox = Outbox(self._send)
        self._undelivered: list[Outgoing] = []
        self._written = self._covered = 0
        self._syncing = False
        self._busy_until = self.world.clock.now
        self._planned = 0
        self._sends_left = -1
        self._turns = 0
        self._minute = 0
        self.callers = dict.fromkeys(callers)
        self._load()

    # ------------------------------------------------------------------------------------ life

    def hear(self, peer: bytes, frame: bytes) -> None:
        """Take in a frame."""
        if self.is_up:
            self.callers[peer] = None
            self._inbox.append((peer, frame))
            self._plan(self._busy_until)

    def configure(self, config: CoreConfig) -> None:
        """Use another config from the next turn on."""
        self._told = config
        self._plan(self._busy_until)

    def stop(self) -> None:
        """Shut down cleanly: send all messages, and mark the store as closed."""
        self._ledger.sync()
        self.judge.synced()
        self._covered = self._written
        self._outbox.release(self._covered)
        self._ledger.stop()
        self.die("stops")

    def die(self, how: str) -> None:
        """End the process."""
        self.world.trace.note(self.name, how)
        self.is_up = False
        self._inbox.clear()

    def _load(self) -> None:
        loaded = self._ledger.begin(self.world.machine.boot_id, lambda size: self.world.secret)
        self.judge.synced()
        now = self.world.machine.now()
        self._core = Scheduler(loaded, self.site.config, Calendar(), now)
        self.world.trace.note(self.name, f"begins epoch {loaded.epoch} with {len(loaded.leased)} leases")
        self.judge.restarted(self.site.config, same_boot=loaded.same_boot)
        for peer in self.callers:
            self._send(Peer(peer), encode(HelloWanted(epoch=loaded.epoch)))
        self._plan(self._busy_until)

    # ------------------------------------------------------------------------------------ when

    def _plan(self, at: float) -> None:
        """Plan the next turn for ``at`` instead of its former time."""
        self._planned += 1
        planned = self._planned
        self.world.clock.at(at, lambda: self._wake() if planned == self._planned else None)

    def _wake(self) -> None:
        if not self.is_up:
            return
        try:
            self._turn()
        except Crash as crash:
            self.site.died(self, f"dies: {crash}")
            return
        except StoreError:
            self.site.failed(self)
            return
        self._rest()

    def _rest(self) -> None:
        """Plan the next turn for the end of this one, or later."""
        mean = self.world.weather.turn_seconds
        self._busy_until = self.world.clock.now + self._rng.uniform(0.0005, 2 * mean)
        now = self.world.machine.now()
        due_at = self._core.next_event_at(now)
        if not self.is_succeeded:
            self.judge.sleep.until(now, due_at)
        if self._inbox or self._undelivered:
            self._plan(self._busy_until)
        elif due_at < float("inf"):
            self._plan(max(self._busy_until, self.world.machine.when(due_at)))

    # ------------------------------------------------------------------------------------ the turn

    def _turn(self) -> None:
        frames, self._inbox = self._inbox[:MOST_HEARD], self._inbox[MOST_HEARD:]
        heard, refused, understood = _decode(frames)
        now = self.world.machine.now()
        undelivered, self._undelivered = self._undelivered, []
        result = self._decide(now, heard, undelivered)
        self._keep(now, understood, result, undelivered)
        self._verify(now)
        self.site.count(len(frames))
        self._say([*result.outgoing, *refused])

    def _decide(self, now: Now, heard: list[Incoming], undelivered: list[Outgoing]) -> TurnResult:
        config, self._told = self._told, None
        if config is not None and not self.is_succeeded:
            self.judge.configured(config)
        self._store.unreadable = self._rng.random() < self.world.weather.read_fails
        try:
            turn = self._core.begin(now, heard)
            self.site.count_refills(len(turn.needs.orders), busy=bool(heard))
            return turn.decide(self._ledger.find(turn.needs), config, undelivered, figures=self._figures(now))
        except StoreError:
            raise
        except Exception as error:
            if self.is_succeeded:
                raise Crash("it stumbles over what its successor has written") from error
            raise _broken(error) from error
        finally:
            self._store.unreadable = False

    def _figures(self, now: Now) -> DaemonMinute | None:
        """Return the shell's figures of a minute that has passed: here, its turns."""
        minute, before, turns = int(now.wall // 60), self._minute, self._turns
        if minute == before:
            self._turns += 1
            return None
        self._minute, self._turns = minute, 1
        return DaemonMinute(before, turns=turns) if turns else None

    def _keep(self, now: Now, understood: list[Frame], result: TurnResult, undelivered: list[Outgoing]) -> None:
        """Write the batch; after success or failure the judge learns what the store has now."""
        said = [(bytes(each.peer), msgpack.unpackb(encode(each.message))) for each in result.outgoing]
        requests = [(peer, msgpack.unpackb(frame)) for peer, frame in understood]
        missed = [(each.session, _tokens(each.message)) for each in undelivered]
        before = self._store.writes
        self._store.fault = self._draw_fault()
        try:
            self._ledger.commit(result.writes)
        except Corrupt as error:
            if self.is_succeeded:
                raise Crash("what its successor has written contradicts what it knows") from error
            raise
        finally:
            written = self._store.writes > before
            if written and self.is_succeeded:
                self.judge.fenced_write(self.name)
            if written:
                self._written += 1
                self.judge.turned(Round(now, requests, said, result.writes, True, result.events, missed))
        self._store.fault = ""
        if not written and not self.is_succeeded:
            self.judge.turned(Round(now, requests, said, WriteSet(), False, [], missed))
        self._trace(result)
        self._begin_sync()

    def _draw_fault(self) -> Fault:
        weather, rng = self.world.weather, self._rng
        luck = rng.random()
        self._sends_left = rng.randrange(4) if rng.random() < weather.crash_between else -1
        faults: tuple[tuple[Fault, float], ...] = (
            ("crash before", weather.crash_before),
            ("crash after", weather.crash_after),
            ("fails", weather.write_fails),
            ("unknown", weather.outcome_unknown),
        )
        for fault, share in faults:
            luck -= share
            if luck < 0:
                return fault
        return ""

    def _verify(self, now: Now) -> None:
        """Judge laws S9 and S8."""
        try:
            self._core.verify()
        except Exception as error:
            raise _broken(error) from error
        if self._rng.random() < COMPARE_SHARE and not self.is_succeeded:
            compare_with_store(self._core, self._ledger)
            copy = self.site.storage.copy()
            if copy is not None and self._core.next_event_at(now) > now.boot:
                snapshot_equals_reload(self._core, copy, self.world.machine.boot_id, now)

    def _trace(self, result: TurnResult) -> None:
        for task, old_state, *_ in result.writes.moves:
            what = f"{old_state}>{task.state} token {task.token:x} key {task.key:x} retried {task.retried}"
            self.world.trace.note(self.name, f"{task.taskid} {what}")

    # ------------------------------------------------------------------------------------ saying

    def _say(self, said: list[Outgoing]) -> None:
        for each in said:
            waits_for = self._written if each.after_sync and self.site.durability == "commit" else None
            select = each if isinstance(each.message, Select) else None
            if not self._outbox.put(each.peer, encode(each.message), waits_for, select) and select:
                self._undelivered.append(each)

    def _send(self, peer: Peer, payload: bytes) -> bool:
        if self._sends_left == 0:
            raise Crash("between two sends")
        self._sends_left -= 1
        if not self.world.network.reaches(bytes(peer)):
            return False
        self.judge.leaving(peer.decode(), msgpack.unpackb(payload), self._knows)
        self.world.network.say(bytes(peer), payload)
        return True

    def _knows(self, number: int, taskid: str) -> bool:
        """Whether the store has the task, by its taskid or by its lease."""
        ref = TaskRef(number, taskid)
        if ref in self._ledger.find(Needs(tasks=[ref])).tasks:
            return True
        leases = self._store.scan(ORDERS[PROCESSING], project_key(number), project_key(number + 1), MOST_LEASES)
        return any(decode_lease(number, value).taskid == taskid for _, value in leases)

    # ------------------------------------------------------------------------------------ syncing

    def _begin_sync(self) -> None:
        """Begin a sync of everything written so far; at most one runs at a time."""
        if self._syncing or self._covered == self._written or self.site.durability == "none":
            return
        self._syncing = True
        written = self._written
        seconds = self._rng.uniform(0.001, 2 * self.world.weather.sync_seconds)
        self.world.clock.after(seconds, lambda: self._end_sync(written))

    def _end_sync(self, written: int) -> None:
        if not self.is_up or self.is_succeeded:
            return
        self._syncing = False
        self._store.unsyncable = self._rng.random() < self.world.weather.sync_fails
        try:
            self._ledger.sync()
            self.judge.synced()
            self._covered = written
            if undelivered := self._outbox.release(written):
                self._undelivered += undelivered
                self._plan(self._busy_until)
            self._begin_sync()
        except Crash as crash:
            self.site.died(self, f"dies: {crash}")
        except StoreError:
            self.site.failed(self)
        finally:
            self._store.unsyncable = False


def _broken(error: Exception) -> Violation:
    """Make a violation of law S9 from the scheduler's error, about the first task that this names."""
    named = re.search(r"p\d\.t\d+r?", str(error))
    return Violation("S9", named.group() if named else "", f"{type(error).__name__}: {error}")


def _decode(frames: list[Frame]) -> tuple[list[Incoming], list[Outgoing], list[Frame]]:
    """Decode frames: requests, replies to invalid frames, and the valid frames."""
    heard: list[Incoming] = []
    refused: list[Outgoing] = []
    understood: list[Frame] = []
    for peer, frame in frames:
        try:
            request, flaws = decode_request(frame)
        except Rejected as why:
            reply = ErrorReply(n=request_number(frame), code=why.code, reason=why.reason)
            refused.append(Outgoing(Peer(peer), reply, after_sync=False))
        else:
            heard.append(Incoming(Peer(peer), request, flaws))
            understood.append((peer, frame))
    return heard, refused, understood


def _tokens(message: AnyOutgoing | Raw) -> list[int]:
    """List the tokens of the leases in a select."""
    return [task.token for task in message.tasks] if isinstance(message, Select) else []
