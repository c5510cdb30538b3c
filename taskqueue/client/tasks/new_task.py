"""New tasks, as producers describe them: url, taskid, body, schedule. What can't be is refused where it was written.

The body that is sent is a map with those of ``fetch``, ``process`` and ``save`` that were given, or whatever ``body``
is. The daemon never looks into it. Which requests are the same task, their taskids say: ``default_taskid`` if none is
given. ``canonical_url`` writes urls that mean the same page in one way.

To the daemon a url is text, and what it means is between a project's producers and its fetchers; so ``new_task`` takes
any. But where a url alone stands for a task (``push``, ``push_many``, what a handler returns, what ``done`` takes), or
a map of ``new_task``'s arguments, it is most likely a link that somebody forgot to look at. It is refused if

1. there is white space around it, such as the end of a line, or a control character in it;
2. it is relative: it begins with ``/``, ``?``, ``#`` or ``.``;
3. it is http or https without a host;
4. its scheme leads to no page: ``NO_PAGES``. ``file`` is among these, because whoever writes a page could have local
   files read with it.

Everything else is taken, with a scheme or without: ``data:,on_start``, ``s3://bucket/key``, ``user-42``. The command
line is stricter, because what stands there was typed or comes from a list: see ``check_typed``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final, Unpack
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from taskqueue.ascii_hosts import with_ascii_host
from taskqueue.client.tasks.push_options import (
    OPTIONS,
    PushOptions,
    check_options,
    explains_options,
    parents,
    recrawl_bounds,
    seconds,
    unix_seconds,
)
from taskqueue.client.web_urls import OWN_PORTS
from taskqueue.protocol.checks import is_too_long, long_reason
from taskqueue.protocol.codec import reason_of
from taskqueue.protocol.fields import MAX_TASKID_BYTES, NIL, UNSAID
from taskqueue.protocol.values import PLAIN, NewTask, Schedule

# ------------------------------------------------------------------------------------------------ urls

NO_PAGES: Final = frozenset(
    ("about", "blob", "callto", "chrome", "facetime", "file", "geo", "intent", "javascript", "magnet", "mailto", "maps",
     "market", "skype", "sms", "tel", "vbscript", "view-source", "viber", "webcal", "whatsapp", "xmpp")
)  # fmt: skip
"""Schemes of links that stand in pages and are none to pages."""

WEB: Final = ("http", "https")

ORDINARY: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
"""How nearly all urls begin."""

SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
RELATIVE: Final = ("/", "?", "#", ".")


def check_meant(url: object) -> None:
    """See that a url that stands for a task can be one that is fetched; what is no text is not looked at.

    Raises:
        ValueError: it can't, by the rules above.
    """
    if not isinstance(url, str) or (ORDINARY.match(url) and url.isprintable() and url[-1] != " "):
        return
    _check_edges(url)
    if url.startswith(RELATIVE):
        raise ValueError(f"url: {shown(url)} is relative; taskqueue.links and urllib.parse.urljoin make links absolute")
    scheme = scheme_of(url)
    if scheme in WEB and not ORDINARY.match(url):
        raise ValueError(f"url: {shown(url)} has no host")
    if scheme in NO_PAGES:
        remedy = "taskqueue.links leaves such links out, and new_task takes them if they are meant"
        raise ValueError(f"url: {shown(url)} leads to no page; {remedy}")


def check_typed(url: object, *, any_scheme: bool) -> None:
    """See that what stands in a line, or on the command line, is a url: http or https with a host, or ``data:``.

    What is no text, or empty, is left to ``new_task``.

    Args:
        any_scheme: take whatever has a scheme.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(url, str) or not url:
        return
    _check_edges(url)
    if ORDINARY.match(url):
        return
    scheme = scheme_of(url)
    if not scheme:
        raise ValueError(f"{shown(url)} is no url, which begins with a scheme such as https:")
    if any_scheme or scheme == "data":
        return
    if scheme in WEB:
        raise ValueError(f"{shown(url)} has no host")
    raise ValueError(f"{shown(url)} is no url of http, https or data; with --any-scheme it is taken")


def _check_edges(url: str) -> None:
    if url != url.strip() or CONTROL.search(url):
        raise ValueError(f"url: {shown(url)} has white space around it or a control character in it")


def scheme_of(url: str) -> str:
    """What stands before the first colon, in lower case, if that can be a scheme; else ""."""
    found = SCHEME.match(url)
    return found[1].lower() if found else ""


def shown(url: str) -> str:
    """The url, quoted, and cut if it is long."""
    return repr(url if len(url) <= 100 else f"{url[:99]}…")


# ------------------------------------------------------------------------------------------------ taskids

_sorted_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


def default_taskid(url: str, fetch: Mapping[str, Any] | None = None) -> str:
    """The identity of a request: hex MD5 of the url without its fragment, and of method and data if not a plain GET.

    docs/reference/protocol.md says which bytes are hashed, so that other clients come to the same.

    Raises:
        TypeError: url is no text, or fetch no map.
    """
    hashed = as_text("url", url).partition("#")[0].encode()
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

    Scheme and host are in lower case, the host in ASCII as browsers write it (UTS 46); dot segments of the path are
    resolved; query arguments are sorted by name, then by value, empty ones kept; what has to be percent-encoded is, in
    capitals, and a space in the query is ``+``; the fragment is gone, and so is a port that is empty or the scheme's
    own. Other ports, a closing slash and the case of the path stay as they are. The first use costs some 50 ms of
    importing, each one about 40 µs.

    Raises:
        ValueError: it is no url.
    """
    from w3lib.url import canonicalize_url  # Not above: 50 ms, which most programs need not spend.

    try:
        return _without_own_port(canonicalize_url(with_ascii_host(as_text("url", url))))
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


def as_text(field: str, value: str) -> str:
    """The value, if it is a text that can be sent.

    Raises:
        TypeError, ValueError: it is none; the message names the field.
    """
    if not isinstance(value, str):
        raise TypeError(f"{field}: expected str, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field}: {value!r} can't be written as utf-8") from None
    return value


# ------------------------------------------------------------------------------------------------ tasks

ENCODING: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding can raise."""
TOO_LARGE: Final = "expected an integer of at most 64 bits"
CULPRIT_DEPTH: Final = 10

WAITS: Final = frozenset({"depends_on", "on_parent_failure"})
"""Options that say what a task waits for."""

BODIES: Final = frozenset({"fetch", "process", "save", "body"})
"""Options that are sent along: parts of a body, or the body."""

SCHEDULES: Final = OPTIONS - WAITS - BODIES - {"taskid", "canonical"}
"""Options that say when and how often it runs."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[NewTask]] = msgspec.msgpack.Decoder(NewTask)


@explains_options
def new_task(url: str, *, project: str | None = None, **options: Unpack[PushOptions]) -> NewTask:
    """Describe a task, for ``push_many``, for ``done(new=...)`` and for handlers to return.

    Args:
        url: what to crawl; at most 8192 characters.
        project: another project than that of the call it is passed to.
        options: see below.

    Raises:
        ValueError: an argument is out of its range, or body and one of its parts are both given.
        TypeError: an argument is unknown, or of a type that it can't be, such as a body that can't be encoded as
            MessagePack.

    Each error names the argument, and where in it the trouble is.
    """
    if not options:
        return _checked(NewTask(default_taskid(url), url, PLAIN, NIL, project))
    if not OPTIONS.issuperset(options):
        check_options(options)
    fetch, taskid = options.get("fetch"), options.get("taskid")
    raw = NIL if BODIES.isdisjoint(options) else _packed_body(options)
    if options.get("canonical"):
        url = canonical_url(url)
    if taskid is None:
        taskid = default_taskid(url, fetch)
    task = NewTask(taskid, url, PLAIN if SCHEDULES.isdisjoint(options) else _schedule(options), raw, project)
    return _checked(task if WAITS.isdisjoint(options) else _waiting(task, options))


def _waiting(task: NewTask, said: PushOptions) -> NewTask:
    return msgspec.structs.replace(
        task, depends_on=parents(said.get("depends_on")), on_parent_failure=said.get("on_parent_failure", "fail")
    )


def _packed_body(said: PushOptions) -> Raw:
    fetch, process, save, body = said.get("fetch"), said.get("process"), said.get("save"), said.get("body")
    whole = body_of(fetch, process, save, body)
    return NIL if whole is None else packed(whole, {"fetch": fetch, "process": process, "save": save, "body": body})


def _schedule(said: PushOptions) -> Schedule:
    # Most tasks say none of these; a call for each would take as long as half of the schedule.
    exetime, expires_at = said.get("exetime"), said.get("expires_at")
    delay, age, timeout = said.get("delay"), said.get("age"), said.get("timeout")
    recrawl = said.get("recrawl")
    return Schedule(
        said.get("priority", 0),
        UNSAID if exetime is None else unix_seconds("exetime", exetime),
        None if delay is None else seconds("schedule.delay", delay),
        said.get("retries"),
        None if age is None else seconds("schedule.age", age),
        said.get("itag"),
        said.get("auto_recrawl", False),
        said.get("force_update", False),
        said.get("cancel", False),
        None if timeout is None else seconds("schedule.timeout", timeout),
        None if expires_at is None else unix_seconds("expires_at", expires_at),
        said.get("slot"),
        None if recrawl is None else recrawl_bounds(recrawl),
    )


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
    as_text("url", task.url)
    if len(as_text("taskid", task.taskid).encode()) > MAX_TASKID_BYTES:
        raise ValueError(f"taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8")
    if task.schedule.itag is not None:
        as_text("schedule.itag", task.schedule.itag)
    if task.schedule.slot is not None:
        as_text("schedule.slot", task.schedule.slot)
    try:
        checked = _decoder.decode(_encoder.encode(task))
    except OverflowError:
        name, _ = _culprit("schedule", msgspec.structs.asdict(task.schedule))
        raise ValueError(f"{name}: {TOO_LARGE}") from None
    except ValueError as error:
        raise ValueError(reason_of(error)) from None
    for place, parent in enumerate(checked.depends_on):
        if is_too_long(parent if isinstance(parent, str) else parent.taskid):
            raise ValueError(long_reason(f"depends_on[{place}]"))
    return checked


def packed(value: Any, parts: Mapping[str, Any]) -> Raw:
    """A value as it is sent; ``parts`` are the arguments that it was made of.

    Raises:
        TypeError, ValueError: it can't be said in MessagePack; names the innermost argument, key or index.
    """
    try:
        return Raw(_encoder.encode(value))
    except ENCODING as error:
        name, culprit = _culprit("", parts)
        if isinstance(error, TypeError):
            raise TypeError(f"{name}: {type(culprit).__name__} can't be encoded as MessagePack") from None
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
