"""Pushing many tasks: any iterable in, messages of bounded size out, counts of what became of the tasks.

    url | NewTask | mapping ──► NewTask ──► Packer ──► PushBatch ──► new-task ──► reply ──► Pushed

Memory holds one batch being packed and those in flight, however long the iterable is.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from taskqueue.alike import there_are
from taskqueue.client.connection.patience import checked_count
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_options import OPTIONS, Duration, Moment
from taskqueue.client.tasks.url_rules import check_meant
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.choices import NEW_OUTCOMES, KnownState, NewOutcome
from taskqueue.protocol.fields import MAX_EDGES, NewTask
from taskqueue.protocol.tasks import NewTasksReply

BATCH_BYTES: Final = 1 << 20
"""About the size at which a batch is full, whatever its count."""

PARENT_BYTES: Final = 40
"""About what a task that is waited for takes in a message: most taskids are 32 hex digits."""

NAMED_CHARS: Final = 200
"""Characters of a url by which an error names a task."""

FIRST_ERRORS: Final = 20
"""Reasons of rejected tasks that ``Pushed`` keeps."""

TIMES: Final = ("exetime", "delay")
"""When a task may first run: the one or the other."""

_FIELDS: Final = OPTIONS | {"url", "project"}

Item = str | NewTask | Mapping[str, Any]
"""A url, a task, or a map of the arguments of ``new_task``."""


class Defaults(Struct, frozen=True):
    """Arguments of ``new_task`` for all items that don't say otherwise.

    Raises:
        ValueError: two times are given, or a time that can't be.
    """

    canonical: bool = False
    exetime: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        if self.exetime is not None and self.delay is not None:
            raise ValueError("exetime: give either exetime or delay, not both")
        # A mistake that is about all of them is said once, and nothing is sent.
        new_task("http://", exetime=self.exetime, delay=self.delay)

    @property
    def arguments(self) -> dict[str, Any]:
        """Them, by their names."""
        return {"canonical": self.canonical, "exetime": self.exetime, "delay": self.delay}

    def under(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """The item with what it does not say."""
        return under(self.arguments, item)


PLAIN: Final = Defaults()


def under(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said, over what goes without saying; whoever says a time of his own gets no other one beside it."""
    own_time = any(name in said for name in TIMES)
    return {name: value for name, value in defaults.items() if not (own_time and name in TIMES)} | dict(said)


class Pushed(Struct):
    """What became of the tasks of one ``push_many``.

    Attributes:
        errors: reasons of the first rejected ones, each with its place in the iterable, from 0.
    """

    new: int = 0
    merged: int = 0
    replaced: int = 0
    deferred: int = 0
    restarted: int = 0
    cancelled: int = 0
    ignored: int = 0
    rejected: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many tasks have been answered."""
        return sum(getattr(self, outcome) for outcome in NEW_OUTCOMES)

    def add(self, other: Pushed) -> None:
        """Count what another one counted, too."""
        for outcome in NEW_OUTCOMES:
            setattr(self, outcome, getattr(self, outcome) + getattr(other, outcome))
        self.errors += other.errors[: FIRST_ERRORS - len(self.errors)]

    def reject(self, place: int, reason: str) -> None:
        """Count a rejected task."""
        self.rejected += 1
        if len(self.errors) < FIRST_ERRORS:
            self.errors.append(f"task {place}: {reason}")


class PushOutcome(Struct, frozen=True, gc=False):
    """What became of one task of a ``push_many``.

    Attributes:
        index: its place in the iterable, from 0.
        state: in which the daemon knew it before, such as ``success``; empty: it did not know it, or was not asked.
        reason: why it was rejected; empty: it was not.
    """

    index: int
    outcome: NewOutcome
    state: KnownState = ""
    reason: str = ""


ToldOutcome = Callable[[PushOutcome], object] | None
"""Called with what became of each task, as the answers arrive."""


class Answered(NamedTuple):
    """What became of the tasks of one batch: counted, and one by one if that is wanted."""

    pushed: Pushed
    outcomes: list[PushOutcome]


class PushBatch(Struct, eq=False):
    """Tasks for one message.

    Attributes:
        places: of the tasks in the iterable.
        size: about the bytes of the message.
        edges: tasks that these wait for together.
    """

    tasks: list[NewTask] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    size: int = 0
    edges: int = 0

    def count(self, reply: NewTasksReply) -> Pushed:
        """What became of these tasks."""
        pushed = Pushed()
        reasons = {error.index: error.reason for error in reply.errors}
        for index, outcome in enumerate(reply.outcomes):
            if outcome == "rejected":
                pushed.reject(self.places[index], reasons.get(index, outcome))
            else:
                setattr(pushed, outcome, getattr(pushed, outcome) + 1)
        return pushed

    def outcomes(self, reply: NewTasksReply) -> list[PushOutcome]:
        """What became of each of these tasks."""
        reasons = {error.index: error.reason for error in reply.errors}
        states = reply.states or [""] * len(reply.outcomes)  # A daemon from before they were told says none.
        return [
            PushOutcome(self.places[index], outcome, state, reasons.get(index, ""))
            for index, (outcome, state) in enumerate(zip(reply.outcomes, states, strict=True))
        ]

    def rejected(self, reason: str) -> Answered:
        """The first of these tasks could not even be sent."""
        pushed = Pushed()
        pushed.reject(self.places[0], reason)
        return Answered(pushed, [PushOutcome(self.places[0], "rejected", reason=reason)])

    def halves(self) -> tuple[PushBatch, PushBatch]:
        """For a batch that turned out to be too large."""
        half = len(self.tasks) // 2
        return PushBatch(self.tasks[:half], self.places[:half]), PushBatch(self.tasks[half:], self.places[half:])


class Packer:
    """Makes batches of items.

    Args:
        most: tasks in a batch.
        pushed: counts items that are no tasks.
        told: called with them; None: nothing is.
        defaults: what is said for items that don't say.
    """

    def __init__(self, most: int, pushed: Pushed, defaults: Defaults = PLAIN, told: ToldOutcome = None) -> None:
        self._most = checked_count("batch", most)
        self._pushed = pushed
        self._told = told
        self._defaults = defaults
        self._batch = PushBatch()
        self._place = 0

    def pack(self, items: Iterable[Item]) -> Iterator[PushBatch]:
        """The batches of an iterable, each as soon as it is full.

        Raises:
            TypeError: it is one task.
        """
        check_several("tasks", items)
        for item in items:
            if (full := self.add(item)) is not None:
                yield full
        if (rest := self.rest()) is not None:
            yield rest

    async def pack_async(self, items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[PushBatch]:
        """The batches of any iterable; one that is not async is read between two of them, in the event loop."""
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
                self._told(PushOutcome(place, "rejected", reason=str(error)))
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
        """What has been packed since the last full batch; None if nothing."""
        batch, self._batch = self._batch, PushBatch()
        return batch if batch.tasks else None


def as_new_task(item: Item, defaults: Defaults = PLAIN) -> NewTask:
    """The task that an item stands for.

    Args:
        item: a ``new_task`` value stays as it is; a url, and that of a map, is looked at: see ``url_rules``.
        defaults: for a url, and for a map that doesn't say.

    Raises:
        TypeError, ValueError: it stands for none; the message names the field.
    """
    if isinstance(item, str):
        check_meant(item)
        return new_task(item, **defaults.arguments)
    if isinstance(item, NewTask):
        return item
    if not isinstance(item, Mapping):
        raise TypeError(f"expected a url, a task or a map, got {type(item).__name__}")
    return _from_map(defaults.under(item))


def _from_map(item: dict[str, Any]) -> NewTask:
    unknown = [key for key in item if key not in _FIELDS]
    if unknown:
        raise ValueError(
            f"{unknown[0]}: unknown field; a map is a new task; {there_are(unknown[0], sorted(_FIELDS))}. "
            "What a task is to leave behind, such as pyspider's returned dicts, is a Result(...)"
        )
    if "url" not in item:
        raise ValueError(
            "missing required field url; a map is a new task, what a task is to leave behind is a Result(...)"
        )
    check_meant(item["url"])
    return new_task(**item)


def check_several(field: str, items: object, one: str = "url") -> None:
    """See that several tasks were given, not one where several are meant: a text would be one task a letter.

    Args:
        one: what a text is here.

    Raises:
        TypeError: it is one.
    """
    if isinstance(items, str | bytes | NewTask | Mapping):
        kind = f"one {one}" if isinstance(items, str) else f"one {type(items).__name__}"
        raise TypeError(f"{field}: expected several tasks, got {kind}; put it into a list")


def size_of(task: NewTask) -> int:
    """About its bytes in a message, rather more than fewer."""
    return 256 + 2 * len(task.url) + memoryview(task.body).nbytes + PARENT_BYTES * len(task.depends_on)


def is_too_large(refusal: Exception) -> bool:
    """Whether less of a message would have been taken."""
    if isinstance(refusal, RequestRejected):
        return refusal.code == "too-large"
    return isinstance(refusal, MessageTooLarge)


def too_large(task: NewTask | None, refusal: Exception) -> MessageTooLarge:
    """The error that a task is too large for a message of its own, which names the task."""
    named = "a task" if task is None else f"the task {task.url[:NAMED_CHARS]!r} (taskid {task.taskid})"
    return MessageTooLarge(f"{named} is too large: {refusal}")
