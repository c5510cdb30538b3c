"""The daemon's main loop: receive, take a turn, reply; or sleep until there is something to do.

    ┌─► signals ─► receive ──requests, or a timer is due──► turn ─► reply ─┐
    │      ▲           └─────────neither──► sleep ─┐                       │
    └──────┴───────────────────────────◄───────────┴───────────────────────┘

Rules:
1. It sleeps until a message, a signal, progress of the syncer, or the next timer of the core or the summary. It never
   polls, except the inbox of a database each second, which also shows whether another daemon has taken over.
2. Nothing that a peer sends can raise in here; invalid messages are answered with an error and counted. If receiving
   raises all the same, that is counted and logged, and the connection is closed (``Receiver``).
3. Crash only: after a StoreError waiting replies are dropped and a new epoch is loaded from the store as soon as a
   probe finds it usable; between probes requests are answered ``unavailable``. Then each connection that has ever
   sent a message gets ``hello-wanted``, ASKED_AT_ONCE a turn, so that its client repeats dropped requests.
   Fenced, FormatError, Damaged and Corrupt end the loop, because no retry helps.
4. At the start, too, it waits for a disk that is full or fails, and for a database that can't be reached yet; any
   other StoreError ends it, because the operator can correct a wrong path.

Replies wait in the outbox until the write that they acknowledge is synced, in order; a ``select`` does not wait behind
them, so that a fetcher has its next task while the disk still syncs its last report. With ``store.handout = "synced"``
it waits like a reply: no fetcher has a task whose lease may be lost. Waiting messages are bounded by MAX_WAITING_BYTES:
while the outbox is full the loop takes no further requests.

The loop blocks only in the poller.
"""

from __future__ import annotations

import logging
import os
import platform
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Final, NamedTuple

import zmq
from msgspec.structs import replace

from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.events import Event
from taskqueue.core.model.now import Now
from taskqueue.core.requests.daemon import PartialStatusReply, histogram_view
from taskqueue.errors import Damaged, Fenced, FormatError, PassingError, StoreError
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import encode, request_number
from taskqueue.protocol.daemon import DaemonReply, KeyListReply, StatusReply, StoreLevel
from taskqueue.protocol.fetchers import HelloWanted, Select
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.server.clock import Clock, cpu_ticks, ticks
from taskqueue.server.engine import Engine
from taskqueue.server.limits import DiskSpace
from taskqueue.server.log import Summary, change_line, event_level, event_line, silent_fetcher_lines, turn_lines
from taskqueue.server.meters import Meters, MinuteMeter, as_map
from taskqueue.server.network.cut_peers import CutPeers
from taskqueue.server.network.receiver import Receiver
from taskqueue.server.network.router import Frame, Router
from taskqueue.server.postgres_intake import TableIntake
from taskqueue.server.signals import RELOAD, STOP, Signals
from taskqueue.server.store_opener import Backoff
from taskqueue.server.syncer import Syncer
from taskqueue.server.systemd import ServiceReports
from taskqueue.settings.settings import CoreConfig
from taskqueue.this_process import is_compiled, resident_bytes

ASKED_AT_ONCE = 1000
"""Connections that get ``hello-wanted`` in one turn, at most: about 10 ms."""

SAID_AGAIN_SECONDS: Final = 5.0
"""Pause between two equal log lines about a store that still fails."""

log = logging.getLogger("taskqueue")


class Loop:
    """Main loop, which runs in the main thread.

    Args:
        begin: opens the store and begins a new epoch.
        probe: tests, at little cost, whether the store can be used, before it is loaded again.
        reload: reads the config again, and also returns the names of changed settings; None if the config is invalid.
        notify: sends events to the webhook; must not block.
        disk: free space of the store's disk.
        service: reports to the service manager.
    """

    def __init__(
        self,
        router: Router,
        signals: Signals,
        clock: Clock,
        meters: Meters,
        begin: Callable[[CoreConfig], Engine],
        probe: Callable[[], None],
        reload: Callable[[], tuple[CoreConfig, Sequence[str]] | None],
        notify: Callable[[Sequence[Event]], None],
        disk: DiskSpace,
        service: ServiceReports,
        config: CoreConfig,
    ) -> None:
        self._router = router
        self._signals = signals
        self._clock = clock
        self._meters = meters
        self._begin = begin
        self._probe = probe
        self._reload = reload
        self._notify = notify
        self._disk = disk
        self._service = service
        self._config = config
        self._new_config: CoreConfig | None = None
        self._reloaded: Sequence[str] | None = None
        self._figures: DaemonMinute | None = None
        self._cpu = 0.0
        self._undelivered: list[Outgoing] = []
        self._cut: list[Peer | str] = []
        self._unasked: list[Peer] = []
        self._stopping = False
        self._outbox = Outbox(router.send)
        self._receiver = Receiver(router, meters, router if router.has_names else None)
        self._summary = Summary(meters)
        self._minutes = MinuteMeter(meters)
        self._backoff = Backoff()
        self._engine: Engine

    def start(self) -> None:
        """Begin the first epoch, waiting while the disk is full or fails, or the database can't be reached.

        Raises:
            StoreError: the store can't be used for another reason, or a stop signal came.
            Corrupt: a record can't be decoded.
        """
        try:
            self._engine = self._load()
            return
        except PassingError as error:
            failure = _StoreFailure.of(error)
        log.error(
            "store-failed error=%s; requests to %s are answered unavailable until it can be used",
            failure.message, " and ".join(self._router.endpoints),
        )  # fmt: skip
        self._wait_for_store(failure, PassingError)

    def run(self) -> None:
        """Run until a stop signal comes; then send all replies and mark a clean stop.

        Raises:
            StoreError: the daemon can't go on, or its stop was not clean.
            Corrupt: an invariant of the core is broken.
        """
        self._cpu = cpu_ticks()
        try:
            while not self._stopping:
                self._run_once()
            self._service.stopping()
            self._shut_down()
        finally:
            self._engine.close()

    @property
    def engine(self) -> Engine:
        """Engine of the current epoch."""
        return self._engine

    # ------------------------------------------------------------------------------------------------ a pass

    def _run_once(self) -> None:
        failure: _StoreFailure | None = None
        try:
            self._release_synced()
            self._receive_and_turn()
        except (Damaged, Fenced, FormatError):
            raise
        except StoreError as error:
            failure = _StoreFailure.of(error)
        if failure is not None:
            self._reload_store(failure)
        self._apply_signals()

    def _receive_and_turn(self) -> None:
        if self._unasked:
            self._ask_for_hellos()
        incoming, refused = self._receive()
        # Not earlier: what comes by their next connections must not be answered before they are cut off.
        if cut := self._router.cut_peers.take():
            self._receiver.drop(each for each in cut if not isinstance(each, str))
            self._cut += cut
            incoming = [each for each in incoming if each.peer not in cut and each.caller.owner not in cut]
        now = self._clock.now()
        if self._service.due_at <= now.boot:
            self._service.beat(now.boot)
        # With requests there is a turn in any case, so the timers are not asked.
        due_at = now.boot if incoming else self._engine.next_event_at(now)
        if self._summary.due_at <= now.boot:
            self._summarise()
        if min(due_at, self._disk.due_at) <= now.boot and self._disk.look(now.boot):
            self._pass_config(self._config)
        if self._new_config or self._reloaded is not None or self._undelivered or self._cut or due_at <= now.boot:
            self._turn(now, incoming)
        elif not refused and not self._unasked:
            wake_at = min(due_at, self._summary.due_at, self._disk.due_at, self._service.due_at)
            self._sleep(wake_at - now.boot)
            return
        if refused:
            self._send_replies(refused)
        self._charge()

    def _charge(self) -> None:
        """Charge the requests for the CPU seconds of this thread since the last call.

        Called once a turn: reading the seconds is a system call of 1 µs, where the other clocks take 0.05.
        """
        before, self._cpu = self._cpu, cpu_ticks()
        self._receiver.spent(self._cpu - before)

    def _sleep(self, seconds: float) -> None:
        if self._outbox.full:
            self._poller.sleep(seconds, ignore_socket=True)
        else:
            seconds = min(seconds, self._receiver.wait())
            self._router.await_messages(partial(self._poller.sleep, seconds))

    def _receive(self) -> tuple[list[Incoming], list[Outgoing]]:
        """Return requests, and replies to invalid messages; nothing while too many replies wait for the disk."""
        return ([], []) if self._outbox.full else self._receiver.next_requests(self._config.max_message)

    def _turn(self, now: Now, incoming: Sequence[Incoming]) -> None:
        self._figures = self._minutes.ended(now.wall) or self._figures
        result = self._engine.turn(
            now, incoming, self._new_config, self._undelivered, self._reloaded, self._figures, self._cut
        )
        self._new_config = self._reloaded = self._figures = None
        self._undelivered, self._cut = [], []
        if log.isEnabledFor(logging.INFO):
            self._summary.note(result.writes.projects, now.boot)
        if log.isEnabledFor(logging.DEBUG):
            for line in turn_lines(incoming, result.writes, self._summary.names, self._engine.pseudonym):
                log.debug("%s", line)
        self._summary.forget(result.writes.dropped_projects)
        if result.writes.failures:
            for line in silent_fetcher_lines(result.writes):
                log.warning("%s", line)
        for entry in result.writes.log:
            log.info("%s", change_line(entry))
        if result.events:
            for event in result.events:
                log.log(event_level(event), "%s", event_line(event))
            self._notify(result.events)
        self._send_replies(result.outgoing)

    def _send_replies(self, outgoing: Sequence[Outgoing]) -> None:
        """Send messages that wait for no sync, then order the turn's sync, then queue the others."""
        began = ticks()
        self._release_synced()
        for message in outgoing:
            if not message.after_sync:
                self._put(message, None)
        self._engine.syncer.sync_soon()
        for message in outgoing:
            if message.after_sync:
                self._put(message, self._engine.syncer.written)
        self._meters.reply_seconds += ticks() - began

    def _put(self, outgoing: Outgoing, ticket: int | None) -> None:
        """Complete a message by what only the shell knows, and pass it to the outbox."""
        message = outgoing.message
        if isinstance(message, StatusReply):
            message = self._completed(message)
        elif type(message) is DaemonReply:
            message = self._completed_daemon(message)
        elif type(message) is KeyListReply:
            message = self._completed_keys(message)
        select = outgoing if ticket is not None and type(message) is Select else None
        has_left = self._outbox.put(outgoing.peer, encode(message), ticket, select)
        if not has_left and type(message) is Select:
            self._undelivered.append(outgoing)

    def _completed(self, status: StatusReply) -> StatusReply:
        """Complete the status with the fields that the core can't know."""
        return replace(
            status,
            version=self._config.version,
            compiled=is_compiled(),
            uptime_seconds=self._clock.uptime(),
            shell={} if isinstance(status, PartialStatusReply) else as_map(self._meters),
        )

    def _completed_daemon(self, reply: DaemonReply) -> DaemonReply:
        reply = replace(reply, uptime_seconds=self._clock.uptime(), resident_bytes_most=self._router.memory_bytes)
        return completed_daemon_view(reply, self._engine, self._meters, self._disk)

    def _completed_keys(self, reply: KeyListReply) -> KeyListReply:
        """Complete the reply with a page of names; a daemon without keys has none."""
        if self._router.keys is None:
            return replace(reply, next="")
        keys, after = self._router.keys.page(reply.next, self._router.connected_names())
        return replace(reply, keys=keys, next=after)

    def _release_synced(self) -> None:
        covered = self._engine.syncer.check()
        if covered > self._outbox.released:
            self._undelivered += self._outbox.release(covered)
            self._backoff.reset()

    def _summarise(self) -> None:
        if line := self._summary.line():
            log.info("%s", line)

    # ------------------------------------------------------------------------------------------------ signals

    def _apply_signals(self) -> None:
        for number in self._signals.take():
            if number in STOP:
                self._stopping = True
            elif number == RELOAD and (read := self._reload()) is not None:
                config, self._reloaded = read
                self._disk.look(self._clock.now().boot)
                self._pass_config(config)

    def _pass_config(self, config: CoreConfig) -> None:
        self._config = self._new_config = replace(config, has_room=self._disk.has_room)

    def _shut_down(self) -> None:
        self._engine.finish(self._minutes.figures())
        self._release_synced()
        self._engine.stop()
        self._summarise()

    # ------------------------------------------------------------------------------------------------ store failures

    def _load(self) -> Engine:
        """Begin a new epoch.

        Raises:
            StoreError: the store can't be opened, read or written.
        """
        engine = self._begin(self._config)
        self._new_config = None
        self._undelivered = []
        self._unasked = self._router.peers()
        self._summary.begin(engine.projects)
        if self._router.keys is not None:
            # Nothing that they hold will be reported, so their tasks need not wait for fetcher_timeout.
            self._cut += self._router.keys.without_work(engine.owners)
        self._poller = Poller(
            self._meters, self._router.socket, self._signals, engine.syncer, engine.intake, self._router.cut_peers
        )
        return engine

    def _reload_store(self, failure: _StoreFailure) -> None:
        log.error("store-failed error=%s; unanswered requests are dropped and the store is read again", failure.message)
        self._meters.reloads += 1
        self._outbox.clear()
        self._engine.close()
        self._wait_for_store(failure, StoreError)
        self._cpu = cpu_ticks()

    def _wait_for_store(self, failure: _StoreFailure, passing: type[StoreError]) -> None:
        """Probe until the store can be used, and load it; raise errors other than ``passing``."""
        began_at = said_at = ticks()
        while not self._stopping:
            self._refuse_for(self._backoff.next(self._clock.now().boot), failure)
            again = None if self._stopping else self._try_to_load(passing, began_at)
            if again is None:
                break
            if again.message != failure.message or ticks() >= said_at + SAID_AGAIN_SECONDS:
                log.error("store-still-fails error=%s", again.message)
                said_at = ticks()
            failure = again
        if self._stopping:
            raise StoreError(f"stopped while the store could not be used: {failure.message}")

    def _try_to_load(self, passing: type[StoreError], failed_at: float) -> _StoreFailure | None:
        """Probe and load the store; return the failure, or None after a success."""
        try:
            self._probe()
            usable_at = ticks()
            self._engine = self._load()
        except (Damaged, Fenced, FormatError):
            raise
        except passing as error:
            return _StoreFailure.of(error)
        now = ticks()
        log.info(
            "store-read-again epoch=%d load_seconds=%.3f after_seconds=%.3f",
            self._engine.epoch, now - usable_at, now - failed_at,
        )  # fmt: skip
        return None

    def _ask_for_hellos(self) -> None:
        """Send ``hello-wanted`` to the next connections, because their unanswered requests may have been dropped."""
        asked, self._unasked = self._unasked[:ASKED_AT_ONCE], self._unasked[ASKED_AT_ONCE:]
        message = encode(HelloWanted(epoch=self._engine.epoch))
        for peer in asked:
            self._router.send(peer, message)

    def _refuse_for(self, seconds: float, failure: _StoreFailure) -> None:
        """Answer every request with ``unavailable`` for a number of seconds."""
        poller = Poller(self._meters, self._router.socket, self._signals)
        until = self._clock.now().boot + seconds
        while not self._stopping and (left := until - (now_boot := self._clock.now().boot)) > 0:
            self._service.beat(now_boot)
            for frame in self._receiver.clear():
                self._meters.unavailable += 1
                self._router.send(frame.peer, encode(_unavailable(frame, failure.reason)))
            poller.sleep(min(left, self._service.due_at - now_boot))
            self._apply_signals()


class _StoreFailure(NamedTuple):
    """Texts of a StoreError; the error itself would keep its frames, and with them the store, alive.

    Attributes:
        message: text for the daemon log.
        reason: text for peers, without paths; empty if there is nothing useful to say.
    """

    message: str
    reason: str

    @classmethod
    def of(cls, error: StoreError) -> _StoreFailure:
        return cls(str(error), error.reason if isinstance(error, PassingError) else "")


def _unavailable(frame: Frame, why: str) -> ErrorReply:
    said = f" ({why})" if why else ""
    reason = f"the store can't be used at the moment{said}; repeat the request later"
    return ErrorReply(n=request_number(frame.payload), code="unavailable", reason=reason)


# ------------------------------------------------------------------------------------------------ the poller

MAX_SLEEP_SECONDS: Final = 86_400.0
"""Seconds of one sleep, at most: the milliseconds must fit in a C int, and one wake-up a day costs nothing."""


class Poller:
    """Poller of the socket, the signals, cut-off peers and, if there are any, a syncer and an intake."""

    def __init__(
        self,
        meters: Meters,
        socket: zmq.Socket[bytes],
        signals: Signals,
        syncer: Syncer | None = None,
        intake: TableIntake | None = None,
        cut_peers: CutPeers | None = None,
    ) -> None:
        self._meters = meters
        self._signals = signals
        self._syncer = syncer
        self._intake = intake
        self._cut_peers = cut_peers
        self._without_socket = zmq.Poller()
        self._all = zmq.Poller()
        for poller in (self._without_socket, self._all):
            poller.register(signals, zmq.POLLIN)
            for waker in (syncer, intake, cut_peers):
                if waker is not None:
                    poller.register(waker, zmq.POLLIN)
        self._all.register(socket, zmq.POLLIN)

    def sleep(self, seconds: float, ignore_socket: bool = False) -> None:
        """Return when there is something to do, after ``seconds``, or after a day.

        Rounds up to a millisecond, so that the loop never wakes before something is due and spins. An exact sleep would
        make a single timer less late, but ten timers within a millisecond would be ten turns. A connection that opens
        or closes meanwhile may end the sleep up to a millisecond early, because ZeroMQ then counts whole ones.

        Args:
            ignore_socket: incoming messages do not end the sleep.
        """
        milliseconds = ceil(1000 * min(seconds, MAX_SLEEP_SECONDS))
        if self._syncer is None:
            self._poll(ignore_socket, milliseconds)
            return
        self._syncer.sleeping = True
        if not self._syncer.has_progress:
            self._poll(ignore_socket, milliseconds)
        self._syncer.sleeping = False

    def _poll(self, ignore_socket: bool, milliseconds: int) -> None:
        ready = dict((self._without_socket if ignore_socket else self._all).poll(milliseconds))
        self._meters.wakeups += 1
        for waker in (self._signals, self._syncer, self._intake, self._cut_peers):
            if waker is not None and waker.fileno() in ready:
                waker.clear_wakeup()


# ------------------------------------------------------------------------------------------------ the outbox

MAX_WAITING_BYTES = 64 << 20


class _Unsynced(NamedTuple):
    """Messages that wait for a write; ``selects`` are those of them with tasks, by their index."""

    ticket: int
    messages: list[tuple[Peer, bytes]]
    selects: dict[int, Outgoing]


class Outbox:
    """Queue of messages in front of the socket; ``send`` transmits one.

    Attributes:
        released: number of the last write for which no message waits any more.
    """

    def __init__(self, send: Callable[[Peer, bytes], bool]) -> None:
        self._send = send
        self.released = 0
        self._bytes = 0
        self._batches: deque[_Unsynced] = deque()

    @property
    def full(self) -> bool:
        """Whether too many bytes are waiting for the disk."""
        return self._bytes >= MAX_WAITING_BYTES

    def put(self, peer: Peer, payload: bytes, ticket: int | None, select: Outgoing | None = None) -> bool:
        """Send a message, or queue it until the write numbered ``ticket`` is synced; None means to send at once.

        Tickets must not decrease. Returns False if it should be sent at once, and could not be.

        Args:
            select: the message, if it has tasks that go back if it can't be sent.
        """
        if ticket is None or ticket <= self.released:
            return self._send(peer, payload)
        batch = self._batch(ticket)
        if select is not None:
            batch.selects[len(batch.messages)] = select
        batch.messages.append((peer, payload))
        self._bytes += len(payload)
        return True

    def release(self, ticket: int) -> list[Outgoing]:
        """Send all messages that waited for writes up to this one; return those with tasks that could not be sent."""
        self.released = ticket
        undelivered: list[Outgoing] = []
        while self._batches and self._batches[0].ticket <= ticket:
            undelivered += self._send_batch(self._batches.popleft())
        return undelivered

    def clear(self) -> None:
        """Drop all waiting messages; tickets start anew."""
        self.released = self._bytes = 0
        self._batches.clear()

    def _batch(self, ticket: int) -> _Unsynced:
        if not self._batches or self._batches[-1].ticket < ticket:
            self._batches.append(_Unsynced(ticket, [], {}))
        return self._batches[-1]

    def _send_batch(self, batch: _Unsynced) -> list[Outgoing]:
        undelivered = []
        for index, (peer, payload) in enumerate(batch.messages):
            self._bytes -= len(payload)
            if not self._send(peer, payload) and index in batch.selects:
                undelivered.append(batch.selects[index])
        return undelivered


# ------------------------------------------------------------------------------------------------ the daemon's view


def completed_daemon_view(reply: DaemonReply, engine: Engine, meters: Meters, disk: DiskSpace) -> DaemonReply:
    """Complete the reply with the fields that the core can't know, except those of clock and socket. Costs 0.1 ms.

    Raises:
        StoreError: the size of the store can't be read.
    """
    return replace(
        reply,
        python=platform.python_version(),
        compiled=is_compiled(),
        pid=os.getpid(),
        durability=engine.syncer.durability,
        resident_bytes=resident_bytes(),
        database=engine.database,
        levels=[StoreLevel(level, len(sizes), sum(sizes)) for level, sizes in engine.levels().items()],
        log_bytes=engine.log_bytes(),
        free_bytes=disk.free_bytes(),
        shell=as_map(meters),
        histograms=reply.histograms | {name: histogram_view(each) for name, each in meters.histograms().items()},
    )
