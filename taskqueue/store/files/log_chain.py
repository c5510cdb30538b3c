"""Follows the sequence of changes through a store's logs, and finds where it breaks.

    log 12  1 … 500                          log 12  1 … 300 ✗ 341 … 500        log 12  1 … 300 ✗
    log 14          501 … 900                log 14                501 … 900    log 14          301 … 700
    whole: up to 900                         damaged: up to 300, 900 existed    whole: it was torn at 300, and reopened

Rules:
1. Changes are numbered without gaps, through all logs. Changes behind a gap must not be replayed: tasks would be in two
   places or in none (the contract's promise P7).
2. An unreadable place with nothing after it is a torn tail; only the synced mark can tell that more existed.
3. A later log that begins where an earlier one becomes unreadable was begun by a start that found it torn there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from taskqueue.store.files.log_records import Unreadable
from taskqueue.store.files.write_log import Run, WriteLog


class Flaw(NamedTuple):
    """A place in a file that is not as it should be.

    Attributes:
        name: of the file.
        at: offset in bytes.
        reason: for people.
    """

    name: str
    at: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, at byte {self.at:,}: {self.reason}"


class Chain(Struct):
    """The sequence of changes in consecutive logs.

    Attributes:
        first: number of the first change; None: the logs have none.
        last: number of the last change that follows the first without a gap; 0: the logs have none.
        known: number of the last readable change, gap or not.
        stop: the log and the offset behind ``last``.
        flaws: from there on, including a torn tail.
    """

    first: int | None = None
    last: int = 0
    known: int = 0
    stop: tuple[WriteLog, int] | None = None
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def has_gap(self) -> bool:
        """Whether there are changes behind a gap."""
        return self.known > self.last


def follow_chain(logs: Sequence[WriteLog]) -> Chain:
    """Follow the changes through logs, which are in the order of their numbers."""
    chain = Chain()
    for log in logs:
        begins = True
        for part in log.parts:
            if isinstance(part, Unreadable):
                chain.flaws.append(Flaw(log.name, part.at, part.reason))
                continue
            if begins and chain.flaws and part.first == chain.last + 1:
                chain.flaws, chain.known = [], chain.last
            begins = False
            _add(chain, log, part)
    return chain


def _add(chain: Chain, log: WriteLog, run: Run) -> None:
    if chain.first is None and not chain.flaws:
        chain.first = run.first
    elif not chain.flaws and run.first > chain.last + 1:
        reason = f"changes {chain.last + 1:,} to {run.first - 1:,} are missing before it"
        chain.flaws.append(Flaw(log.name, run.at, reason))
    if chain.flaws:
        chain.known = max(chain.known, run.last)
        return
    chain.last = chain.known = max(chain.last, run.last)
    chain.stop = log, run.end
