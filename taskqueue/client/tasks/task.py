"""Tasks as users see them: made by ``new_task``, handed out as ``Task``.

The body that this client sends is a map with those of ``fetch``, ``process`` and ``save`` that were given, or whatever
``body`` is. The daemon never looks into it. What a project says of fetching in its settings comes beside its tasks;
``Task.fetch`` has both in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import md5
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from taskqueue.client.tasks.fetch_defaults import laid_under
from taskqueue.protocol.fields import MAX_TASKID_BYTES, NIL, Assignment, NewTask, Schedule, Token
from taskqueue.protocol.reasons import reason_of
from taskqueue.units import EXAMPLES, seconds_of

OWN_PORTS: Final = {"http": ":80", "https": ":443"}
"""The port that goes without saying, by scheme."""

ENCODING: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding can raise."""
TOO_LARGE: Final = "expected an integer of at most 64 bits"
CULPRIT_DEPTH: Final = 10

_encoder: Final = msgspec.msgpack.Encoder()
_sorted_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_decoder: Final[msgspec.msgpack.Decoder[NewTask]] = msgspec.msgpack.Decoder(NewTask)
Moment = float | datetime
"""Unix seconds, or a date and time that knows its zone."""

Duration = float | str
"""Seconds, or a text such as "90s", "5m" or "30d"."""

_UNREAD: Final = object()
"""Stands for a body that has not been decoded yet; None is a body."""

TRAVELLING_VERSION: Final = 1
"""Of what ``Task.to_bytes`` makes. A field that is added needs no other one: who doesn't know it passes it over."""


class _Versioned(msgspec.Struct, array_like=True):
    version: int


class _Travelling(_Versioned, array_like=True):
    """``defaults``: what its project's settings say of ``fetch``; nil: nothing."""

    handed: Assignment
    defaults: Raw


class Task:
    """A task that this client was given to run.

    Args:
        handed: as it came.
        defaults: what its project's settings say of ``fetch``, encoded; None: nothing. They are those of the moment
            at which the task was handed out.

    Attributes:
        project, taskid: its identity.
        url: as its producer gave it.
        token: names this lease of it.
        timeout: seconds from its hand-out until the lease runs out.
        retried: how often it has failed before.
        lastcrawltime: unix seconds of its last attempt's end; 0 is never.
        schedule: its priority now, and of what its producer said the exetime, retries, age and itag; its other fields
            say nothing.
    """

    __slots__ = (
        "_body", "_defaults", "_fetch", "_raw", "lastcrawltime", "project", "retried", "schedule", "taskid", "timeout",
        "token", "url",
    )  # fmt: skip

    def __init__(self, handed: Assignment, defaults: Raw | None = None) -> None:
        self.project = handed.project
        self.taskid = handed.taskid
        self.url = handed.url
        self.token: Token = handed.token
        self.timeout = handed.timeout
        self.retried = handed.retried
        self.lastcrawltime = handed.lastcrawltime
        self.schedule = handed.schedule
        # Out of the frame, which may hold a thousand other tasks.
        self._raw = handed.body.copy()
        self._body: Any = _UNREAD
        self._defaults = defaults
        self._fetch: Any = _UNREAD

    def to_bytes(self) -> bytes:
        """The task for another process, which makes it one again by ``from_bytes`` and reports it with its own client.

        Some 150 bytes more than its url, its body and what its project's settings say of ``fetch``; MessagePack,
        without any code in it. docs/workers.md says what it holds.
        """
        handed = Assignment(
            self.project, self.taskid, self.url, self.token, self.timeout, self._raw, self.retried, self.lastcrawltime,
            self.schedule,
        )  # fmt: skip
        return _encoder.encode((TRAVELLING_VERSION, handed, self._defaults))

    @classmethod
    def from_bytes(cls, travelled: bytes | bytearray | memoryview) -> Task:
        """The task that ``to_bytes`` has made bytes of, in whatever process.

        Raises:
            ValueError: they are no task, or were made by a version that this one can't read.
        """
        try:
            version = msgspec.msgpack.decode(travelled, type=_Versioned).version
            if version != TRAVELLING_VERSION:
                raise ValueError(f"they are of version {version}, and this one reads version {TRAVELLING_VERSION}")
            it = msgspec.msgpack.decode(travelled, type=_Travelling)
        except ValueError as error:
            raise ValueError(f"Task.from_bytes: these bytes are no task: {error}") from None
        return cls(it.handed, None if it.defaults == NIL else it.defaults.copy())

    @property
    def body(self) -> Any:
        """What the producer sent with the task, decoded when it is first looked at; None if nothing.

        Raises:
            ValueError: it holds text that is not utf-8.
        """
        if self._body is _UNREAD:
            self._body = msgspec.msgpack.decode(self._raw)
        return self._body

    @property
    def fetch(self) -> Any:
        """How to fetch it: what its producer said, laid over what its project's settings say; an empty map if neither.

        What the producer said wins, nil included; where both have a map, such as ``headers``, those are joined key by
        key. If the producer's ``fetch`` is no map, it stands alone.
        """
        if self._fetch is _UNREAD:
            own = self._part("fetch")
            self._fetch = own if self._defaults is None else laid_under(own, self._defaults)
        return self._fetch

    @property
    def process(self) -> Any:
        """How to process it; an empty map if its producer did not say."""
        return self._part("process")

    @property
    def save(self) -> Any:
        """What its producer wants to see again; an empty map if nothing."""
        return self._part("save")

    def _part(self, name: str) -> Any:
        part = self.body.get(name) if isinstance(self.body, dict) else None
        return {} if part is None else part

    def __repr__(self) -> str:
        return f"<Task {self.project}/{self.taskid} {self.url}>"


def new_task(
    url: str,
    *,
    taskid: str | None = None,
    fetch: Mapping[str, Any] | None = None,
    process: Mapping[str, Any] | None = None,
    save: Any = None,
    body: Any = None,
    priority: int = 0,
    exetime: Moment | None = None,
    delay: Duration | None = None,
    retries: int | None = None,
    age: Duration | None = None,
    itag: str | None = None,
    auto_recrawl: bool = False,
    force_update: bool = False,
    cancel: bool = False,
    timeout: Duration | None = None,
    expires_at: Moment | None = None,
    canonical: bool = False,
    project: str | None = None,
) -> NewTask:
    """Describe a task, for ``push_many``, for ``done(new=...)`` and for handlers to return.

    Args:
        url: what to crawl; at most 8192 characters.
        taskid: its identity in its project, 1 to 128 bytes; None: ``default_taskid`` of the url.
        fetch, process, save: sent along as they are, as the body's map; any MessagePack-able values.
        body: sent along instead of that map.
        priority: larger first, 32 bits.
        exetime: unix seconds, or an aware datetime, before which it must not run; None is any time.
        delay: seconds, or a text such as "5m", from its arrival at the daemon before which it must not run; wins over
            exetime.
        retries: further attempts after a failure; None: the project's setting.
        age: seconds, or such a text, for which a success stays good; None is for ever.
        itag: a value that differs from the stored one restarts a task that is over.
        auto_recrawl: with age: run it again each age.
        force_update: this schedule and body win over the stored ones.
        cancel: with force_update: end the task.
        timeout: seconds, or such a text, that processing may take; None: the project's processing_timeout.
        expires_at: unix seconds, or an aware datetime, after which it is not worth running any more: instead of being
            handed out it then ends as cancelled.
        canonical: send, and make the taskid of, ``canonical_url`` of the url.
        project: another project than that of the call it is passed to.

    Raises:
        ValueError: an argument is out of its range, or body and one of its parts are both given.
        TypeError: an argument is of a type that it can't be, such as a body that can't be encoded as MessagePack.

    Each error names the argument, and where in it the trouble is.
    """
    parts = {"fetch": fetch, "process": process, "save": save, "body": body}
    body = body_of(fetch, process, save, body)
    raw = NIL if body is None else _packed(body, parts)
    if canonical:
        url = canonical_url(url)
    if taskid is None:
        taskid = default_taskid(url, fetch)
    at, ends = unix_seconds("exetime", exetime) or 0.0, unix_seconds("expires_at", expires_at)
    # Most tasks say none of these; a call for each would take as long as half of the schedule.
    wait = None if delay is None else seconds("delay", delay)
    good = None if age is None else seconds("age", age)
    long = None if timeout is None else seconds("timeout", timeout)
    schedule = Schedule(priority, at, wait, retries, good, itag, auto_recrawl, force_update, cancel, long, ends)
    return _checked(NewTask(taskid, url, schedule, raw, project))


def unix_seconds(field: str, at: Moment | None) -> float | None:
    """A moment as the daemon is told it.

    Raises:
        ValueError: it is a datetime without a zone: nobody else knows the clock that it was read from.
    """
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"{field}: {at.isoformat()} has no time zone; give it one, such as tzinfo=UTC")
    return at.timestamp()


def seconds(field: str, duration: Duration) -> float:
    """A duration as the daemon is told it.

    Raises:
        ValueError: it is a text that is none.
    """
    if not isinstance(duration, str):
        return duration
    if (found := seconds_of(duration)) is None:
        raise ValueError(f"schedule.{field}: expected seconds, or a duration such as {EXAMPLES}, not {duration!r}")
    return found


def default_taskid(url: str, fetch: Mapping[str, Any] | None = None) -> str:
    """The identity of a request: hex MD5 of the url without its fragment, and of method and data if not a plain GET.

    docs/protocol.md says which bytes are hashed, so that other clients come to the same.

    Raises:
        TypeError: url is no text, or fetch no map.
    """
    hashed = _text("url", url).partition("#")[0].encode()
    if fetch is not None and not isinstance(fetch, Mapping):
        raise TypeError(f"fetch: expected a map, got {type(fetch).__name__}")
    method = str((fetch or {}).get("method") or "GET").upper()
    data = (fetch or {}).get("data")
    if method != "GET" or data:
        hashed += b"\n" + method.encode() + b"\n" + _bytes_of(data)
    return md5(hashed, usedforsecurity=False).hexdigest()


def canonical_url(url: str) -> str:
    """One way to write urls that mean the same page, so that they are one task: what ``w3lib.url`` makes of it, and no
    port that goes without saying.

    Scheme and host are in lower case, the host in ASCII (IDNA); dot segments of the path are resolved; query
    arguments are sorted by name, then by value, empty ones kept; what has to be percent-encoded is, in capitals, and a
    space in the query is ``+``; the fragment is gone, and so is a port that is empty or the scheme's own. Other ports,
    a closing slash and the case of the path stay as they are. The first use costs some 50 ms of importing, each one
    about 40 µs.

    Raises:
        ValueError: it is no url.
    """
    from w3lib.url import canonicalize_url  # Not above: 50 ms, which most programs need not spend.

    try:
        return _without_own_port(canonicalize_url(_text("url", url)))
    except ValueError as error:
        raise ValueError(f"url: {url!r} has no canonical form: {error}") from None


def _without_own_port(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(OWN_PORTS.get(parts.scheme, ""))
    return url if host == parts.netloc else parts._replace(netloc=host).geturl()


def _bytes_of(data: Any) -> bytes:
    if data is None:
        return b""
    if isinstance(data, str):
        return data.encode()
    return data if isinstance(data, bytes) else _sorted_encoder.encode(data)


def body_of(fetch: Any, process: Any, save: Any, body: Any) -> Any:
    """The body, or the map of the parts that were given; None if nothing was.

    Raises:
        ValueError: both were given.
    """
    parts = {"fetch": fetch, "process": process, "save": save}
    given = {name: part for name, part in parts.items() if part is not None}
    if body is not None and given:
        raise ValueError("body: give either body or fetch, process and save, not both")
    return given or body


def _checked(task: NewTask) -> NewTask:
    """The task, if the daemon would take it: a mistake shows where it was made, not in a batch of thousands."""
    _text("url", task.url)
    if len(_text("taskid", task.taskid).encode()) > MAX_TASKID_BYTES:
        raise ValueError(f"taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8")
    if task.schedule.itag is not None:
        _text("schedule.itag", task.schedule.itag)
    try:
        return _decoder.decode(_encoder.encode(task))
    except OverflowError:
        name, _ = _culprit("schedule", msgspec.structs.asdict(task.schedule))
        raise ValueError(f"{name}: {TOO_LARGE}") from None
    except ValueError as error:
        raise ValueError(reason_of(error)) from None


def _packed(body: Any, parts: Mapping[str, Any]) -> Raw:
    """The body as it is sent; ``parts`` are the arguments that it was made of.

    Raises:
        TypeError, ValueError: it can't be said in MessagePack; names the innermost argument, key or index.
    """
    try:
        return Raw(_encoder.encode(body))
    except ENCODING as error:
        name, value = _culprit("", parts)
        if isinstance(error, TypeError):
            raise TypeError(f"{name}: {type(value).__name__} can't be encoded as MessagePack") from None
        raise ValueError(f"{name}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    match error:
        case OverflowError():
            return TOO_LARGE
        case RecursionError():
            return "nested too deep"
        case UnicodeEncodeError():
            return f"{error.object!r} can't be written as utf-8"
    return str(error)


def _culprit(name: str, value: Any, depth: int = 0) -> tuple[str, Any]:
    """What in a value can't be encoded: its path, and itself; not deeper than anybody would read."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        inner = [(f"{name}.{key}" if name else str(key), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(f"{name}[{index}]", part) for index, part in enumerate(value)]
    for path, part in inner if depth < CULPRIT_DEPTH else ():
        try:
            _encoder.encode(part)
        except ENCODING:
            return _culprit(path, part, depth + 1)
    return name, value


def _text(field: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected str, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field}: {value!r} can't be written as utf-8") from None
    return value
