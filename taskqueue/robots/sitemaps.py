"""Sitemaps of a site: parsing of files, the next file to fetch, and tasks for their pages.

Walk (``SitemapWalk``):

    Sitemap lines of robots.txt, or named by the caller ──► files ──► pages of the site ──► tasks
                                                              ▲   │
                                                              └───┴─ sitemap indexes: further files

1. A page counts if it belongs to the site; the protocol's rule on folders is ignored, as sites do.
2. robots.txt may name sitemaps anywhere. An index may only name those of its own host, or of the site.
3. Each file is read once, at most MAX_LEVELS below the first one, up to the caller's number of files.
4. A file that can't be fetched or read is logged and skipped.

File (``read_sitemap``): pages, each with the time of its last change, or further sitemaps.

    gzip? ──► XML ──► <urlset>        <url>      <loc>, <lastmod>  ──► pages
          │       └─► <sitemapindex>  <sitemap>  <loc>             ──► sitemaps
          └─► text: a URL a line                                   ──► pages

The format is that of https://www.sitemaps.org/protocol.html, with its bounds: 50 MiB unpacked, 50,000 entries. A file
is foreign. expat parses it without a tree, up to the first error; entries before that count. A sitemap has no DOCTYPE,
and a file with one is rejected, so there are no entities and nothing is loaded. lxml would do, too, but it keeps the
names
of all elements for as long as its thread lives: 25 MB for each file of 5 MB that consists of nothing else.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from gzip import GzipFile
from io import BytesIO
from itertools import islice
from typing import Final, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from taskqueue.client.arguments import checked_count
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_options import PushOptions
from taskqueue.client.web_urls import SAMES, Same, WebUrl, belongs, web_url
from taskqueue.protocol.fields import MAX_URL_CHARS
from taskqueue.protocol.values import NewTask
from taskqueue.robots.robots_txt import Answer

log = logging.getLogger("taskqueue.robots")

MAX_FILE_BYTES: Final = 50 << 20
MAX_ENTRIES: Final = 50_000

MAX_NESTING: Final = 32
"""Nesting depth of elements, at most; sitemaps and their extensions need four."""

MAX_LASTMOD_CHARS: Final = 64
"""Longest time of a last change; longer texts are not times."""

GZIP: Final = b"\x1f\x8b"
BEFORE_TEXT: Final = b"\xef\xbb\xbf \t\r\n"
"""Byte order mark and white space."""

LINE: Final = re.compile(rb"\S[^\r\n]*")
"""Match a line that is not blank."""

CHUNK_BYTES: Final = 1 << 16

ENTRY_OF: Final = {"urlset": "url", "sitemapindex": "sitemap"}
"""Name of the listed elements, by root element."""

FIELDS: Final = {"loc": MAX_URL_CHARS, "lastmod": MAX_LASTMOD_CHARS}
"""Fields read of each entry, and their useful lengths."""


class Entry(NamedTuple):
    """Page: its URL as written, and the time of its last change, "" if unknown."""

    url: str
    lastmod: str


class SitemapFile(NamedTuple):
    """Parsed contents of a file.

    Attributes:
        trouble: why parsing stopped early; "" if it did not.
    """

    pages: list[Entry]
    sitemaps: list[str]
    trouble: str


class NoSitemap(ValueError):
    """Parsing stops here."""


def read_sitemap(body: bytes) -> SitemapFile:
    """Parse a file, gzipped or not; no content raises an error."""
    content, trouble = _unpacked(body) if body.startswith(GZIP) else (body[:MAX_FILE_BYTES], "")
    if not trouble and len(body) > MAX_FILE_BYTES:
        trouble = "too large"
    found = _read_xml(content) if content.lstrip(BEFORE_TEXT)[:1] == b"<" else _read_text(content)
    return found._replace(trouble=trouble or found.trouble)


def _unpacked(body: bytes) -> tuple[bytes, str]:
    """Unpack a gzip file up to the bound; return its content, and what is wrong with it."""
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
        # In one piece: an expat before 2.6 reads a long token again with each piece.
        parser.Parse(content.lstrip(BEFORE_TEXT), True)
    except (ExpatError, ValueError, LookupError) as error:  # The last two for unsupported encodings.
        return entries.read(str(error))
    return entries.read("")


class _Entries:
    """Handlers for expat. Elements are identified by their depth; prefixes of names are ignored."""

    def __init__(self) -> None:
        self._root = self._field = ""
        self._depth = 0
        self._entry: dict[str, str] = {}
        self._found: list[Entry] = []

    def read(self, trouble: str) -> SitemapFile:
        """Return all that was found."""
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
            # A bit more than allowed, so that a text that is too long is not mistaken for its beginning.
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


MAX_LEVELS: Final = 3
"""Levels of indexes, at most; the protocol knows one, some sites have two."""

MAX_FILES: Final = 1_000


class SitemapWalk:
    """Walk through sitemaps: repeat ``next_file``, fetch it, take its ``tasks``, until there is no file.

    Args:
        site: any page of the site.
        named: URLs of the first files.
        same: which pages belong to the site, as in ``taskqueue.links``.
        max_files: files that are fetched, at most.
        options: for each task.
    """

    def __init__(self, site: WebUrl, named: Iterable[str], same: Same, max_files: int, options: PushOptions) -> None:
        if same not in SAMES:
            raise ValueError(f"same: expected one of {', '.join(SAMES)}, not {same!r}")
        self._site = site
        self._same = same
        self._options = options
        self._left = checked_count("max_files", max_files)
        self._level = 0
        self._seen: set[str] = set()
        self._files: deque[tuple[int, WebUrl]] = deque()
        for written in islice(named, max_files):
            if (file := web_url(written)) is None:
                log.warning("event=sitemap-unread url=%r reason='no absolute URL of http or https'", written)
            else:
                self._add(file, 0)

    def next_file(self) -> WebUrl | None:
        """Return the next file to fetch; None if there is none."""
        if not self._files or self._left <= 0:
            return None
        self._left -= 1
        self._level, file = self._files.popleft()
        return file

    def tasks(self, file: WebUrl, read: SitemapFile) -> Iterator[NewTask]:
        """Yield the tasks of the last file, and queue its sitemaps."""
        if read.trouble:
            log.warning("event=sitemap-unread url=%s pages=%d reason=%r", file.text, len(read.pages), read.trouble)
        for written in read.sitemaps if self._level < MAX_LEVELS else ():
            sitemap = web_url(written)
            if sitemap is not None and (belongs(sitemap, file, "host") or belongs(sitemap, self._site, self._same)):
                self._add(sitemap, self._level + 1)
            if len(self._files) >= self._left:
                break
        for entry in read.pages:
            page = web_url(entry.url)
            if page is not None and belongs(page, self._site, self._same):
                yield new_task(page.text, **_with_itag(self._options, entry))

    def _add(self, file: WebUrl, level: int) -> None:
        if file.text not in self._seen:
            self._seen.add(file.text)
            self._files.append((level, file))


def read_answer(answer: Answer | Exception) -> SitemapFile:
    """Parse the result of fetching a file; a failure is an empty file with its reason."""
    if isinstance(answer, Exception):
        return SitemapFile([], [], f"{type(answer).__name__}: {answer}")
    status, body = answer
    return read_sitemap(body) if 200 <= status < 300 else SitemapFile([], [], f"answered by {status}")


def _with_itag(options: PushOptions, entry: Entry) -> PushOptions:
    """Add the time of the last change as itag, which restarts changed tasks, unless the caller sets an itag for all."""
    return {"itag": entry.lastmod or None, **options}
