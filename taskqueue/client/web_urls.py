"""URLs in pages: made absolute and clean, and compared by host or domain.

    as it is written ──► joined with its base ──► escaped, host in ASCII ──► http or https with a host ──► a URL
                                                                        └──► anything else ──► none

Pages come from strangers: no text may raise an error here, or become a URL that opens a local file.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal, get_args
from urllib.parse import SplitResult, urljoin, urlsplit

from taskqueue.hosts.ascii_hosts import with_ascii_host
from taskqueue.hosts.registered_domains import registered_domain
from taskqueue.protocol.fields import MAX_URL_CHARS

OWN_PORTS: Final = {"http": ":80", "https": ":443"}
"""Default port of each scheme."""

Same = Literal["host", "domain", "any"]
SAMES: Final = get_args(Same)

AROUND: Final = "".join(map(chr, range(33)))
"""Control characters and the space, which browsers drop around a link."""

BEFORE_QUERY: Final = re.compile(r"[^?#]*")
"""Part of a URL in which browsers read a backslash as a slash."""

HOST: Final = re.compile(r"[a-z0-9_~-]+(\.[a-z0-9_~-]+)*\.?|\[[0-9a-f:.]+\]", re.ASCII)
"""A name or an address, in lower case. Stricter than RFC 3986, and so are resolvers."""

DOT: Final = re.compile("%2e", re.IGNORECASE)
DOTTED: Final = re.compile(r"(\.|%2e){1,2}", re.IGNORECASE)
"""A dot segment."""
DOTS: Final = re.compile(r"/(\.|%2e)", re.IGNORECASE)
"""Beginning of a dot segment in a path."""

AS_REFERENCE: Final = "taskqueue-reference"
"""Error handler of codecs: letters that can't be encoded become ``&#N;``, percent-encoded."""


class WebUrl:
    """An absolute URL of http or https.

    Attributes:
        text: with scheme and host in lower case, forbidden characters percent-encoded, and a path of at least "/";
            without fragment, user, password and default port.
        host: host without the port; an IPv6 address is in brackets.
        place: host and port, without a default port; http and https share it.
    """

    __slots__ = ("host", "place", "text")

    def __init__(self, split: SplitResult) -> None:
        scheme = split.scheme.lower()
        self.host = _host(split)
        port = f":{split.port}" if split.port is not None else ""
        self.place = self.host + ("" if port == OWN_PORTS[scheme] else port)
        self.text = SplitResult(scheme, self.place, resolved(split.path), split.query, "").geturl()

    @property
    def origin(self) -> str:
        """Scheme, host and port, the beginning of ``text``."""
        return self.text[: self.text.index("/", len("https://"))]


def web_url(written: str, base: str = "", encoding: str = "utf-8") -> WebUrl | None:
    """Return the URL that is meant; None if it can't be fetched by http.

    Args:
        written: text of a page, relative to ``base`` or absolute.
        base: ``text`` of another one; empty: ``written`` is absolute.
        encoding: encoding of the page, in which browsers write a query.
    """
    from w3lib.url import safe_url_string  # Not above: it takes 50 ms, which most programs don't need to spend.

    written = BEFORE_QUERY.sub(lambda head: head[0].replace("\\", "/"), written.strip(AROUND), count=1)
    try:
        joined = _joined(base, written).partition("#")[0]
        split = urlsplit(safe_url_string(with_ascii_host(_encodable(joined, encoding)), encoding))
        if split.scheme.lower() not in OWN_PORTS:
            return None
        url = WebUrl(split)
    except ValueError:
        return None
    return url if len(url.text) <= MAX_URL_CHARS else None


def _joined(base: str, written: str) -> str:
    """Make the reference absolute. ``urljoin`` drops empty segments of relative paths, which name other pages."""
    split = urlsplit(written)
    if not base or split.scheme or split.netloc or not split.path or split.path.startswith("/"):
        return urljoin(base, written)
    return base.partition("?")[0].rpartition("/")[0] + "/" + written


def _encodable(url: str, encoding: str) -> str:
    """Replace letters of the query that the page's encoding lacks by references, as browsers do."""
    path, mark, query = url.partition("?")
    return url if query.isascii() else path + mark + query.encode(encoding, AS_REFERENCE).decode(encoding)


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(f"%26%23{ord(letter)}%3B" for letter in error.object[error.start : error.end]), error.end


codecs.register_error(AS_REFERENCE, _as_reference)


def resolved(path: str) -> str:
    """Return an absolute path, at least "/", without dot segments (RFC 3986, section 5.2.4).

    To browsers ``%2e`` is a dot, too.

    ``urljoin`` resolves those of some references only.
    """
    if not DOTS.search(path):
        return path or "/"
    kept: list[str] = []
    *segments, last = (
        DOT.sub(".", segment) if DOTTED.fullmatch(segment) else segment for segment in path[1:].split("/")
    )
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if last == "..":
        del kept[-1:]
    return "/" + "/".join([*kept, "" if last in (".", "..") else last])


def belongs(url: WebUrl, to: WebUrl, same: Same) -> bool:
    """Return True if a URL has the host and port, or the registered domain, of another; "any": always."""
    if same == "any" or url.place == to.place:
        return True
    return same == "domain" and (domain := registered_domain(to.host)) != "" and domain == registered_domain(url.host)


def _host(split: SplitResult) -> str:
    """Return the host in lower case.

    Raises:
        ValueError: the URL has no usable host.
    """
    host = (split.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if not HOST.fullmatch(host):
        raise ValueError(f"no host: {host!r}")
    return host
