"""Interval until a page is crawled again: shorter if it changes, longer if it does not. Pure functions.

    a success ──► has the page changed?    yes: interval × 0.8    no: × 1.4    unknown: unchanged
                    1. by ``changed`` of the report
                    2. else by the first of these that both this report and the last one have:
                       content_hash, etag, last_modified

The rates are the defaults of Apache Nutch (``AdaptiveFetchSchedule``: db.fetch.schedule.adaptive.dec_rate and
inc_rate in its nutch-default.xml). With them an interval settles where the page has changed at 60 of 100 visits.
That is 0.9 times the mean time between its changes, if these come as in a Poisson process, as those of pages do (Cho
and Garcia-Molina, "Effective page refresh policies for web crawlers", ACM Transactions on Database Systems, 2003).

The interval stays within the bounds of the schedule. A task waits for it ± 10 % (``jitter``), which is not
stored: without it pages that were pushed together would always come back together.
"""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.values import Fetched, PageFacts, Recrawl, Schedule

SHRINK: Final = 0.8
GROW: Final = 1.4


NOTHING_SAID: Final = Fetched()


def facts_bytes(page: PageFacts) -> int:
    """Return the approximate bytes of the facts about a page."""
    return len(page.etag) + len(page.last_modified) + len(page.content_hash)


def good_for(schedule: Schedule, page: PageFacts | None = None) -> float | None:
    """Return the seconds for which a success is good, by schedule and facts about the page; None for ever."""
    bounds = schedule.recrawl
    if bounds is None:
        return schedule.age
    if page is not None:
        return page.interval
    return bounds.min if schedule.age is None else _within(bounds, schedule.age)


def recurs_after(schedule: Schedule, page: PageFacts | None = None) -> float | None:
    """Return the seconds from a success to the task's next run, before jitter; None if it does not recur any more."""
    recurs = (schedule.auto_recrawl or schedule.recrawl is not None) and schedule.repeat != 0
    return good_for(schedule, page) if recurs else None


def after_success(known: PageFacts, bounds: Recrawl, said: Fetched) -> PageFacts:
    """Return the facts about a page after a success with this report.

    Unless the page is the same, facts that the report omits are unknown: a former etag would be that of another
    version. A report without facts leaves everything as it was.
    """
    changed = has_changed(known, said)
    interval = known.interval
    if changed is not None:
        interval *= SHRINK if changed else GROW
    interval = _within(bounds, interval)
    facts = said.etag, said.last_modified, said.content_hash
    if changed is False or (changed is None and not any(facts)):
        former = known.etag, known.last_modified, known.content_hash
        facts = facts[0] or former[0], facts[1] or former[1], facts[2] or former[2]
    return PageFacts(interval, *facts)


def has_changed(known: PageFacts, said: Fetched) -> bool | None:
    """Return whether the page has changed since the last report; None if that is unknown."""
    if said.changed is not None:
        return said.changed
    if said.content_hash and known.content_hash:
        return said.content_hash != known.content_hash
    if said.etag and known.etag:
        return said.etag != known.etag
    if said.last_modified and known.last_modified:
        return said.last_modified != known.last_modified
    return None


def as_replaced(schedule: Schedule, known: PageFacts | None) -> PageFacts | None:
    """Return the facts to keep about the page of a task that is replaced and runs whatever its page is.

    The interval stays, as it took many runs to find. Values for conditional requests are dropped: a forced run is to
    get the page, not the answer that it has not changed.
    """
    if schedule.recrawl is None or known is None:
        return None
    return PageFacts(_within(schedule.recrawl, known.interval))


def _within(bounds: Recrawl, seconds: float) -> float:
    return min(max(seconds, bounds.min), bounds.max)
