"""Sites whose pages are made from their urls alone: large ordinary ones, and traps that never end.

A site is a function: local url of a page ──► local urls of its links. Checksums of the url stand in for chance.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode
from zlib import crc32

Site = Callable[[str], list[str]]

HOST: Final = "http://site.example.org"


class Found(NamedTuple):
    """New task of a crawl: its url, the page that led to it, and another link of that page."""

    url: str
    depth: int
    parent: str
    sibling: str


def crawl(site: Site, most: int) -> Iterator[Found]:
    """Yield up to ``most`` new tasks of a crawl, breadth first."""
    waiting, known = deque([("/", 0)]), {"/"}
    while waiting:
        page, depth = waiting.popleft()
        links = list(dict.fromkeys(site(page)))
        for index, link in enumerate(links):
            if link in known:
                continue
            if len(known) > most:
                return
            known.add(link)
            waiting.append((link, depth + 1))
            sibling = HOST + (links[0] if 2 * index >= len(links) else links[-1]) if len(links) > 1 else ""
            yield Found(HOST + link, depth + 1, HOST + page, sibling)


# ------------------------------------------------------------------------------------------------ ordinary


def shop(page: str) -> list[str]:
    """Shop of 300,000 items: lists link only to the next list, items to similar items."""
    if page == "/":
        return [f"/{_word('list', n)}?page=1" for n in range(40)]
    if "page=" in page:
        number = _numbers(page)[0]
        following = [page.replace(f"={number}", f"={number + 1}")] if number < 400 else []
        return ["/", *[f"/item/{_chance(300_000, page, n)}" for n in range(20)], *following]
    return ["/", *[f"/item/{_chance(300_000, page, n)}" for n in range(6)]]


def news(page: str) -> list[str]:
    """News by date and title, with 1,500 chronological pages that link only to the next one."""
    if page == "/":
        return ["/archive?page=1", "/about"]
    if page.startswith("/archive"):
        number = _numbers(page)[0]
        following = [f"/archive?page={number + 1}"] if number < 1500 else []
        day = f"/{2024 - number // 80}/{1 + number // 7 % 12:02}"
        return ["/", *[f"{day}/{1 + n:02}/{_title(page, n)}" for n in range(20)], *following]
    return ["/", "/archive?page=1", f"/tag/{_word(_chance(300, page))}"]


def forum(page: str) -> list[str]:
    """Forum with numbered topics of several pages, and members."""
    if page == "/":
        return [f"/viewforum.php?f={n}" for n in range(1, 30)]
    numbers = _numbers(page)
    if "viewforum" in page:
        forum, start = (*numbers, 0)[:2]
        following = [f"/viewforum.php?f={forum}&start={start + 25}"] if start < 2500 else []
        return ["/", *[f"/viewtopic.php?f={forum}&t={forum * 100_000 + start + n}" for n in range(25)], *following]
    if "viewtopic" in page:
        forum, topic, start = (*numbers, 0)[:3]
        pages = [start + 10, start + 20] if start < 10 * _chance(12, topic) ** 2 else []
        topics = [f"/viewtopic.php?f={forum}&t={topic}&start={each}" for each in pages]
        return ["/", *[f"/memberlist.php?mode=viewprofile&u={_chance(20_000, page, n)}" for n in range(10)], *topics]
    return ["/"]


def manual(page: str) -> list[str]:
    """Manual of four levels in twenty languages; each page links to its translations."""
    languages = [_word("language", n, syllables=1) for n in range(20)]
    if page == "/":
        return [f"/{language}/manual" for language in languages]
    _, *parts = page.strip("/").split("/")
    path = "/".join(parts)
    below = [f"{page}/{_word(path, n)}" for n in range(9)] if len(parts) < 5 else []
    return [*[f"/{each}/{path}" for each in languages], *below]


def pictures(page: str) -> list[str]:
    """Pictures and people by ids of 32 characters, in parameters and in the path."""
    if page == "/":
        return [f"/user/{_id('user', n)}/pictures" for n in range(400)]
    if page.endswith("pictures"):
        others = [f"/user/{_id('user', _chance(4000, page, n))}/pictures" for n in range(9)]
        return ["/", *[f"/picture?id={_id(page, n)}" for n in range(80)], *others]
    return ["/", f"/file/{_id(page)}.jpg"]


def documents(page: str) -> list[str]:
    """Documents by ids of 32 characters, which link to others and to their histories."""
    if page == "/":
        return [f"/document?id={_id('document', n)}" for n in range(100)]
    others = [_id("document", _chance(200_000, page, n)) for n in range(8)]
    return [f"/{kind}?id={each}" for each in others for kind in ("document", "history")]


def directory(page: str) -> list[str]:
    """Firms by 2,000 towns and 50 trades."""
    parts = page.strip("/").split("/")
    if page == "/":
        return [f"/town/{_word('town', n)}" for n in range(2000)]
    if len(parts) == 2:
        return ["/", *[f"{page}/{_word('trade', n)}" for n in range(50)]]
    return ["/", *[f"/firm/{_title(page, n)}" for n in range(2)]] if parts[0] == "town" else ["/"]


def sources(page: str) -> list[str]:
    """Repositories: deep folders of a few names, files, and commits by id."""
    if page == "/":
        return [f"/group/project-{n}/tree/main" for n in range(60)]
    group, project, kind, *path = page.partition("?")[0].strip("/").split("/")
    base = f"/{group}/{project}"
    if kind == "tree" and not _is_id(path[0]):
        names = ["src", "main", "java", "org", "test", "lib"]
        folders = [f"{page}/{names[_chance(6, page, n)]}" for n in range(3)] if len(path) < 7 else []
        files = [f"{base}/blob/{'/'.join(path)}/{_title(page, n)}.java" for n in range(5)]
        return ["/", f"{base}/commits?page=1", *folders, *files]
    if kind == "commits":
        number = _numbers(page)[-1]
        following = [f"{base}/commits?page={number + 1}"] if number < 200 else []
        return [*[f"{base}/commit/{_id(page, n)}" for n in range(30)], *following]
    return ["/", *[f"{base}/{each}/{path[0]}" for each in ("tree", "patch") if kind == "commit"]]


def thread(page: str) -> list[str]:
    """Single thread of 4,000 pages, each of which links only to the next one and to its authors."""
    if page == "/":
        return ["/thread/1?page=1"]
    if "thread" not in page:
        return ["/"]
    number = _numbers(page)[1]
    following = [f"/thread/1?page={number + 1}"] if number < 4000 else []
    return ["/", *[f"/user/{_chance(30_000, page, n)}" for n in range(15)], *following]


def comics(page: str) -> list[str]:
    """Sixty comics of 34 years, one strip a day."""
    parts = page.strip("/").split("/")
    if page == "/":
        return [f"/comic/{_word('comic', n)}" for n in range(60)]
    if len(parts) == 2:
        return [f"{page}/{year}" for year in range(1990, 2024)]
    return [f"{page}/{month:02}/{day:02}" for month in range(1, 13) for day in range(1, 29)] if len(parts) == 3 else []


def catalogue(page: str) -> list[str]:
    """Lists of nine kinds in four orders, and three further pages of each item."""
    if page == "/":
        return [f"/list?kind={n}" for n in range(9)]
    if page.startswith("/list"):
        said = dict(parse_qsl(page.partition("?")[2]))
        number = int(said.get("page", 1))
        orders = [f"/list?kind={said['kind']}&sort={order}" for order in ("new", "cheap", "best")]
        following = [f"/list?{urlencode(said | {'page': number + 1})}"] if number < 200 else []
        return ["/", *orders, *following, *[f"/thing/{_chance(60_000, page, n)}-{_word(page, n)}" for n in range(20)]]
    return ["/"] if "?" in page else ["/", *[f"{page}?tab={tab}" for tab in ("reviews", "details", "questions")]]


# ------------------------------------------------------------------------------------------------ traps


def calendar(page: str) -> list[str]:
    """Calendar that links to the month before and the next one, and to pages of days."""
    if page == "/":
        return ["/calendar?month=2024-05", *[f"/page/{_word(n)}" for n in range(50)]]
    if "month" not in page:
        return ["/"]
    year, month = _numbers(page)
    days = [f"/calendar?day={year}-{month:02}-{day:02}" for day in range(1, 29)]
    return ["/", *[f"/calendar?month={_month(year, month + step)}" for step in (1, -1)], *days]


def years(page: str) -> list[str]:
    """Calendar that only goes forward, by its path."""
    year, month = _numbers(page) or (2024, 5)
    return ["/", f"/calendar/{_month(year, month + 1).replace('-', '/')}"]


def session_ids(page: str) -> list[str]:
    """Shop of 330 pages, each of which puts a new session id into its links."""
    pages = [f"/about/{_word(n)}" for n in range(30)] + [f"/item/{_chance(300, page, n)}" for n in range(8)]
    return [f"{each}?sid={_id('session', page)}" for each in pages]


def session_paths(page: str) -> list[str]:
    """Shop of 100,000 items with session ids in the path."""
    return [f"/item/{_chance(100_000, page, n)};jsessionid={_id('session', page)}" for n in range(20)]


def login(page: str) -> list[str]:
    """Login that links to itself with its origin in a parameter, in a site of 2,000 pages."""
    pages = [f"/page/{_chance(2000, page, n)}" for n in range(4)]
    back = f"/login?next={quote(page, safe='')}"
    return ["/", *(pages if "login" not in page else []), *([back] if len(back) < 8192 else [])]


def steps(page: str) -> list[str]:
    """Login with a counter of visits in its url."""
    return ["/", f"/login?step={(_numbers(page) or [0])[0] + 1}"]


def filters(page: str) -> list[str]:
    """Search with six filters of words, in any combination."""
    return _filtered(page, {name: [_word(name, n) for n in range(5)] for name in FILTERS}, "/shop?{}", "=", "&")


def filters_by_number(page: str) -> list[str]:
    """Search with filters of numbers, in any combination."""
    return _filtered(page, {name: [str(n) for n in range(1, 7)] for name in (*FILTERS, "fit")}, "/shop?{}", "=", "&")


def filters_in_path(page: str) -> list[str]:
    """Search with filters as folders, in any combination."""
    return _filtered(page, {name: [_word(name, n) for n in range(5)] for name in FILTERS}, "/shop/{}", "-", "/")


def spiral(page: str) -> list[str]:
    """Page with relative links to five folders, which the server gives for every folder."""
    folder = page.rpartition("/")[0]
    return ["/", *[f"{folder}/{name}/index.html" for name in ("about", "products", "contact", "news", "jobs")]]


def staircase(page: str) -> list[str]:
    """Page with a single relative link, which the server gives for every folder."""
    folder = page.rpartition("/")[0]
    return ["/", f"{folder}/more/index.html"] if len(folder) < 8192 else ["/"]


FILTERS: Final = ("colour", "size", "brand", "made", "price", "sort")

ORDINARY: Final[list[Site]] = [
    shop, news, forum, manual, pictures, documents, directory, sources, thread, comics, catalogue,
]  # fmt: skip
TRAPS: Final[dict[Site, str]] = {
    calendar: "deep",
    session_ids: "session",
    login: "repeated",
    filters: "combined",
    spiral: "repeated",
    years: "deep",
    session_paths: "session",
    steps: "deep",
    filters_by_number: "combined",
    filters_in_path: "combined",
    staircase: "repeated",
}
"""Traps with the kind that is found."""


def _filtered(page: str, filters: dict[str, list[str]], form: str, is_: str, and_: str) -> list[str]:
    if page == "/":
        return ["/shop"]
    if page.startswith("/item"):
        return ["/"]
    said = dict(each.split(is_) for each in page[len("/shop?") :].split(and_) if each)
    found = ["/", *[f"/item/{_chance(2000, page, n)}" for n in range(4)]]
    for name, values in filters.items():
        for value in values:
            chosen = said | {name: value}
            found.append(form.format(and_.join(f"{each}{is_}{chosen[each]}" for each in filters if each in chosen)))
    return found


def _numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def _chance(most: int, *of: object) -> int:
    return _checksum(*of) % most


def _checksum(*of: object) -> int:
    # A second checksum, because equal ends have checksums that differ in few bits.
    return crc32(str(crc32(repr(of).encode())).encode() * 2) >> 3


def _id(*of: object) -> str:
    return "".join(f"{_checksum(part, *of):08x}" for part in range(4))


def _is_id(text: str) -> bool:
    return len(text) == 32


def _word(*of: object, syllables: int = 4) -> str:
    number = _checksum("word", *of)
    return "".join("bcdfghjklmnprstv"[number >> 5 * n & 15] + "ae"[number >> 5 * n + 4 & 1] for n in range(syllables))


def _title(*of: object) -> str:
    return "-".join(_word(part, *of, syllables=2) for part in range(5))


def _month(year: int, month: int) -> str:
    months = 12 * year + month - 1
    return f"{months // 12}-{months % 12 + 1:02}"
