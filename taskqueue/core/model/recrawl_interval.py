"""How long until a page is crawled again: sooner as it changes, later as it does not. Pure functions.

    a success ──► has the page changed?    yes: interval × 0.8    no: × 1.4    nobody can tell: as it was
                    1. what the report says of it
                    2. else whether the first of these differs that both this report and the last one have:
                       content_hash, etag, last_modified

The rates are those that Apache Nutch comes with (``AdaptiveFetchSchedule``: db.fetch.schedule.adaptive.dec_rate and
inc_rate in its nutch-default.xml). With them an interval comes to rest where the page has changed at 60 of 100 visits.
That is 0.9 times the mean time between its changes, if these come as in a Poisson process, as those of pages do (Cho
and Garcia-Molina, "Effective page refresh policies for web crawlers", ACM Transactions on Database Systems, 2003).

The interval stays between the bounds that the schedule gives. A task waits for it ± 10 % (``jitter``), which is not
kept: pages that were pushed at one time would all come back at one time, for ever.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from taskqueue.protocol.fields import AgeSeconds, Validator
from taskqueue.protocol.values import Fetched, Recrawl, Schedule

SHRINK: Final = 0.8
GROW: Final = 1.4


class PageFacts(Struct, frozen=True, array_like=True, gc=False):
    """What is known of the page of a task: kept with its spec, and sent with it when it is handed out.

    Attributes:
        interval: seconds from one run to the next.
        etag, last_modified, content_hash: as the last report said; empty: unknown.
    """

    interval: AgeSeconds
    etag: Validator = ""
    last_modified: Validator = ""
    content_hash: Validator = ""


NOTHING_SAID: Final = Fetched()


def facts_bytes(page: PageFacts) -> int:
    """Approximate bytes of what is known of a page."""
    return len(page.etag) + len(page.last_modified) + len(page.content_hash)


def good_for(schedule: Schedule, page: PageFacts | None = None) -> float | None:
    """Seconds for which a success is good, by the schedule and what is known of the page; None: for ever."""
    bounds = schedule.recrawl
    if bounds is None:
        return schedule.age
    if page is not None:
        return page.interval
    return bounds.min if schedule.age is None else _within(bounds, schedule.age)


def recurs_after(schedule: Schedule, page: PageFacts | None = None) -> float | None:
    """Seconds from a success to the task's next run, before jitter; None: it does not run again by itself."""
    return good_for(schedule, page) if schedule.auto_recrawl or schedule.recrawl is not None else None


def after_success(known: PageFacts, bounds: Recrawl, said: Fetched) -> PageFacts:
    """What is known after a success with this report.

    Unless the page is the same, what the report does not say of it is unknown: a former etag would be that of another
    page. A report that says nothing of it leaves everything as it was.
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
    """Whether the page is another one than at the last report; None: nobody can tell."""
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
    """What is still known of a page whose task is described anew and is to be run whatever its page says.

    Its interval was found out slowly, and the page is the same. What a conditional request needs is forgotten: whoever
    forces a run wants the page, not to be told that it has not changed.
    """
    if schedule.recrawl is None or known is None:
        return None
    return PageFacts(_within(schedule.recrawl, known.interval))


def _within(bounds: Recrawl, seconds: float) -> float:
    return min(max(seconds, bounds.min), bounds.max)
