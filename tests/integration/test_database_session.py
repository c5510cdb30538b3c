"""Database sessions: a missing feature of an engine is harmless, and the server's errors say whether to try again."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskqueue.errors import DatabaseError, StoreError
from taskqueue.store.postgres.session import READS, Session, Statement, Target, reachable, target_of
from tests.postgres import new_target


def test_a_session_goes_on_without_settings_and_statements_that_the_engine_does_not_know() -> None:
    with closing(Session(new_target(), {"no_such_setting": "off", **READS})) as session:
        session.offer([Statement("hear everything"), Statement("select set_config('no_such', 'on', false)")])

        assert session.run("read", [Statement("select 'it goes on'::text")]) == [[(b"it goes on",)]]
        assert session.run("read", [Statement("show enable_seqscan")]) == [[(b"off",)]]


def test_what_an_engine_does_not_know_leaves_out_nothing_else() -> None:
    with closing(Session(new_target(), {})) as session:
        session.offer([Statement("listen to me"), Statement("select set_config('lock_timeout', '1234', false)")])

        assert session.run("read", [Statement("show lock_timeout")]) == [[(b"1234ms",)]]


@pytest.mark.parametrize("name", ["certificate", "invalid", "does not exist"])
def test_a_server_that_is_not_there_may_come_whatever_its_database_is_called(name: str) -> None:
    target = target_of(f"postgresql://127.0.0.1:1/{name.replace(' ', '%20')}?host=/{name.replace(' ', '%20')}")

    with pytest.raises(DatabaseError, match="can't connect"):
        Session(target, {})


def test_an_option_that_has_no_such_value_will_never_have_it() -> None:
    with pytest.raises(StoreError, match=r"connect_timeout.*correct store\.url") as raised:
        Session(target_of("postgresql://127.0.0.1:1/x?connect_timeout=soon"), {})

    assert not isinstance(raised.value, DatabaseError)


def beside_a_mute_host(target: Target, mute: int) -> Target:
    """Return a target whose first host listens there and never answers."""
    said = conninfo_to_dict(target.conninfo)
    hosts, ports = f"127.0.0.1,{said['host']}", f"{mute},{said.get('port') or 5432}"
    return target._replace(conninfo=make_conninfo(target.conninfo, host=hosts, port=ports))


def test_a_probe_passes_over_a_host_that_hangs_and_what_follows_goes_to_the_host_that_answers() -> None:
    target = new_target()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        reached = reachable(beside_a_mute_host(target, mute.getsockname()[1]))

        with closing(Session(reached, READS)) as session:
            assert session.run("read", [Statement("select 'it answers'::text")]) == [[(b"it answers",)]]
    assert conninfo_to_dict(reached.conninfo)["host"] == conninfo_to_dict(target.conninfo)["host"]


@pytest.mark.parametrize(
    ("url", "is_passing", "said"),
    [
        ("postgresql:///x?host=/nowhere,/elsewhere", True, "/nowhere.*; .*/elsewhere"),
        ("postgresql://127.0.0.1:{mute}/x", True, "did not answer within 1 s"),
        ("postgresql:///x?host=/nowhere&connect_timeout=soon&sslmode=no", False, "invalid sslmode"),
    ],
)
def test_a_probe_says_what_each_host_said_and_whether_it_may_pass(url: str, is_passing: bool, said: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(StoreError, match=f"can't connect: .*{said}") as it,
    ):
        reachable(target_of(url.format(mute=mute.getsockname()[1])))

    assert isinstance(it.value, DatabaseError) == is_passing


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("57P01", "the database is shutting down or starting"),
        ("57014", "the database has cancelled a statement"),
        ("25006", "the database is read-only at the moment"),
        ("25P03", "the database has ended a transaction that was idle for too long"),
    ],
)
def test_clients_are_told_why_the_database_can_not_be_used_at_the_moment(state: str, reason: str) -> None:
    session = Session(new_target(), {})

    with pytest.raises(DatabaseError) as raised:
        session.run("write", [Statement(f"do $$ begin raise sqlstate '{state}'; end $$")])

    assert raised.value.reason == reason


@pytest.mark.parametrize("state", ["40001", "40P01", "40003"])
def test_after_a_serialisation_failure_nobody_knows_what_was_written_so_the_session_is_over(state: str) -> None:
    session = Session(new_target(), {})

    with pytest.raises(DatabaseError, match=f"could not write the store: .*{state}"):
        session.run("write", [Statement(f"do $$ begin raise sqlstate '{state}'; end $$")])

    with pytest.raises(DatabaseError, match="the connection is closed"):
        session.run("read", [Statement("select 1")])
