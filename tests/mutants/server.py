"""Bugs in the shell: threads, waits, the order of sends, clocks, the socket."""

from __future__ import annotations

import time
from contextlib import suppress
from math import floor
from typing import Any, Final

import zmq

from taskqueue.errors import StoreError
from taskqueue.protocol.fields import Peer
from taskqueue.server import clock, limits, loop, store_opener
from taskqueue.server.clock import Clock
from taskqueue.server.engine import Engine
from taskqueue.server.loop import Loop, Outbox, Poller
from taskqueue.server.network import connection_guard, connections, kernel, router
from taskqueue.server.network.connection_guard import ConnectionGuard
from taskqueue.server.network.connections import Connections
from taskqueue.server.network.router import Router
from taskqueue.server.syncer import Syncer
from tests.mutants.mutant import Mutant, Replace

# ---------------------------------------------------------------------------------------- syncer


def _sync_covers_what_came_later(replace: Replace) -> None:
    def progress(self: Syncer, ticket: int) -> None:
        original(self, self.written)

    original = replace(Syncer, "_progress", progress)


def _failed_sync_repeated(replace: Replace) -> None:
    def init(self: Syncer, sync: Any, *args: Any) -> None:
        def again() -> None:
            try:
                sync()
            except StoreError:
                sync()

        original(self, again, *args)

    original = replace(Syncer, "__init__", init)


def _finish_does_not_wait(replace: Replace) -> None:
    replace(Syncer, "finish", lambda self: None)


def _interval_is_never_synced(replace: Replace) -> None:
    def sync_soon(self: Syncer) -> None:
        if self.durability != "interval":
            original(self)

    original = replace(Syncer, "sync_soon", sync_soon)


def _sync_begins_before_the_selects_have_left(replace: Replace) -> None:
    def wrote(self: Syncer) -> None:
        original(self)
        self.sync_soon()

    original = replace(Syncer, "wrote", wrote)


# ---------------------------------------------------------------------------------------- outbox


def _covered_by_the_epoch_before(replace: Replace) -> None:
    def clear(self: Outbox) -> None:
        covered = self.released
        original(self)
        self.released = covered

    original = replace(Outbox, "clear", clear)


def _cleared_bytes_still_counted(replace: Replace) -> None:
    def clear(self: Outbox) -> None:
        bytes_ = self._bytes
        original(self)
        self._bytes = bytes_

    original = replace(Outbox, "clear", clear)


def _select_waits_behind_replies(replace: Replace) -> None:
    def put(self: Outbox, peer: Peer, payload: bytes, ticket: int | None, *select: Any) -> bool:
        if ticket is None and self._batches:
            ticket = self._batches[-1].ticket
        return bool(original(self, peer, payload, ticket, *select))

    original = replace(Outbox, "put", put)


def _last_said_first(replace: Replace) -> None:
    def leave(self: Outbox, batch: Any) -> Any:
        batch.messages.reverse()
        return original(self, batch)

    original = replace(Outbox, "_send_batch", leave)


# ---------------------------------------------------------------------------------------- loop


def _forgets_a_reload_after_a_failure(replace: Replace) -> None:
    def start(self: Loop) -> None:
        first, begin = self._config, self._begin
        self._begin = lambda config: begin(first)
        original(self)

    original = replace(Loop, "start", start)


def _waiting_replies_survive_a_failure(replace: Replace) -> None:
    replace(Outbox, "clear", lambda self: None)


def _undelivered_forgotten(replace: Replace) -> None:
    def turn(self: Loop, *args: Any) -> None:
        self._undelivered = []
        original(self, *args)

    original = replace(Loop, "_turn", turn)


def _asks_no_client_for_a_hello(replace: Replace) -> None:
    replace(Router, "peers", lambda self: [])


def _asks_the_first_ones_only(replace: Replace) -> None:
    def ask(self: Loop) -> None:
        original(self)
        self._unasked = []

    original = replace(Loop, "_ask_for_hellos", ask)


def _loads_without_a_probe(replace: Replace) -> None:
    def load(self: Loop, passing: Any, failed_at: float) -> Any:
        self._probe = lambda: None
        return original(self, passing, failed_at)

    original = replace(Loop, "_try_to_load", load)


def _stop_without_a_mark(replace: Replace) -> None:
    replace(Engine, "stop", lambda self: None)


def _last_words_not_kept(replace: Replace) -> None:
    replace(Engine, "finish", lambda self: self.syncer.finish())


def _hears_while_full(replace: Replace) -> None:
    replace(Outbox, "full", property(lambda self: False))


def _pauses_do_not_grow(replace: Replace) -> None:
    replace(store_opener, "LATER_SECONDS", store_opener.FIRST_SECONDS)


# ---------------------------------------------------------------------------------------- clock, poller, disk


def _boot_time_stands_still_in_suspend(replace: Replace) -> None:
    replace(clock, "boot_seconds", lambda: time.clock_gettime(time.CLOCK_MONOTONIC))


def _follows_each_step_back(replace: Replace) -> None:
    replace(clock, "SMALL_STEP_SECONDS", -1.0)


def _never_follows(replace: Replace) -> None:
    replace(clock, "SMALL_STEP_SECONDS", 1e9)


def _uptime_by_the_wall_clock(replace: Replace) -> None:

    def init(self: Clock) -> None:
        original(self)
        self.started_at = time.time()

    original = replace(Clock, "__init__", init)
    replace(Clock, "uptime", lambda self: time.time() - self.started_at)


def _wakes_up_too_early(replace: Replace) -> None:
    replace(loop, "ceil", floor)


def _sleeps_longer_than_an_int(replace: Replace) -> None:
    replace(loop, "MAX_SLEEP_SECONDS", 1e12)


def _misses_progress_as_it_falls_asleep(replace: Replace) -> None:
    def sleep(self: Poller, seconds: float, ignore_socket: bool = False) -> None:
        if self._syncer is not None:
            self._syncer.sleeping = True
        self._poll(ignore_socket, int(1000 * min(seconds, loop.MAX_SLEEP_SECONDS)) + 1)
        if self._syncer is not None:
            self._syncer.sleeping = False

    replace(Poller, "sleep", sleep)


def _woken_for_ever(replace: Replace) -> None:
    replace(Syncer, "clear_wakeup", lambda self: None)


def _full_disk_not_looked_at_again(replace: Replace) -> None:
    replace(limits, "FULL_LOOK_SECONDS", 1e9)


def _flaps_around_its_limit(replace: Replace) -> None:
    replace(limits, "SLACK", 1.0)


# ---------------------------------------------------------------------------------------- router


def _routing_ids_are_taken_over(replace: Replace) -> None:
    def configure(self: Router, *args: Any) -> None:
        original(self, *args)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)

    original = replace(Router, "_configure", configure)


def _old_versions_are_greeted(replace: Replace) -> None:
    def setsockopt(self: zmq.Socket[bytes], option: int, value: Any) -> None:
        if option != zmq.ZAP_DOMAIN:
            original(self, option, value)

    original = replace(zmq.Socket, "setsockopt", setsockopt)


def _messages_without_descriptor_raise(replace: Replace) -> None:
    def received_from(self: Connections, peer: bytes, message: zmq.Frame) -> Any:
        message.get(zmq.SRCFD)
        return original(self, peer, message)

    original = replace(Connections, "received_from", received_from)
    replace(Router, "give_up", _raise_again)


def _raise_again(self: Router, error: Exception) -> None:
    raise error


def _failed_receiving_ends_the_loop(replace: Replace) -> None:
    replace(Router, "give_up", _raise_again)


def _rest_of_a_failed_message_is_heard(replace: Replace) -> None:
    def give_up(self: Router, error: Exception) -> None:
        original(self, error)
        self._unfinished = None

    original = replace(Router, "give_up", give_up)


def _routing_ids_begin_as_ever(replace: Replace) -> None:
    replace(router, "_seed_routing_ids", lambda: None)


def _any_routing_id_is_heard(replace: Replace) -> None:
    replace(connections, "_is_fair", lambda peer: True)


def _descriptor_inherits_its_former_connection(replace: Replace) -> None:
    def register(self: Connections, peer: bytes, fd: int, message: zmq.Frame) -> Any:
        if (former := self._by_fd.get(fd)) is not None:
            former.cookie = kernel.cookie(fd)
        return original(self, peer, fd, message)

    original = replace(Connections, "_register", register)


def _late_end_ends_the_next_connection(replace: Replace) -> None:
    def closed(self: Connections, fd: int, *, is_reused: bool = False) -> Any:
        if (connection := self._by_fd.get(fd)) is not None:
            connection.is_announced = True
        return original(self, fd, is_reused=is_reused)

    original = replace(Connections, "closed", closed)


def _silent_for_ever(replace: Replace) -> None:
    replace(connection_guard.SilentConnections, "take_due", lambda self, until: [])


def _unheard_taken_for_silent(replace: Replace) -> None:
    replace(Connections, "heard_until", lambda self, now: now)


def _newest_gives_way(replace: Replace) -> None:
    def take(self: Any, among: Any) -> Any:
        connection = next(reversed(among))
        self.forget(connection)
        return connection

    replace(connection_guard.SilentConnections, "_take", take)


def _guard_ends_with_the_first_trouble(replace: Replace) -> None:
    def run(self: Any) -> None:
        with suppress(Exception):
            self._guard()

    replace(ConnectionGuard, "_run", run)


def _no_bound_on_messages(replace: Replace) -> None:
    def configure(self: Router, *args: Any) -> None:
        original(self, *args)
        self.socket.setsockopt(zmq.MAXMSGSIZE, -1)

    original = replace(Router, "_configure", configure)


def _gone_peers_not_noticed(replace: Replace) -> None:
    def configure(self: Router, *args: Any) -> None:
        original(self, *args)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 0)

    original = replace(Router, "_configure", configure)


def _all_parts_dropped_at_once(replace: Replace) -> None:
    replace(router, "PARTS_AT_ONCE", 1 << 40)


def _unread_without_end(replace: Replace) -> None:
    replace(Connections, "open_to", lambda self, peer: True)


def _nobody_cut_for_what_is_unread(replace: Replace) -> None:
    replace(Connections, "_cut_slowest", lambda self: None)


def _gone_peers_never_forgotten(replace: Replace) -> None:
    replace(Connections, "forget_closed", lambda self: None)


def _watcher_never_cuts(replace: Replace) -> None:
    replace(ConnectionGuard, "_cut_largest", lambda self, taken: False)


def _another_connection_cut(replace: Replace) -> None:
    def cut(fd: int, expected: bytes) -> bool:
        return bool(original(fd, kernel.cookie(fd)))

    original = replace(kernel, "cut", cut)


def _any_settings_fit(replace: Replace) -> None:
    replace(limits, "SETTINGS_PART", 1e9)


LOOP: Final = "unit/server/test_loop.py"

MUTANTS: Final = (
    Mutant(
        "a sync covers what was written while it was under way",
        _sync_covers_what_came_later,
        ("unit/server/test_syncer.py::test_what_is_written_during_a_sync_is_covered_by_the_next_one_all_together",),
    ),
    Mutant(
        "a failed sync is repeated",
        _failed_sync_repeated,
        ("unit/server/test_syncer.py::test_a_failed_sync_is_raised_where_the_loop_looks",),
    ),
    Mutant(
        "a stop does not wait for the last sync",
        _finish_does_not_wait,
        ("unit/server/test_loop.py::test_a_stop_waits_for_the_disk_and_sends_what_waited_for_it",),
    ),
    Mutant(
        "with interval nothing is ever synced",
        _interval_is_never_synced,
        (
            "unit/server/test_syncer.py::test_with_interval_a_write_is_synced_without_further_ado_and_nobody_is_woken_up",
        ),
    ),
    Mutant(
        "after a failure replies are covered by the syncs of before",
        _covered_by_the_epoch_before,
        ("unit/server/test_outbox.py::test_after_it_was_cleared_the_syncs_of_before_cover_nothing",),
    ),
    Mutant(
        "what was dropped still takes room in the outbox",
        _cleared_bytes_still_counted,
        ("unit/server/test_outbox.py::test_what_was_cleared_takes_no_room",),
    ),
    Mutant(
        "a select waits behind replies",
        _select_waits_behind_replies,
        ("unit/server/test_outbox.py::test_what_need_not_wait_overtakes_what_waits_and_replies_keep_their_order",),
    ),
    Mutant(
        "of the replies of a turn the last leaves first",
        _last_said_first,
        ("unit/server/test_outbox.py::test_replies_of_one_write_leave_in_the_order_in_which_they_were_said",),
    ),
    Mutant(
        "a failure takes a reloaded config back",
        _forgets_a_reload_after_a_failure,
        ("unit/server/test_loop.py::test_a_config_that_was_read_again_is_in_force_after_the_store_has_failed",),
    ),
    Mutant(
        "the sync begins before the selects have left",
        _sync_begins_before_the_selects_have_left,
        ("unit/server/test_loop.py::test_a_select_leaves_before_the_sync_of_its_turn_begins",),
    ),
    Mutant(
        "what waited for a failed sync is said all the same",
        _waiting_replies_survive_a_failure,
        ("unit/server/test_loop.py::test_after_a_failed_sync_answers_wait_for_syncs_that_began_after_it",),
    ),
    Mutant(
        "what could not be sent is forgotten",
        _undelivered_forgotten,
        (
            "integration/test_daemon.py::test_what_could_not_be_sent_to_a_peer_that_has_gone_does_not_wait_for_its_silence",
        ),
    ),
    Mutant(
        "clients are not asked for a hello after the store was read again",
        _asks_no_client_for_a_hello,
        (
            f"{LOOP}::test_each_connection_that_has_said_something_is_told_when_the_store_was_read_again_so_that_it_repeats",
            f"{LOOP}::test_a_client_that_was_told_unavailable_is_told_when_the_store_was_read_again",
            "integration/test_database.py::test_a_client_that_waits_is_answered_though_the_daemon_has_lost_its_connections_meanwhile",
        ),
    ),
    Mutant(
        "only the clients of one turn are asked for a hello after the store was read again",
        _asks_the_first_ones_only,
        (
            f"{LOOP}::test_each_connection_that_has_said_something_is_told_when_the_store_was_read_again_so_that_it_repeats",
        ),
    ),
    Mutant(
        "a store is loaded without a probe",
        _loads_without_a_probe,
        (f"{LOOP}::test_a_store_that_a_probe_finds_unusable_is_not_opened_until_another_probe_finds_it_well",),
    ),
    Mutant(
        "an orderly stop is not marked",
        _stop_without_a_mark,
        ("unit/server/test_loop.py::test_a_stop_is_marked_as_a_clean_one",),
    ),
    Mutant(
        "what is kept at the end is not kept",
        _last_words_not_kept,
        ("integration/test_daemon.py::test_after_a_clean_stop_the_windows_are_as_they_were",),
    ),
    Mutant(
        "requests are taken while too much waits for the disk",
        _hears_while_full,
        ("unit/server/test_loop.py::test_while_too_much_waits_for_the_disk_nothing_is_heard",),
    ),
    Mutant(
        "a store that stays unwell is tried as often after a minute",
        _pauses_do_not_grow,
        (
            "unit/server/test_backoff.py::test_the_first_attempt_is_at_once_then_each_quarter_of_a_second_and_after_a_minute_each_second",
        ),
    ),
    Mutant(
        "boot time does not count suspends",
        _boot_time_stands_still_in_suspend,
        ("unit/server/test_clock.py::test_boot_time_counts_what_the_machine_was_suspended",),
    ),
    Mutant(
        "wall time follows each step back",
        _follows_each_step_back,
        ("unit/server/test_clock.py::test_after_a_small_step_back_wall_time_waits_until_the_clock_has_caught_up",),
    ),
    Mutant(
        "wall time follows no step back",
        _never_follows,
        ("unit/server/test_clock.py::test_a_large_step_back_is_followed_and_reported",),
    ),
    Mutant(
        "uptime goes by the wall clock",
        _uptime_by_the_wall_clock,
        ("unit/server/test_clock.py::test_a_step_of_the_wall_clock_does_not_move_the_uptime",),
    ),
    Mutant(
        "the loop wakes up before something is due",
        _wakes_up_too_early,
        ("unit/server/test_poller.py::test_it_never_wakes_up_before_the_time",),
    ),
    Mutant(
        "the loop wants to sleep longer than an int",
        _sleeps_longer_than_an_int,
        ("unit/server/test_poller.py::test_it_may_be_told_to_sleep_for_ever",),
    ),
    Mutant(
        "progress is missed by a loop that falls asleep",
        _misses_progress_as_it_falls_asleep,
        ("unit/server/test_poller.py::test_what_was_synced_before_it_falls_asleep_keeps_it_awake",),
    ),
    Mutant(
        "a loop that was woken up does not come to rest",
        _woken_for_ever,
        ("unit/server/test_syncer.py::test_a_sleeping_loop_is_woken_up_until_it_says_that_it_is_awake",),
    ),
    Mutant(
        "a full disk is not looked at again",
        _full_disk_not_looked_at_again,
        ("unit/server/test_limits.py::test_a_disk_that_is_nearly_full_is_looked_at_by_itself_until_it_has_room",),
    ),
    Mutant(
        "a disk has room and has none in turns",
        _flaps_around_its_limit,
        ("unit/server/test_limits.py::test_after_it_was_full_a_tenth_more_must_be_free",),
    ),
    Mutant(
        "who claims a routing id takes it over",
        _routing_ids_are_taken_over,
        (
            "unit/server/network/test_router.py::test_who_claims_the_routing_id_of_another_is_not_heard_and_gets_nothing_of_the_others",
            "integration/test_daemon.py::test_who_claims_a_fetchers_routing_id_takes_nothing_of_it_and_a_fetcher_that_reconnects_goes_on",
        ),
    ),
    Mutant(
        "older versions of ZMTP are greeted",
        _old_versions_are_greeted,
        ("unit/server/network/test_router.py::test_who_speaks_another_version_or_protocol_is_let_go_at_its_greeting",),
    ),
    Mutant(
        "a message without a descriptor raises",
        _messages_without_descriptor_raise,
        ("unit/server/network/test_router.py::test_what_an_older_version_sends_is_dropped_where_libzmq_delivers_it",),
    ),
    Mutant(
        "what receiving raises ends the loop",
        _failed_receiving_ends_the_loop,
        (
            "unit/server/network/test_receiver.py::test_a_message_that_can_not_be_received_costs_its_connection_and_nobody_else_anything",
        ),
    ),
    Mutant(
        "the rest of a message that failed is heard",
        _rest_of_a_failed_message_is_heard,
        (
            "unit/server/network/test_receiver.py::test_a_message_that_can_not_be_received_costs_its_connection_and_nobody_else_anything",
        ),
    ),
    Mutant(
        "routing ids begin with the same one at each start",
        _routing_ids_begin_as_ever,
        (
            "unit/server/network/test_router.py::test_which_routing_ids_a_socket_gives_follows_from_nothing_that_was_before",
        ),
    ),
    Mutant(
        "any routing id is heard",
        _any_routing_id_is_heard,
        ("unit/server/network/test_router.py::test_a_routing_id_that_no_library_would_send_is_not_heard",),
    ),
    Mutant(
        "a reused descriptor inherits the former connection",
        _descriptor_inherits_its_former_connection,
        (
            "unit/server/network/test_connections.py::test_a_connection_with_the_descriptor_of_one_that_was_cut_is_served",
        ),
    ),
    Mutant(
        "a late end of a connection ends the next one",
        _late_end_ends_the_next_connection,
        (
            "unit/server/network/test_connections.py::test_the_end_of_a_connection_that_is_heard_of_late_does_not_end_the_next_one_with_its_descriptor",
        ),
    ),
    Mutant(
        "a silent connection stays for ever",
        _silent_for_ever,
        (
            "unit/server/network/test_connection_guard.py::test_a_newcomer_is_heard_beside_as_many_silent_connections_as_there_may_be",
        ),
    ),
    Mutant(
        "what the loop could not hear counts as silent",
        _unheard_taken_for_silent,
        (
            "unit/server/network/test_connection_guard.py::test_a_connection_that_the_loop_has_had_no_time_to_hear_is_not_taken_for_a_silent_one",
        ),
    ),
    Mutant(
        "the newest silent connection gives way",
        _newest_gives_way,
        (
            "unit/server/network/test_connection_guard.py::test_of_too_many_of_one_address_the_oldest_give_way_soon_and_those_of_others_stay",
        ),
    ),
    Mutant(
        "the guard of connections ends with the first trouble",
        _guard_ends_with_the_first_trouble,
        (
            "unit/server/network/test_connection_guard.py::test_whatever_goes_wrong_with_one_connection_the_next_ones_are_guarded",
        ),
    ),
    Mutant(
        "a message may have any length",
        _no_bound_on_messages,
        ("integration/test_daemon.py::test_an_absurdly_long_message_costs_its_sender_the_connection_and_nobody_else",),
    ),
    Mutant(
        "a peer that has gone is not noticed",
        _gone_peers_not_noticed,
        ("integration/test_daemon.py::test_what_is_meant_for_a_peer_that_has_gone_is_counted_and_offered_again",),
    ),
    Mutant(
        "the parts of a message are dropped all at once",
        _all_parts_dropped_at_once,
        ("unit/server/network/test_router.py::test_the_parts_of_an_endless_message_are_dropped_over_many_turns",),
    ),
    Mutant(
        "what a peer does not read has no bound",
        _unread_without_end,
        ("unit/server/network/test_router.py::test_one_message_may_always_wait_however_long",),
    ),
    Mutant(
        "no peer is cut for the sum of what is unread",
        _nobody_cut_for_what_is_unread,
        (
            "unit/server/network/test_router.py::test_when_too_much_is_unread_altogether_those_with_most_are_cut_and_who_has_read_is_not",
        ),
    ),
    Mutant(
        "what is known of peers is never forgotten",
        _gone_peers_never_forgotten,
        ("unit/server/network/test_router.py::test_nothing_is_kept_of_peers_that_have_gone",),
    ),
    Mutant(
        "the watcher never cuts",
        _watcher_never_cuts,
        (
            "unit/server/network/test_router.py::test_a_connection_that_sends_without_end_is_cut_when_the_memory_gets_full",
        ),
    ),
    Mutant(
        "the new owner of the descriptor is cut",
        _another_connection_cut,
        (
            "unit/server/network/test_kernel.py::test_a_connection_that_has_ended_is_not_cut_by_the_descriptor_that_another_one_has_now",
        ),
    ),
    Mutant(
        "settings may take more memory than there is",
        _any_settings_fit,
        ("unit/server/test_limits.py::test_what_does_not_fit_is_refused_with_what_would",),
    ),
)
