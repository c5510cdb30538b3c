"""Bugs in the client, which the simulation does not know."""

from __future__ import annotations

from typing import Final

from taskqueue.client.connection.session import ClientSession
from taskqueue.client.fetcher.buffered_task import Consumer
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.robots import copies, rules, sitemap_walk
from taskqueue.client.robots.copies import Copies, Copy
from taskqueue.client.robots.sitemap_file import _Entries
from taskqueue.client.robots.slot_delays import SlotDelay, SlotDelays
from taskqueue.client.tasks.task import Task
from tests.mutants.mutant import Mutant, Replace

DRAINING: Final = "unit/client/fetcher/test_draining.py"
ROBOTS_TXT: Final = "unit/client/robots/test_robots_txt.py"
SITEMAPS: Final = "unit/client/robots/test_sitemaps.py"
SLOT_DELAYS: Final = "unit/client/robots/test_slot_delays.py"


def _drained_and_keeps_what_waits(replace: Replace) -> None:
    replace(FetchBuffer, "drain", FetchBuffer._wake)


def _drained_and_takes_what_comes(replace: Replace) -> None:
    def wanted(self: FetchBuffer, task: Task) -> Consumer | None:
        return next((consumer for consumer in self._consumers if consumer.wants(task)), None)

    replace(FetchBuffer, "_wanted", wanted)


def _drained_while_a_handler_runs(replace: Replace) -> None:
    replace(ClientSession, "is_idle", property(lambda self: not self.held))


def _busy_sites_allow_everything(replace: Replace) -> None:
    replace(copies, "TOO_MANY_REQUESTS", 0)


def _copies_for_ever(replace: Replace) -> None:
    def get(self: Copies, origin: str, now: float) -> Copy | None:
        return self._kept.get(origin)

    replace(Copies, "get", get)


def _half_a_line(replace: Replace) -> None:
    replace(rules, "_whole_lines", lambda body: body[: rules.MAX_BYTES])


def _document_types(replace: Replace) -> None:
    replace(_Entries, "doctype", lambda self, name, *ids: None)


def _indexes_lead_anywhere(replace: Replace) -> None:
    replace(sitemap_walk, "belongs", lambda url, to, same: True)


def _slots_told_each_time(replace: Replace) -> None:
    def news(self: SlotDelays, slot: str, origin: str, delay: float | None, now: float) -> SlotDelay | None:
        return None if delay is None else SlotDelay(slot, delay)

    replace(SlotDelays, "news", news)


MUTANTS: Final = (
    Mutant(
        "a drained client keeps what waits",
        _drained_and_keeps_what_waits,
        (f"{DRAINING}::test_a_loop_that_waits_ends_when_it_is_drained_and_what_it_has_not_yielded_goes_back",),
    ),
    Mutant(
        "a drained client takes what comes",
        _drained_and_takes_what_comes,
        (f"{DRAINING}::test_a_task_that_comes_after_it_was_told_goes_back",),
    ),
    Mutant(
        "a drained worker ends while a handler runs",
        _drained_while_a_handler_runs,
        (f"{DRAINING}::test_a_drained_worker_waits_for_a_handler_whose_lease_has_ended",),
    ),
    Mutant(
        "a site that has too much to do allows everything",
        _busy_sites_allow_everything,
        (f"{ROBOTS_TXT}::test_a_robots_txt_that_cannot_be_had_allows_nothing",),
    ),
    Mutant(
        "a robots.txt is good for ever",
        _copies_for_ever,
        (
            f"{ROBOTS_TXT}::test_a_robots_txt_is_fetched_once_a_day",
            f"{ROBOTS_TXT}::test_one_that_cannot_be_had_is_asked_for_at_longer_and_longer_intervals",
        ),
    ),
    Mutant(
        "half a line of a long robots.txt counts",
        _half_a_line,
        (f"{ROBOTS_TXT}::test_half_a_megabyte_is_read_and_no_half_line",),
    ),
    Mutant(
        "a sitemap may define entities",
        _document_types,
        (f"{SITEMAPS}::test_a_sitemap_that_is_made_to_hurt_gives_no_tasks_and_leads_nowhere",),
    ),
    Mutant(
        "a sitemap index leads anywhere",
        _indexes_lead_anywhere,
        (
            f"{SITEMAPS}::test_only_pages_of_the_site_count",
            f"{SITEMAPS}::test_robots_txt_may_name_sitemaps_elsewhere_and_an_index_only_those_beside_it_or_of_the_site",
        ),
    ),
    Mutant(
        "a slot is told its delay with each page",
        _slots_told_each_time,
        (
            f"{SLOT_DELAYS}::test_it_is_told_once_for_each_change",
            f"{SLOT_DELAYS}::test_what_a_daemon_did_not_hear_is_told_again_after_a_minute",
        ),
    ),
)
