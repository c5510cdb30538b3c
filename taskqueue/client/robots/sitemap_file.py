"""What a sitemap says: pages, each with the time of its last change, or further sitemaps.

    gzip? ──► XML ──► <urlset>        <url>      <loc>, <lastmod>  ──► pages
          │       └─► <sitemapindex>  <sitemap>  <loc>             ──► sitemaps
          └─► text: a url a line                                   ──► pages

The format is that of https://www.sitemaps.org/protocol.html, its bounds are the bounds here: 50 MiB unpacked, 50,000
entries. A file is a stranger's. It is read by expat, without a tree, and to the first mistake: what stands before that
counts. A sitemap has no DOCTYPE, and one that has is not read, so there are no entities and nothing is loaded. lxml
would do, too, but it keeps the names of all elements that it has seen for as long as its thread lives: 25 MB for each
file of 5 MB that is made of nothing else.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from gzip import GzipFile
from io import BytesIO
from typing import Final, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from taskqueue.protocol.fields import MAX_URL_CHARS

MAX_FILE_BYTES: Final = 50 << 20
MAX_ENTRIES: Final = 50_000

MAX_NESTING: Final = 32
"""Elements within each other; those of a sitemap and its extensions are four."""

MAX_LASTMOD_CHARS: Final = 64
"""Longer ones are no times."""

GZIP: Final = b"\x1f\x8b"
BEFORE_TEXT: Final = b"\xef\xbb\xbf \t\r\n"
"""Byte order mark and white space."""

LINE: Final = re.compile(rb"\S[^\r\n]*")
"""Of a text, if it is not blank."""

CHUNK_BYTES: Final = 1 << 16

ENTRY_OF: Final = {"urlset": "url", "sitemapindex": "sitemap"}
"""What the root element lists."""

FIELDS: Final = {"loc": MAX_URL_CHARS, "lastmod": MAX_LASTMOD_CHARS}
"""What is read of each entry, and how much of it can matter."""


class Entry(NamedTuple):
    """One page: its url as it is written, and when it was changed last; "": nobody says."""

    url: str
    lastmod: str


class SitemapFile(NamedTuple):
    """What a file says.

    Attributes:
        trouble: why there is no more; "": that was all.
    """

    pages: list[Entry]
    sitemaps: list[str]
    trouble: str


class NoSitemap(ValueError):
    """Reading ends here."""


def read_sitemap(body: bytes) -> SitemapFile:
    """Read a file, gzipped or not; nothing that it could hold raises an error."""
    content, trouble = _unpacked(body) if body.startswith(GZIP) else (body[:MAX_FILE_BYTES], "")
    if not trouble and len(body) > MAX_FILE_BYTES:
        trouble = "too large"
    found = _read_xml(content) if content.lstrip(BEFORE_TEXT)[:1] == b"<" else _read_text(content)
    return found._replace(trouble=trouble or found.trouble)


def _unpacked(body: bytes) -> tuple[bytes, str]:
    """What is in a gzip file, up to the bound, and what is wrong with it."""
    content = bytearray()
    try:
        with GzipFile(fileobj=BytesIO(body)) as file:
            while chunk := file.read(CHUNK_BYTES):
                content += chunk
                if len(content) > MAX_FILE_BYTES:
                    return bytes(content[:MAX_FILE_BYTES]), "too large"
    except (OSError, EOFError, zlib.error) as error:
        return bytes(content), str(error)
    return bytes(content), ""


def _read_text(content: bytes) -> SitemapFile:
    pages: list[Entry] = []
    for line in LINE.finditer(content, len(content) - len(content.lstrip(BEFORE_TEXT))):
        if len(pages) == MAX_ENTRIES:
            return SitemapFile(pages, [], "too many entries")
        if len(line[0]) <= MAX_URL_CHARS:
            pages.append(Entry(line[0].decode(errors="replace").strip(), ""))
    return SitemapFile(pages, [], "")


def _read_xml(content: bytes) -> SitemapFile:
    entries = _Entries()
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = entries.doctype
    parser.StartElementHandler = entries.start
    parser.EndElementHandler = entries.end
    parser.CharacterDataHandler = entries.text
    try:
        # At once: in pieces, an expat before 2.6 reads a long token again with each of them.
        parser.Parse(content.lstrip(BEFORE_TEXT), True)
    except (ExpatError, ValueError, LookupError) as error:  # The last two also of encodings that it does not have.
        return entries.read(str(error))
    return entries.read("")


class _Entries:
    """What expat calls. Elements are known by where they stand; prefixes of names don't count."""

    def __init__(self) -> None:
        self._root = self._field = ""
        self._depth = 0
        self._entry: dict[str, str] = {}
        self._found: list[Entry] = []

    def read(self, trouble: str) -> SitemapFile:
        """All that was found."""
        if self._root == "sitemapindex":
            return SitemapFile([], [entry.url for entry in self._found], trouble)
        return SitemapFile(self._found, [], trouble)

    def doctype(self, name: str, *ids: object) -> None:
        raise NoSitemap(f"a sitemap has no DOCTYPE, and this one has: {name:.40}")

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        local = name.rpartition(":")[2]
        if self._depth == 1:
            if local not in ENTRY_OF:
                raise NoSitemap(f"no sitemap begins with <{local:.40}>")
            self._root = local
        elif self._depth == 2:
            self._entry = {}
        elif self._depth == 3:
            self._field = local if local in FIELDS else ""
        elif self._depth > MAX_NESTING:
            raise NoSitemap("nested too deep")

    def text(self, text: str) -> None:
        if self._depth == 3 and self._field:
            said = self._entry.get(self._field, "")
            # A bit more than may be, so that what is too long is not taken for its beginning.
            self._entry[self._field] = said + text[: 2 * FIELDS[self._field] - len(said)]

    def end(self, name: str) -> None:
        if self._depth == 2 and name.rpartition(":")[2] == ENTRY_OF[self._root] and "loc" in self._entry:
            if len(self._found) == MAX_ENTRIES:
                raise NoSitemap("too many entries")
            lastmod = self._entry.get("lastmod", "").strip()
            self._found.append(Entry(self._entry["loc"].strip(), lastmod if len(lastmod) <= MAX_LASTMOD_CHARS else ""))
        elif self._depth == 3:
            self._field = ""
        self._depth -= 1
