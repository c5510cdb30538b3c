"""New tasks, as producers describe them: URL, taskid, body, schedule. Invalid ones are refused where they are made.

The body is a map of the given parts ``fetch``, ``process`` and ``save``, or the value of ``body``; the daemon never
decodes it. Requests with the same taskid are the same task; the default is ``default_taskid``. ``canonical_url`` writes
URLs of the same page in one way.

To the daemon a URL is text whose meaning is up to a project's producers and fetchers; so ``new_task`` accepts any. But
a URL alone (in ``push``, ``push_many``, returned by a handler, in ``done``), or in a map of ``new_task``'s arguments,
is most likely a link that was not checked. It is refused if

1. there is white space around it, such as the end of a line, or a control character in it;
2. it is relative: it begins with ``/``, ``?``, ``#`` or ``.``;
3. it is http or https without a host;
4. its scheme leads to no page: ``NO_PAGES``. ``file`` is one of these, because the author of a page could have local
   files read with it.

Everything else is accepted, with a scheme or without: ``data:,on_start``, ``s3://bucket/key``, ``user-42``. The command
line is stricter, because its URLs are typed or come from a list: see ``check_typed``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final, Unpack
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

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
from taskqueue.hosts.ascii_hosts import with_ascii_host
from taskqueue.protocol.checks import is_too_long, lone_option, long_reason
from taskqueue.protocol.fields import MAX_TASKID_BYTES, NIL, UNSAID
from taskqueue.protocol.reasons import reason_of
from taskqueue.protocol.values import PLAIN, NewTask, Schedule

# ------------------------------------------------------------------------------------------------ URLs

NO_PAGES: Final = frozenset(
    ("about", "blob", "callto", "chrome", "facetime", "file", "geo", "intent", "javascript", "magnet", "mailto", "maps",
     "market", "skype", "sms", "tel", "vbscript", "view-source", "viber", "webcal", "whatsapp", "xmpp")
)  # fmt: skip
"""Schemes of links in pages that lead to no page."""

WEB: Final = ("http", "https")

ORDINARY: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
"""Beginning of nearly all URLs."""

SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
RELATIVE: Final = ("/", "?", "#", ".")


def check_meant(url: object) -> None:
    """Check that a URL that stands for a task can be fetched; other types than text are ignored.

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
        remedy = "taskqueue.links leaves such links out, and new_task accepts them if they are meant"
        raise ValueError(f"url: {shown(url)} leads to no page; {remedy}")


def check_typed(url: object, *, any_scheme: bool) -> None:
    """Check that a typed text, or a line of a file, is a URL: http or https with a host, or ``data:``.

    Other types and empty texts are left to ``new_task``.

    Args:
        any_scheme: accept every scheme.

    Raises:
        ValueError: the text is not such a URL.
    """
    if not isinstance(url, str) or not url:
        return
    _check_edges(url)
    if ORDINARY.match(url):
        return
    scheme = scheme_of(url)
    if not scheme:
        raise ValueError(f"{shown(url)} is not a URL, which begins with a scheme such as https:")
    if any_scheme or scheme == "data":
        return
    if scheme in WEB:
        raise ValueError(f"{shown(url)} has no host")
    raise ValueError(f"{shown(url)} is not a URL of http, https or data; --any-scheme accepts it")


def _check_edges(url: str) -> None:
    if url != url.strip() or CONTROL.search(url):
        raise ValueError(f"url: {shown(url)} has white space around it or a control character in it")


def scheme_of(url: str) -> str:
    """Return the scheme in lower case, that is, the text before the first colon; "" if there is none."""
    found = SCHEME.match(url)
    return found[1].lower() if found else ""


def shown(url: str) -> str:
    """Return the URL quoted, and cut if it is long."""
    return repr(url if len(url) <= 100 else f"{url[:99]}…")


# ------------------------------------------------------------------------------------------------ taskids

_sorted_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


def default_taskid(url: str, fetch: Mapping[str, Any] | None = None) -> str:
    """Return the identity of a request: hex MD5 of the URL without its fragment.

    Method and data are hashed, too, unless it is a plain GET.

    docs/reference/protocol.md says which bytes are hashed, so that other clients make the same taskids.

    Raises:
        TypeError: ``url`` is not a text, or ``fetch`` not a map.
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
    """Return one form for all URLs of the same page, so that they are one task.

    The form is that of ``w3lib.url``, without default ports.

    Scheme and host are in lower case, the host in ASCII as browsers write it (UTS 46); dot segments of the path are
    resolved; query arguments are sorted by name, then by value, empty ones kept; characters are percent-encoded where
    necessary, in capitals, and a space in the query is ``+``; the fragment is removed, and so is a port that is empty
    or the scheme's own. Other ports, a closing slash and the case of the path stay. The first use costs some 50 ms of
    importing, each one about 40 µs.

    Raises:
        ValueError: ``url`` is not a URL.
    """
    from w3lib.url import canonicalize_url  # Not above: it takes 50 ms, which most programs don't need to spend.

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
    """Return the value, if it is a text that can be sent.

    Raises:
        TypeError, ValueError: it is not; the message names the field.
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
"""Errors that encoding can raise."""
TOO_LARGE: Final = "expected an integer of at most 64 bits"
CULPRIT_DEPTH: Final = 10

WAITS: Final = frozenset({"depends_on", "on_parent_failure"})
"""Options for the tasks that a task waits for."""

BODIES: Final = frozenset({"fetch", "process", "save", "body"})
"""Options that are sent along: parts of a body, or the body."""

SCHEDULES: Final = OPTIONS - WAITS - BODIES - {"taskid", "canonical"}
"""Options that say when and how often a task runs."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[NewTask]] = msgspec.msgpack.Decoder(NewTask)


@explains_options
def new_task(url: str, *, project: str | None = None, **options: Unpack[PushOptions]) -> NewTask:
    """Describe a task, for ``push_many``, for ``done(new=...)`` and for handlers to return.

    Args:
        url: URL to crawl; at most 8192 characters.
        project: project of the task, if not that of the call it is passed to.
        options: see below.

    Raises:
        ValueError: an argument is out of its range or lacks one that it needs, or body and one of its parts are both
            given.
        TypeError: an argument is unknown, or has the wrong type, such as a body that can't be encoded as MessagePack.

    Each error names the argument, and the place in it.
    """
    if not options:
        return _checked(NewTask(default_taskid(url), url, PLAIN, NIL, project))
    return without_lone_option(describe(url, project=project, **options))


def without_lone_option(task: NewTask) -> NewTask:
    """Return the task, if each of its options comes with those that it needs.

    Raises:
        ValueError: one does not; the message names both.
    """
    if flaw := lone_option(task):
        raise ValueError(flaw)
    return task


def describe(url: str, *, project: str | None = None, **options: Unpack[PushOptions]) -> NewTask:
    """Describe a task whose options may still lack others that they need.

    Raises:
        ValueError, TypeError: as ``new_task`` does for all other reasons.
    """
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
    # Most tasks have none of these; a call for each would take as long as half of the schedule.
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
        said.get("repeat"),
        said.get("job"),
    )


def body_of(fetch: Any, process: Any, save: Any, body: Any) -> Any:
    """Return the body, or the map of the given parts; None if nothing was given.

    Raises:
        ValueError: both were given.
    """
    parts = {"fetch": fetch, "process": process, "save": save}
    given = {name: part for name, part in parts.items() if part is not None}
    if body is not None and given:
        raise ValueError("body: give either body or fetch, process and save, not both")
    return given or body


def _checked(task: NewTask) -> NewTask:
    """Return the task if the daemon would accept it: an error shows where it was made, not in a batch of thousands."""
    as_text("url", task.url)
    if len(as_text("taskid", task.taskid).encode()) > MAX_TASKID_BYTES:
        raise ValueError(f"taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8")
    if task.schedule.itag is not None:
        as_text("schedule.itag", task.schedule.itag)
    if task.schedule.slot is not None:
        as_text("schedule.slot", task.schedule.slot)
    if task.schedule.job is not None:
        as_text("schedule.job", task.schedule.job)
    try:
        checked = _decoder.decode(_encoder.encode(task))
    except OverflowError:
        name, _ = _culprit("schedule", msgspec.structs.asdict(task.schedule))
        raise ValueError(f"{name}: {TOO_LARGE}") from None
    except ValueError as error:
        raise ValueError(reason_of(error, kind=NewTask)) from None
    for place, parent in enumerate(checked.depends_on):
        if is_too_long(parent if isinstance(parent, str) else parent.taskid):
            raise ValueError(long_reason(f"depends_on[{place}]"))
    return checked


def packed(value: Any, parts: Mapping[str, Any]) -> Raw:
    """Encode a value; ``parts`` are the arguments that it was made of.

    Raises:
        TypeError, ValueError: it has no form in MessagePack; the message names the innermost argument, key or index.
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
    """Return the path and value of what can't be encoded, at most CULPRIT_DEPTH levels deep."""
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
