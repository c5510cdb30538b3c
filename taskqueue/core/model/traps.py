"""Detection of traps among new tasks: sites that make ever new URLs of the same few pages.

    new task ──1 of 31 sampled──► kind of trap it looks like, if any ──► 320 of a slot: 9 of 10 do? a finding

Many URLs of one shape prove nothing: a shop has 100,000 pages ``/item/N``. A trap shows by how a URL comes
to be new:

1. repeated: a part of it occurs four times or more (relative links, a login that returns to a login). Pages of an
   ordinary site hardly ever have such URLs, so one in twenty is enough, and the window need not be full.
2. session: a parameter of 16 characters or more has another value than on the parent page, and the same value as in
   another link of that page. Links to documents by such ids differ from each other.
3. deep: more than 30 links from the start, and it differs from its parent page only in numbers (a calendar;
   pages by ``?start=``). A long list whose pages link to the next one leads mostly to other pages.
4. combined: four or more parts, each seen in other URLs lately, and new together (filters). As one in
   31 is sampled, a part counts as seen lately if some 160 URLs have it: most pages have a name of their own. Many
   numbers in few shapes are an archive, unless the sets of parameters keep changing.

Rules 2 and 3 need the parent page of a task, so they apply to follow-ups only.

Parts are remembered by a filter of two hashes (B. H. Bloom, Space/Time Trade-offs in Hash Coding with Allowable Errors,
1970), one of this window and one of the window before. Samples are chosen by multiples of the golden
ratio (D. E. Knuth, The Art of Computer Programming, volume 3, section 6.4), so that a site in which every page has 31
links is sampled evenly. Nothing of it is stored: after a start windows begin anew.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from math import inf
from typing import Final, Literal, NamedTuple
from zlib import crc32

TrapKind = Literal["repeated", "session", "deep", "combined"]

SAMPLES: Final = 320
"""Samples in a window: they tell 90 % from 80 % with certainty (6 standard deviations)."""
SLOTS_MOST: Final = 64
"""Watched slots per project, at most; the one longest without a new task makes room."""
ALL_SLOTS_MOST: Final = 2048
"""Watched slots of all projects, at most: 6 kB each, 12 MB."""

TRAP_SHARE: Final = 0.9
REPEATED_SHARE: Final = 0.05
REPEATS: Final = 4
DEEP: Final = 30
COMBINED_PARTS: Final = 4
KEY_SETS: Final = 16
"""Sets of parameters in a window from which on numbers as values count as filters."""
FILTERS: Final = 3
"""Parameters of a URL from which on they may be filters."""
MAX_CHARS: Final = 2048
"""Characters of a URL that are scanned, from the end of the host."""

_GOLDEN: Final = 40_503
"""2 ** 16 divided by the golden ratio."""
_FILTER_BITS: Final = 1 << 14

_ID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9A-Za-z]{16,}"
_replace_ids: Final = re.compile(_ID).sub
_replace_numbers: Final = re.compile("[0-9]+").sub
_numbers: Final = re.compile("[0-9]+").findall
_tokens: Final = re.compile(rf"([?&;]\w+=|/\(\w\()({_ID})").findall
"""Pattern of parameters with an id as value, and of ASP.NET's session in the path."""
_names: Final = re.compile(r"(?:[/?&,]|%(?:25)*(?:2[Ff]|3[Ff]|26|2[Cc]))([A-Za-z_-][^/?&,=%;#]*)").findall
"""Pattern of segments and parameters that are not numbers, including those of URLs within the URL."""


class Finding(NamedTuple):
    """Finding of a window: the share of this kind among ``looked_at`` tasks, and the URL of one of them."""

    kind: TrapKind
    share: float
    looked_at: int
    url: str


class Sampling:
    """Choice of the new tasks of a project that are sampled, one window per ``growing`` tasks; inf for none.

    Attributes:
        at: next sample, as a count of the project's new tasks.
    """

    __slots__ = ("_count", "_step", "at")

    def __init__(self, growing: float) -> None:
        self._step = max(1.0, growing / SAMPLES)
        self._count = 0
        self.at = 0.0 if growing < inf else inf

    def go_on(self, count: int) -> None:
        """Choose the next sample after the new task of this number."""
        self._count += 1
        self.at = float(count + max(1, int(self._step * (0.5 + (self._count * _GOLDEN & 0xFFFF) / 0x10000))))


def shape_of(local: str) -> str:
    """Return a URL without scheme and host in which ids are X and other numbers N."""
    return _replace_numbers("N", _with_ids_as_x(local))


class TrapWindows:
    """Windows of a slot: findings of the present one, and parts of URLs of the one before.

    Attributes:
        size: samples per window.
    """

    __slots__ = ("_former", "_former_key_sets", "_key_sets", "_kinds", "_looked_at", "_parts", "size")

    def __init__(self, size: int = SAMPLES) -> None:
        self.size = size
        self._former = bytearray(_FILTER_BITS // 8)
        self._former_key_sets = 0
        self._begin()

    def _begin(self) -> None:
        self._parts = bytearray(_FILTER_BITS // 8)
        self._key_sets: set[int] = set()
        self._kinds: dict[TrapKind, int] = {}
        self._looked_at = 0

    def look(self, url: str, depth: int, parent: str = "", sibling: str = "") -> Finding | None:
        """Sample a new task; return the finding of its window if it shows a trap.

        Args:
            depth: number of links from a task that was pushed by a producer.
            parent: URL of the task that led to it; empty if unknown.
            sibling: another URL to which the parent led; empty if there is none.
        """
        self._looked_at += 1
        kind = self._kind_of(_local(url), depth, _local(parent), _local(sibling))
        if kind is not None:
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
        finding = self._judge(url) if kind is not None else None
        if finding is not None or self._looked_at >= self.size:
            self._former, self._former_key_sets = self._parts, len(self._key_sets)
            self._begin()
        return finding

    def _judge(self, url: str) -> Finding | None:
        kinds, looked_at = self._kinds, self._looked_at
        kind: TrapKind | None = None
        if kinds.get("repeated", 0) >= REPEATED_SHARE * self.size:
            kind = "repeated"
        elif looked_at >= self.size and sum(kinds.values()) >= TRAP_SHARE * looked_at:
            _, kind = max((count, kind) for kind, count in kinds.items())
        return None if kind is None else Finding(kind, kinds[kind] / looked_at, looked_at, url)

    def _kind_of(self, local: str, depth: int, parent: str, sibling: str) -> TrapKind | None:
        shape = shape_of(local)
        is_combined = self._is_combined(local, shape)
        if _is_repeated(local):
            return "repeated"
        if "X" in shape and sibling and _has_session(local, parent, sibling):
            return "session"
        if depth > DEEP and parent and self._is_next(local, shape, parent):
            return "deep"
        return "combined" if is_combined else None

    def _is_combined(self, local: str, shape: str) -> bool:
        """Record the parts of a URL; return whether it is a new combination of known ones."""
        path, _, query = local.partition("?")
        pairs = [pair for pair in _with_ids_as_x(query).split("&") if pair and not pair.endswith("=")]
        parts = [part for part in path.split("/") if part] + pairs
        if pairs and len(self._key_sets) < KEY_SETS:
            self._key_sets.add(crc32("&".join([pair.partition("=")[0] for pair in pairs]).encode("utf-8", "replace")))
        new = [part for part in parts if not self._is_known(part)]
        is_new_shape = not self._is_known("shape " + shape)
        if new or len(parts) < COMBINED_PARTS:
            return False
        key_sets = max(len(self._key_sets), self._former_key_sets)
        return is_new_shape or (len(pairs) >= FILTERS and key_sets >= KEY_SETS)

    def _is_next(self, local: str, shape: str, parent: str) -> bool:
        """Return whether the URL differs only in numbers from its parent, and from others."""
        path, _, query = shape.partition("?")
        new = [word for word in [*path.split("/"), *query.split("&")] if not self._is_known("word " + word)]
        if new:
            return False
        numbers = set(_numbers(parent))
        return shape_of(parent).partition("?")[0] == path or (bool(numbers) and numbers <= set(_numbers(local)))

    def _is_known(self, part: str) -> bool:
        """Record the part; return whether this window or the one before had it already."""
        # Not hash(), which differs between processes.
        checksum = crc32(part.encode("utf-8", "replace"))
        one, other = checksum & (_FILTER_BITS - 1), (checksum >> 16) & (_FILTER_BITS - 1)
        is_known = _has(self._parts, one, other) or _has(self._former, one, other)
        self._parts[one >> 3] |= 1 << (one & 7)
        self._parts[other >> 3] |= 1 << (other & 7)
        return is_known


class TrapTable:
    """Watched slots of all projects; those longest without a new task make room."""

    __slots__ = ("_count", "_projects")

    def __init__(self) -> None:
        self._projects: OrderedDict[int, OrderedDict[str, TrapWindows]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of watched slots."""
        return self._count

    def of(self, project: int, slot: str, size: int) -> TrapWindows:
        """Return the windows of a slot, begun anew if they had another size."""
        slots = self._projects.setdefault(project, OrderedDict())
        self._projects.move_to_end(project)
        windows = slots.pop(slot, None)
        self._count += windows is None
        if windows is None or windows.size != size:
            windows = TrapWindows(size)
        slots[slot] = windows
        if len(slots) > SLOTS_MOST:
            slots.popitem(last=False)
            self._count -= 1
        elif self._count > ALL_SLOTS_MOST:
            self._count -= len(self._projects.popitem(last=False)[1])
        return windows


def _local(url: str) -> str:
    """Return the part of a URL after the host."""
    at = url.find("/", url.find("//") + 2)
    return url[at : at + MAX_CHARS] if at >= 0 else ""


def _with_ids_as_x(text: str) -> str:
    return _replace_ids(_x_if_id, text)


def _x_if_id(match: re.Match[str]) -> str:
    run = match[0]
    return run if run.isalpha() else "X"


def _is_repeated(local: str) -> bool:
    names = _names(local)
    return len(names) >= REPEATS and max(Counter(names).values()) >= REPEATS


def _has_session(local: str, parent: str, sibling: str) -> bool:
    """Return whether a parameter has another value than in ``parent``, and the same as in ``sibling``."""
    former, beside = dict(_tokens(parent)), dict(_tokens(sibling))
    return any(former.get(name, value) != value == beside.get(name) for name, value in _tokens(local))


def _has(bits: bytearray, one: int, other: int) -> bool:
    return bool(bits[one >> 3] >> (one & 7) & 1 and bits[other >> 3] >> (other & 7) & 1)
