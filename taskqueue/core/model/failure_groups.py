"""Failures counted by group: by kind of error, host, fetcher or project.

Variable parts of an error are replaced to find its kind: a URL becomes ``<url>``, a number, an address or an id
``#``. Numbers that identify the error stay: an errno, or one from 100 to 599 at the start of the text
or of the exception's message, after a word such as HTTP or status, or before a phrase such as Not Found:

    ConnectTimeout: https://a.org/1 after 30.02 s    ──►    ConnectTimeout: <url> after # s
    HTTP 503 for item 81723                          ──►    HTTP 503 for item #
    cannot parse price at offset 128                 ──►    cannot parse price at offset #

Memory is bounded: of more than GROUPS_MOST groups only the GROUPS_MOST // 2 with the most failures stay
(lossy counting: G. Manku, R. Motwani, Approximate Frequency Counts over Data Streams, 2002).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from operator import attrgetter
from typing import Final

from msgspec import Struct

from taskqueue.core.model.attempt_records import Failure, KeptFailure
from taskqueue.core.model.session import Session
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.choices import FailuresBy

GROUPS_MOST: Final = 4096

_DIFFERENT: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s'\"<>()\[\]]+"
    r"|\b0[xX][0-9A-Fa-f]+"
    r"|\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"
    r"|\b(?=[A-Fa-f]*\d)(?=\d*[A-Fa-f])[0-9A-Fa-f]{8,}\b"
    r"|\d{4,}(?:[.,:]\d+)*"
    r"|(?<![A-Za-z_\d])\d+(?:[.,:]\d+)*"
)
_STATUS: Final = re.compile(r"[1-5]\d\d(?![A-Za-z_])")
_START: Final = re.compile(r"(?:[A-Za-z_][\w.]*: )?\W{0,3}")
_PHRASE: Final = re.compile(r" [A-Z][a-z]")
_SAYS_STATUS: Final = re.compile(r"(?:http(?:/[\d.]+)?|status|code|response|error)[\s:=(\['\"]{0,3}\Z", re.IGNORECASE)
_SAYS_ERRNO: Final = re.compile(r"(?:errno|winerror)[\s:=]{0,3}\Z", re.IGNORECASE)
_BEFORE: Final = 16
"""Characters scanned before a number: more than the longest of these words."""


class Group(Struct):
    """Group of failures.

    Attributes:
        failures: number of failures.
        first: key of the first failure.
        last: last failure.
    """

    failures: int
    first: int
    last: KeptFailure


class FailureGroups:
    """Counter of failures by group; failures are added in order of their times.

    Attributes:
        failures: failures counted so far.
        dropped: groups dropped because there were too many.
    """

    __slots__ = ("_groups", "_name_of", "dropped", "failures")

    def __init__(self, by: FailuresBy) -> None:
        self._name_of = _namer(by)
        self._groups: dict[str | int, Group] = {}
        self.failures = 0
        self.dropped = 0

    def add(self, failures: Iterable[KeptFailure], projects: Container[int]) -> None:
        """Count the failures of these projects, given by number."""
        groups, name_of = self._groups, self._name_of
        for kept in failures:
            failure = kept.failure
            if failure.project not in projects:
                continue
            self.failures += 1
            name = name_of(failure)
            group = groups.get(name)
            if group is None:
                groups[name] = Group(1, kept.key, kept)
            else:
                group.failures += 1
                group.last = kept
        if len(groups) > GROUPS_MOST:
            self._drop_smallest()

    @property
    def count(self) -> int:
        """Number of groups, dropped ones included; a group that came back after it was dropped counts twice."""
        return len(self._groups) + self.dropped

    def largest(self, limit: int) -> list[tuple[str | int, Group]]:
        """Return names (numbers of projects) and groups, the largest first; of equals, the one that failed last."""
        by_size = sorted(self._groups.items(), key=lambda item: (-item[1].failures, -item[1].last.key))
        return by_size[:limit]

    def _drop_smallest(self) -> None:
        kept = dict(self.largest(GROUPS_MOST // 2))
        self.dropped += len(self._groups) - len(kept)
        self._groups = kept


class FailureCount(Struct):
    """Unfinished request for failure counts.

    Attributes:
        session, n: session and number of the request.
        project: number of the project; 0 for all projects.
        since: see ``FailuresReply``.
        scope: projects whose failures are counted; None: all.
        limit: number of groups requested.
        start, end: range of keys of failures yet to be counted.
        cuts: ``cuts`` of its session when it began.
    """

    session: Session
    n: int
    project: int
    since: float
    limit: int
    start: int
    end: int
    groups: FailureGroups
    cuts: int
    scope: Scope | None = None


def kind_of(error: str) -> str:
    """Return the error without its variable parts."""
    return _DIFFERENT.sub(_placeholder, error)


def _placeholder(found: re.Match[str]) -> str:
    if "://" in found[0]:
        return "<url>"
    return found[0] if _says_which(found) else "#"


def _says_which(found: re.Match[str]) -> bool:
    """Return whether a number identifies the kind of error."""
    text, start, end = found.string, *found.span()
    before = text[max(0, start - _BEFORE) : start]
    if found[0].isdigit() and _SAYS_ERRNO.search(before):
        return True
    if end - start != 3 or not _STATUS.match(text, start):
        return False
    return bool(_START.fullmatch(text, 0, start) or _PHRASE.match(text, end) or _SAYS_STATUS.search(before))


def _namer(by: FailuresBy) -> Callable[[Failure], str | int]:
    """Make the function that names a failure's group; kinds of errors are cached, because few are frequent."""
    if by != "error":
        return attrgetter(by)
    kinds: dict[str, str] = {}

    def kind(failure: Failure) -> str:
        error = failure.error
        known = kinds.get(error)
        if known is None:
            if len(kinds) >= GROUPS_MOST:
                kinds.clear()
            known = kinds[error] = kind_of(error)
        return known

    return kind
