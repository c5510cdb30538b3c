"""Which requests are the same task: the taskid that goes without saying, and one way to write a url."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from taskqueue.ascii_hosts import with_ascii_host

OWN_PORTS: Final = {"http": ":80", "https": ":443"}
"""The port that goes without saying, by scheme."""

_sorted_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


def default_taskid(url: str, fetch: Mapping[str, Any] | None = None) -> str:
    """The identity of a request: hex MD5 of the url without its fragment, and of method and data if not a plain GET.

    docs/protocol.md says which bytes are hashed, so that other clients come to the same.

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
