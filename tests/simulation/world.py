"""World outside of the daemon, on virtual time: clocks, a network, the weather, and a trace of events.

All actions run in one thread, in the order of one heap, and every choice comes from generators seeded by one number, so
that equal seeds give equal worlds, line by line of their traces.

    Clock     the next action is the earliest; nothing waits
    Machine   the daemon's clocks: a wall clock that may step, a boot clock that restarts with each boot
    Weather   how bad each fault is in this world; some are absent, because faults hide each other
    Network   loses, repeats, delays and so reorders frames; carries some paths in one direction only
    Trace     lines of events, and their digest
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from heapq import heappop, heappush
from random import Random
from typing import Final, NamedTuple

from taskqueue.core.model.hashes import SECRET_BYTES
from taskqueue.core.model.now import Now
from taskqueue.protocol.fields import Boot, Wall

BEGINNING: Final = 1_700_000_000.0
"""Unix seconds at which every world begins."""

LONGEST_DELAY_SECONDS: Final = 40.0
TRACE_LINES: Final = 30

Action = Callable[[], None]


class Crash(BaseException):
    """Death of the process. No ``except Exception`` survives a power cut."""


class Violation(AssertionError):
    """Breach of a law.

    Attributes:
        law: its name, such as S3.
        task: the taskid that is concerned, or a word that its lines of the trace have in common.
    """

    def __init__(self, law: str, task: str, reason: str) -> None:
        super().__init__(f"{law}: {task}: {reason}")
        self.law = law
        self.task = task
        self.reason = reason


class Clock:
    """True time in seconds since the beginning of the world, and the planned actions."""

    def __init__(self) -> None:
        self.now = 0.0
        self._actions: list[tuple[float, int, Action]] = []
        self._count = 0

    def at(self, when: float, action: Action) -> None:
        """Plan ``action`` for ``when``, after earlier plans for the same time."""
        self._count += 1
        heappush(self._actions, (max(when, self.now), self._count, action))

    def after(self, seconds: float, action: Action) -> None:
        """Plan ``action`` for ``seconds`` from now."""
        self.at(self.now + seconds, action)

    def run_until(self, end: float) -> None:
        """Run all actions that are planned until ``end``."""
        while self._actions and self._actions[0][0] <= end:
            self.now, _, action = heappop(self._actions)
            action()
        self.now = end


class Machine:
    """Machine of the daemon: its clocks, and the number of its boots.

    Attributes:
        wall_offset: of the wall clock from the true time; ``step`` changes it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._booted_at = -1000.0
        self.boots = 1
        self.wall_offset = self._furthest = BEGINNING

    def now(self) -> Now:
        """Read the daemon's clocks."""
        return Now(wall=Wall(self._clock.now + self.wall_offset), boot=Boot(self._clock.now - self._booted_at))

    def step(self, seconds: float) -> None:
        """Put the wall clock forward, or back if negative."""
        self.wall_offset += seconds
        self._furthest = max(self._furthest, self.wall_offset)

    @property
    def wall_lag(self) -> float:
        """Return the seconds until the wall clock has caught up with its latest time."""
        return self._furthest - self.wall_offset

    def when(self, boot: float) -> float:
        """Return the true time at which the boot clock shows ``boot``."""
        return boot + self._booted_at

    @property
    def boot_id(self) -> str:
        """Name the current boot of the machine."""
        return f"boot-{self.boots}"

    def boot(self, seconds_ago: float) -> None:
        """Boot again; the boot clock shows ``seconds_ago`` now."""
        self.boots += 1
        self._booted_at = self._clock.now - seconds_ago


class Weather(NamedTuple):
    """Strength of each fault: probability per frame or turn, or mean seconds between two of them (0: never).

    Attributes:
        drop, repeat, delay, garbage: of frames; ``garbage`` adds a mutilated copy.
        delay_seconds: mean delay of delayed frames.
        partition_every, stall_every, wall_step_every, die_every: mean seconds.
        turn_seconds: mean duration of a turn, so that the next one has several messages.
        sync_seconds: mean duration of a sync.
        crash_before, crash_after, crash_between: the daemon dies before its write, after it, between two sends.
        power_cut: share of its deaths in which the machine dies with it.
        write_fails, outcome_unknown, read_fails, sync_fails: errors of the store.
        usurp_every: mean seconds between two schedulers that start while the old one only seems dead.
        stop_every: mean seconds between two clean restarts.
    """

    drop: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.0
    garbage: float = 0.0
    partition_every: float = 0.0
    stall_every: float = 0.0
    wall_step_every: float = 0.0
    die_every: float = 0.0
    turn_seconds: float = 0.001
    sync_seconds: float = 0.001
    crash_before: float = 0.0
    crash_after: float = 0.0
    crash_between: float = 0.0
    power_cut: float = 0.0
    write_fails: float = 0.0
    outcome_unknown: float = 0.0
    read_fails: float = 0.0
    sync_fails: float = 0.0
    usurp_every: float = 0.0
    stop_every: float = 0.0


CALM: Final = Weather(turn_seconds=5.0)


def forecast(rng: Random) -> Weather:
    """Draw weather: each fault is absent in about half of the worlds, and up to its worst in others."""

    def some(most: float, least: float = 0.0) -> float:
        return rng.uniform(least, most) if rng.random() < 0.5 else 0.0

    return Weather(
        drop=some(0.3),
        repeat=some(0.3),
        delay=some(0.2),
        delay_seconds=rng.choice((0.5, 5.0, 20.0)),
        garbage=some(0.05),
        partition_every=some(400, 60),
        stall_every=some(500, 100),
        wall_step_every=some(500, 100),
        die_every=some(500, 60),
        turn_seconds=rng.choice((0.3, 3.0, 5.0, 5.0, 8.0, 8.0)),
        sync_seconds=rng.choice((0.005, 0.5, 3.0)),
        crash_before=some(0.02),
        crash_after=some(0.02),
        crash_between=some(0.02),
        power_cut=some(1.0),
        write_fails=some(0.01),
        outcome_unknown=some(0.01),
        read_fails=some(0.005),
        sync_fails=some(0.01),
        usurp_every=some(600, 150),
        stop_every=some(900, 150),
    )


class Network:
    """Network that carries frames between clients, each at its address, and the current scheduler."""

    def __init__(self, clock: Clock, rng: Random, weather: Weather) -> None:
        self._clock = clock
        self._rng = rng
        self.weather = weather
        self._clients: dict[bytes, Callable[[bytes], None]] = {}
        self._blocked_until: dict[tuple[bytes, bool], float] = {}
        self.scheduler: Callable[[bytes, bytes], None] = lambda peer, frame: None

    def join(self, peer: bytes, receive: Callable[[bytes], None]) -> None:
        """Deliver frames for ``peer`` to ``receive``."""
        self._clients[peer] = receive

    def leave(self, peer: bytes) -> None:
        """Stop delivering frames for ``peer``."""
        self._clients.pop(peer, None)

    def peers(self) -> list[bytes]:
        """List connected peers."""
        return list(self._clients)

    def block(self, peer: bytes, inwards: bool, seconds: float) -> None:
        """Lose all frames on one path for a while; the way back stays open."""
        self._blocked_until[peer, inwards] = self._clock.now + seconds

    def ask(self, peer: bytes, frame: bytes) -> None:
        """Send a frame from a client to the scheduler."""
        self._carry(peer, True, lambda: self.scheduler(peer, frame))
        if self._rng.random() < self.weather.garbage:
            self._carry(peer, True, lambda: self.scheduler(peer, self._mutilate(frame)))

    def reaches(self, peer: bytes) -> bool:
        """Whether the socket would take a message for the client: it has not noticed that the client has gone."""
        return peer in self._clients

    def say(self, peer: bytes, frame: bytes) -> None:
        """Send a frame from the scheduler to a client."""
        self._carry(peer, False, lambda: self._deliver(peer, frame))

    def _deliver(self, peer: bytes, frame: bytes) -> None:
        receive = self._clients.get(peer)
        if receive is not None:
            receive(frame)

    def _carry(self, peer: bytes, inwards: bool, arrive: Action) -> None:
        rng, weather = self._rng, self.weather
        if self._clock.now < self._blocked_until.get((peer, inwards), 0.0):
            return
        if rng.random() >= weather.drop:
            self._clock.after(self._delay(), arrive)
        if rng.random() < weather.repeat:
            self._clock.after(self._delay(), arrive)

    def _delay(self) -> float:
        delay = self._rng.uniform(0.001, 0.005)
        if self._rng.random() < self.weather.delay:
            delay += self._rng.expovariate(1 / self.weather.delay_seconds)
        return min(delay, LONGEST_DELAY_SECONDS)

    def _mutilate(self, frame: bytes) -> bytes:
        """Cut a frame off, so that it can never be a valid message that no peer sent."""
        return frame[: self._rng.randrange(len(frame))]


class Trace:
    """Lines of events; ``digest`` is equal for two worlds if and only if all lines are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[str] = []

    def note(self, actor: str, what: str) -> None:
        """Add a line."""
        self.lines.append(f"{self._clock.now:10.3f} {actor:<9} {what}")

    def digest(self) -> str:
        """Compute the digest of all lines."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]

    def about(self, word: str) -> list[str]:
        """Return the last lines with the word in them; the last lines of all if there are none."""
        return ([line for line in self.lines if word in line] or self.lines)[-TRACE_LINES:]


class World:
    """World of one seed: clock, machine, network, weather and trace.

    Attributes:
        secret: secret of every store that is made in it.
    """

    def __init__(self, seed: int | str, weather: Weather | None = None) -> None:
        self.seed = seed
        self.clock = Clock()
        self.trace = Trace(self.clock)
        self.machine = Machine(self.clock)
        self.weather = weather or forecast(self.rng("weather"))
        self.secret = self.rng("secret").randbytes(SECRET_BYTES)
        self.network = Network(self.clock, self.rng("network"), self.weather)
        self.is_calm = False

    def rng(self, name: str) -> Random:
        """Make a generator for one purpose, so that one more draw changes no other purpose."""
        return Random(f"{self.seed}/{name}")

    def calm_down(self) -> None:
        """End all faults."""
        self.is_calm = True
        self.weather = self.network.weather = CALM

    def wait(self, rng: Random, mean: float) -> float:
        """Draw the seconds until the next event that happens every ``mean`` seconds."""
        return max(1.0, rng.expovariate(1 / mean))
