"""Pushes: many tasks at once, from any iterable, or one by one, by callers that wait.

    push_many    URL | NewTask | mapping ──► NewTask ──► Packer ──► PushBatch ──► new-task ──► reply ──► Pushed
    push         NewTask ──► Push ──► gathered with those of other callers ─────► new-task ──► reply ──► PushOutcome

``push_many`` needs memory for one batch being packed and those in flight, however long the iterable is; their number is
bounded:

    send ──► fewer than ``most`` in flight? ──► message ──► counted
                    └── no: wait for one of them first

Single pushes of several projects share a message: it names the project of the first, the others name their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import Struct, field

from taskqueue.client.arguments import checked_count
from taskqueue.client.connection.background import Background, ThreadFuture
from taskqueue.client.connection.batching import Batching
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.new_task import check_meant, new_task
from taskqueue.client.tasks.push_options import OPTIONS, Duration, Moment, PushOptions
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.choices import NAME_WORDS, NEW_OUTCOMES, KnownState, PushOutcome
from taskqueue.protocol.fields import MAX_EDGES, ProjectName
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.texts.suggestions import there_are

BATCH_BYTES: Final = 1 << 20
"""Approximate size at which a batch is full, whatever its count."""

PARENT_BYTES: Final = 40
"""Approximate bytes of a parent in a message: most taskids are 32 hex digits."""

NAMED_CHARS: Final = 200
"""Characters of a URL by which an error names a task."""

FIRST_ERRORS: Final = 20
"""Reasons of rejected tasks that ``Pushed`` keeps."""

TIMES: Final = ("exetime", "delay")
"""Options for a task's first run, which exclude each other."""

_FIELDS: Final = OPTIONS | {"url", "project"}

Item = str | NewTask | Mapping[str, Any]
"""A URL, a task, or a map of the arguments of ``new_task``."""


class Defaults(Struct, frozen=True):
    """Arguments of ``new_task`` for all items that don't have their own.

    Raises:
        ValueError: both times are given, or one of them is invalid.
    """

    canonical: bool = False
    exetime: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        if self.exetime is not None and self.delay is not None:
            raise ValueError("exetime: give either exetime or delay, not both")
        # An error in a default is raised once, and nothing is sent.
        new_task("http://", exetime=self.exetime, delay=self.delay)

    @property
    def arguments(self) -> dict[str, Any]:
        """Defaults by their names."""
        return {"canonical": self.canonical, "exetime": self.exetime, "delay": self.delay}

    def complete(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the item, completed by the defaults."""
        return with_defaults(self.arguments, item)


PLAIN: Final = Defaults()


def with_defaults(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Complete given arguments by defaults; a given time replaces both times of the defaults."""
    own_time = any(name in said for name in TIMES)
    return {name: value for name, value in defaults.items() if not (own_time and name in TIMES)} | dict(said)


class Pushed(Struct):
    """Counts of the tasks of one ``push_many`` by their outcome.

    Attributes:
        new: tasks that the daemon did not know.
        merged, replaced, restarted, cancelled: known tasks that the push changed so.
        deferred: pushes that take effect when the known task, which is being run, has ended.
        ignored: known tasks that stay as they are.
        rejected: tasks that were refused, including invalid ones.
        forbidden: those of ``rejected`` that the client's key may not push, such as of projects that it does not reach.
        errors: reasons of the first rejected tasks, each with its index in the iterable, from 0.
    """

    new: int = 0
    merged: int = 0
    replaced: int = 0
    deferred: int = 0
    restarted: int = 0
    cancelled: int = 0
    ignored: int = 0
    rejected: int = 0
    forbidden: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Number of tasks that have been answered."""
        return sum(getattr(self, outcome) for outcome in NEW_OUTCOMES)

    def add(self, other: Pushed) -> None:
        """Add the counts of another one."""
        for outcome in NEW_OUTCOMES:
            setattr(self, outcome, getattr(self, outcome) + getattr(other, outcome))
        self.forbidden += other.forbidden
        self.errors += other.errors[: FIRST_ERRORS - len(self.errors)]

    def reject(self, place: int, reason: str) -> None:
        """Count a rejected task."""
        self.rejected += 1
        if len(self.errors) < FIRST_ERRORS:
            self.errors.append(f"task {place}: {reason}")


class PushedTask(Struct, frozen=True, gc=False):
    """Outcome of one task of a ``push_many``.

    Attributes:
        index: its index in the iterable, from 0.
        outcome: outcome of its push.
        state: its state in the daemon before, such as ``success``; empty: unknown to the daemon, or not asked.
        reason: reason of its rejection; empty: it was not rejected.
    """

    index: int
    outcome: PushOutcome
    state: KnownState = ""
    reason: str = ""


ToldOutcome = Callable[[PushedTask], object] | None
"""Callback with the outcome of each task, as the answers arrive."""


class Answered(NamedTuple):
    """Outcomes of one batch: counted, and one by one if that is wanted."""

    pushed: Pushed
    outcomes: list[PushedTask]


class PushBatch(Struct, eq=False):
    """Tasks for one message.

    Attributes:
        places: indices of the tasks in the iterable.
        size: approximate bytes of the message.
        edges: total number of their parents.
    """

    tasks: list[NewTask] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    size: int = 0
    edges: int = 0

    def count(self, reply: NewTasksReply) -> Pushed:
        """Count the outcomes in a reply."""
        pushed = Pushed()
        reasons = {error.index: error.reason for error in reply.errors}
        pushed.forbidden = sum(error.code == "forbidden" for error in reply.errors)
        for index, outcome in enumerate(reply.outcomes):
            if outcome == "rejected":
                pushed.reject(self.places[index], reasons.get(index, outcome))
            else:
                setattr(pushed, outcome, getattr(pushed, outcome) + 1)
        return pushed

    def outcomes(self, reply: NewTasksReply) -> list[PushedTask]:
        """Return the outcome of each task in a reply."""
        reasons = {error.index: error.reason for error in reply.errors}
        states = reply.states or [""] * len(reply.outcomes)  # An older daemon sends none.
        return [
            PushedTask(self.places[index], outcome, state, reasons.get(index, ""))
            for index, (outcome, state) in enumerate(zip(reply.outcomes, states, strict=True))
        ]

    def rejected(self, reason: str) -> Answered:
        """Count the only task as rejected: it could not even be sent."""
        pushed = Pushed()
        pushed.reject(self.places[0], reason)
        return Answered(pushed, [PushedTask(self.places[0], "rejected", reason=reason)])

    def halves(self) -> tuple[PushBatch, PushBatch]:
        """Divide a batch that turned out to be too large."""
        half = len(self.tasks) // 2
        return PushBatch(self.tasks[:half], self.places[:half]), PushBatch(self.tasks[half:], self.places[half:])


class Packer:
    """Maker of batches from items.

    Args:
        most: tasks per batch.
        pushed: counts items that are not tasks.
        told: called with those; may be None.
        defaults: arguments for items without their own.
    """

    def __init__(self, most: int, pushed: Pushed, defaults: Defaults = PLAIN, told: ToldOutcome = None) -> None:
        self._most = checked_count("batch", most)
        self._pushed = pushed
        self._told = told
        self._defaults = defaults
        self._batch = PushBatch()
        self._place = 0

    def pack(self, items: Iterable[Item]) -> Iterator[PushBatch]:
        """Iterate over the batches of an iterable, each as soon as it is full.

        Raises:
            TypeError: ``items`` is a single task.
        """
        check_several("tasks", items)
        for item in items:
            if (full := self.add(item)) is not None:
                yield full
        if (rest := self.rest()) is not None:
            yield rest

    async def pack_async(self, items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[PushBatch]:
        """Iterate over the batches of any iterable; a plain one is read between two of them, in the event loop."""
        if not isinstance(items, AsyncIterable):
            for full in self.pack(items):
                yield full
            return
        async for item in items:
            if (full_one := self.add(item)) is not None:
                yield full_one
        if (rest := self.rest()) is not None:
            yield rest

    def add(self, item: Item) -> PushBatch | None:
        """Pack one item; returns a batch when one is full."""
        place, self._place = self._place, self._place + 1
        try:
            task = as_new_task(item, self._defaults)
        except (TypeError, ValueError) as error:
            self._pushed.reject(place, str(error))
            if self._told is not None:
                self._told(PushedTask(place, "rejected", reason=str(error)))
            return None
        crowded = self.rest() if self._batch.edges + len(task.depends_on) > MAX_EDGES else None
        batch = self._batch
        batch.tasks.append(task)
        batch.places.append(place)
        batch.size += size_of(task)
        batch.edges += len(task.depends_on)
        is_full = len(batch.tasks) >= self._most or batch.size >= BATCH_BYTES
        return crowded or (self.rest() if is_full else None)

    def rest(self) -> PushBatch | None:
        """Return the tasks packed since the last full batch; None if there are none."""
        batch, self._batch = self._batch, PushBatch()
        return batch if batch.tasks else None


def as_new_task(item: Item, defaults: Defaults = PLAIN) -> NewTask:
    """Make a task of an item.

    Args:
        item: a ``new_task`` value stays as it is; the URL of a text or a map is checked by ``check_meant``.
        defaults: arguments for a URL, and for a map without its own.

    Raises:
        TypeError, ValueError: the item makes no task; the message names the field.
    """
    if isinstance(item, str):
        check_meant(item)
        return new_task(item, **defaults.arguments)
    if isinstance(item, NewTask):
        return item
    if not isinstance(item, Mapping):
        raise TypeError(f"expected a URL, a task or a map, got {type(item).__name__}")
    return _from_map(defaults.complete(item))


def _from_map(item: dict[str, Any]) -> NewTask:
    unknown = [key for key in item if key not in _FIELDS]
    if unknown:
        raise ValueError(
            f"{unknown[0]}: unknown field; a map is a new task; return a result as Result(...); "
            f"{there_are(unknown[0], sorted(_FIELDS))}"
        )
    if "url" not in item:
        raise ValueError("missing required field url; a map is a new task, return a result as Result(...)")
    check_meant(item["url"])
    return new_task(**item)


def check_several(field: str, items: object, one: str = "url") -> None:
    """Check that several items were given, not a single one: a text would be one item per letter.

    Args:
        one: noun for a text here.

    Raises:
        TypeError: a single item was given.
    """
    if isinstance(items, str | bytes | NewTask | Mapping):
        kind = f"one {one}" if isinstance(items, str) else f"one {type(items).__name__}"
        raise TypeError(f"{field}: expected several tasks, got {kind}; put it into a list")


def size_of(task: NewTask) -> int:
    """Return the approximate bytes of a task in a message, rather too many than too few."""
    return 256 + 2 * len(task.url) + memoryview(task.body).nbytes + PARENT_BYTES * len(task.depends_on)


def is_too_large(refusal: Exception) -> bool:
    """Return True if a smaller message would have been accepted."""
    if isinstance(refusal, RequestRejected):
        return refusal.code == "too-large"
    return isinstance(refusal, MessageTooLarge)


def too_large(task: NewTask | None, refusal: Exception) -> MessageTooLarge:
    """Make the error that a task is too large for a message of its own, which names the task."""
    named = "a task" if task is None else f"the task {task.url[:NAMED_CHARS]!r} (taskid {task.taskid})"
    return MessageTooLarge(f"{named} is too large: {refusal}")


# ------------------------------------------------------------------------------------------------ many in flight

Progress = Callable[[Pushed], object] | None
"""Callback with the counts so far, after each message's answer."""


class Count(NamedTuple):
    """Counter of outcomes; also passes them to the caller's callbacks."""

    pushed: Pushed
    progress: Progress
    told: ToldOutcome

    @property
    def wants_states(self) -> bool:
        """True if the caller wants each task's outcome with its state."""
        return self.told is not None

    def add(self, answered: Answered) -> None:
        """Count the outcomes of a batch, and pass them on."""
        self.pushed.add(answered.pushed)
        if self.told is not None:
            for outcome in answered.outcomes:
                self.told(outcome)
        if self.progress is not None:
            self.progress(self.pushed)


class BatchSender:
    """Sender of the batches of one client."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, project: str, batch: PushBatch, *, states: bool = False) -> Answered:
        """Send one batch; one that is too large goes in halves."""
        message = NewTasks(project=project, tasks=list(batch.tasks), states=states)
        try:
            reply = await self._exchange.ask(message)
            return Answered(batch.count(reply), batch.outcomes(reply) if states else [])
        except (MessageTooLarge, RequestRejected) as error:
            if not is_too_large(error):
                raise
            if len(batch.tasks) == 1:
                return batch.rejected(str(too_large(batch.tasks[0], error)))
        answered = Answered(Pushed(), [])
        for half in batch.halves():
            part = await self.send(project, half, states=states)
            answered.pushed.add(part.pushed)
            answered.outcomes.extend(part.outcomes)
        return answered

    def in_flight(
        self, project: str, most: int, pushed: Pushed, progress: Progress, told: ToldOutcome = None
    ) -> InFlight:
        """Return a sender with at most ``most`` batches in flight; ``pushed`` counts the outcomes of their tasks."""
        return InFlight(self, project, most, Count(pushed, progress, told))


class InFlight:
    """Batches in flight, at most ``most``. At the block's end all have been answered; an error cancels the others."""

    def __init__(self, sender: BatchSender, project: str, most: int, count: Count) -> None:
        self._sender = sender
        self._project = project
        self._most = most
        self._count = count
        self._sending: set[asyncio.Task[Answered]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._sending and error is None:
                await self._settle()
        finally:
            for unsettled in self._sending:
                unsettled.cancel()
            # The error of a message that failed before it could be cancelled does not matter any more.
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def send(self, batch: PushBatch) -> None:
        """Send a batch, as soon as there is room for it."""
        if len(self._sending) >= self._most:
            await self._settle()
        sending = self._sender.send(self._project, batch, states=self._count.wants_states)
        self._sending.add(asyncio.ensure_future(sending))

    async def _settle(self) -> None:
        """Wait for the first answer, and count it; raises its error."""
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for each in done if (error := each.exception()) is not None]
        for each in done:
            if each.exception() is None:
                self._count.add(each.result())
        if errors:
            raise errors[0]


class BlockingBatchSender:
    """Sender of batches for a thread: the loop in the background sends, and the thread waits."""

    def __init__(self, background: Background, sender: BatchSender) -> None:
        self._background = background
        self._sender = sender

    def in_flight(
        self, project: str, most: int, pushed: Pushed, progress: Progress, told: ToldOutcome = None
    ) -> BlockingInFlight:
        """Return a sender as ``BatchSender`` does; ``progress`` and ``told`` are called in this thread."""
        return BlockingInFlight(self._background, self._sender, project, most, Count(pushed, progress, told))


class BlockingInFlight:
    """Batches in flight for a thread, which waits for the oldest one first."""

    def __init__(self, background: Background, sender: BatchSender, project: str, most: int, count: Count) -> None:
        self._background = background
        self._sender = sender
        self._project = project
        self._most = most
        self._count = count
        self._sending: deque[ThreadFuture[Answered]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._sending and error is None:
                self._settle()
        finally:
            for unsettled in self._sending:
                unsettled.cancel()

    def send(self, batch: PushBatch) -> None:
        """Send a batch, as soon as there is room for it."""
        if len(self._sending) >= self._most:
            self._settle()
        sending = self._sender.send(self._project, batch, states=self._count.wants_states)
        self._sending.append(self._background.start(sending))

    def _settle(self) -> None:
        self._count.add(self._sending.popleft().result())


# ------------------------------------------------------------------------------------------------ single pushes


class Push(NamedTuple):
    """A task, for a project."""

    project: str
    task: NewTask

    def in_message_of(self, project: str) -> NewTask:
        """Return the task in the form for a message that names ``project``."""
        return self.task if project == self.project else msgspec.structs.replace(self.task, project=self.project)


def single_pushes(exchange: Exchange) -> Batching[Push, PushOutcome]:
    """Make the batching of the single pushes of one client."""

    async def send_alone(push: Push, refusal: Exception) -> PushOutcome:
        raise too_large(push.task, refusal) if is_too_large(refusal) else refusal

    return Batching(exchange, _size_of, _message, outcomes_of, send_alone)


def push_of(project: str, url: str, options: PushOptions) -> Push:
    """Make a push, after checking URL, options and project.

    Raises:
        TypeError, ValueError: the arguments make no task, or the project's name is impossible: the daemon would refuse
            the whole message, with the tasks of others.
    """
    if isinstance(url, NewTask):
        raise TypeError("url: expected str, got NewTask; push_many takes it in a list")
    task = new_task(url, **options)
    check_meant(task.url)
    _check_name(project)
    return Push(project, task)


def outcomes_of(reply: NewTasksReply) -> list[PushOutcome | Exception]:
    """Return the outcome of each task of a message, or the error of a rejected one."""
    if "rejected" not in reply.outcomes:
        return list(reply.outcomes)
    errors = {error.index: RequestRejected(error.code or "rejected", error.reason) for error in reply.errors}
    return [
        errors.get(index, RequestRejected("rejected", outcome)) if outcome == "rejected" else outcome
        for index, outcome in enumerate(reply.outcomes)
    ]


def _message(pushes: list[Push]) -> NewTasks:
    project = pushes[0].project
    return NewTasks(project=project, tasks=[push.in_message_of(project) for push in pushes])


def _size_of(push: Push) -> int:
    return size_of(push.task)


@lru_cache(maxsize=1024)
def _check_name(project: str) -> None:
    try:
        msgspec.convert(project, ProjectName)
    except msgspec.ValidationError:
        raise ValueError(f"project: {project!r} is not a project name: 1 to 64 {NAME_WORDS}") from None
