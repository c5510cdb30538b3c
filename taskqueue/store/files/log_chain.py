"""Where a store's logs stop following each other, and whether that is the torn end that a crash leaves.

    log 12  1 … 500                          log 12  1 … 300 ✗ 341 … 500        log 12  1 … 300 ✗
    log 14          501 … 900                log 14                501 … 900    log 14          301 … 700
    whole: up to 900                         damaged: up to 300, 900 were       whole: it was torn at 300, and opened

Rules:
1. Changes are numbered without gaps, through all logs. What follows a gap must not be replayed: tasks would be in two
   places or in none (the contract's promise P7).
2. What can't be read and has nothing after it is a torn end: nobody knows of more, but for the mark.
3. A later log that begins where an earlier one can be read to was begun by a start that found it torn there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from taskqueue.store.files.log_records import Unreadable
from taskqueue.store.files.write_log import Run, WriteLog


class Flaw(NamedTuple):
    """Attributes:
    name: of the file.
    at: bytes from its start.
    reason: for people.
    """

    name: str
    at: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, at byte {self.at:,}: {self.reason}"


class Chain(Struct):
    """Logs, one after the other.

    Attributes:
        first: number of their first change; None: they have none.
        last: of the last one that follows the first without a gap; 0: they have none.
        known: of the last one that can be read, gap or not.
        stop: the log and the byte behind ``last``.
        flaws: from there on; of a torn end, too.
    """

    first: int | None = None
    last: int = 0
    known: int = 0
    stop: tuple[WriteLog, int] | None = None
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def has_gap(self) -> bool:
        """There are changes after a gap."""
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
