"""Connection to a PostgreSQL server, its address, and statements that go there in one round trip.

A *target* is server, database and schema, as the settings say.

    run      (prepare new ones) send 1, send 2, …, sync ──► results 1, 2, … or the first error
    fails    any error, or no answer in time: the connection is closed, and whether its transaction happened is unknown

1. All statements of one ``run`` are one transaction, unless they contain begin and commit.
2. Statements are prepared when they are first used, and take and return binary values.
3. Every wait has a bound: a stopped server or a pulled cable is noticed after ``timeout`` seconds. The server's own
   timeouts are not enough, because none covers the wait for a synchronous standby. So nothing uses the client
   library's own functions to run statements, which wait for ever.
4. Errors of the client library and of the server become StoreErrors here and nowhere else.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskqueue.errors import Damaged, DatabaseError, Fenced, SettingError, StoreError

SCHEMA: Final = "taskqueue"
TIMEOUT_SECONDS: Final = 10.0


class Target(NamedTuple):
    """Schema in a database.

    Attributes:
        conninfo: connection parameters, with defaults for those that the URL leaves open.
        schema: schema of the tables; a plain name, which needs no quotes.
        timeout: seconds that the server may take for an answer.
        where: address for messages, without the password.
    """

    conninfo: str
    schema: str
    timeout: float
    where: str


def reading(target: Target) -> Target:
    """Return the target for a reader, which may connect to a standby."""
    return target._replace(conninfo=make_conninfo(target.conninfo, target_session_attrs="any"))


def target_of(url: str, schema: str = SCHEMA, timeout: float = TIMEOUT_SECONDS) -> Target:
    """Make the target that the settings name.

    Raises:
        SettingError: the URL is not for PostgreSQL, or its host or port is impossible.
    """
    try:
        said = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise SettingError(f"store.url: {str(error).strip()}") from None
    except UnicodeError:
        raise SettingError("store.url: percent-encoded bytes must be UTF-8") from None
    _check_servers(str(said.get("host") or ""), str(said.get("port") or ""))
    seconds = max(2, round(timeout))  # the library's minimum
    defaults: dict[str, str | int] = {
        "application_name": "taskqueue",
        "connect_timeout": seconds,
        "target_session_attrs": "read-write",
        "keepalives_idle": seconds,
        "keepalives_interval": max(1, seconds // 3),
        "keepalives_count": 3,
        "tcp_user_timeout": int(timeout * 1000),
    }
    left_open = {name: value for name, value in defaults.items() if name not in said}
    conninfo = make_conninfo(url, **left_open, client_encoding="UTF8")  # texts of the inbox are read in it
    return Target(conninfo, schema, timeout, _where({**said}, schema))


def _check_servers(hosts: str, ports: str) -> None:
    """Refuse impossible hosts and ports, which the library reports too late and with other errors."""
    for host in hosts.split(","):
        try:
            host.encode("idna" if not host.startswith("/") else "utf-8")
        except UnicodeError:
            raise SettingError(f"store.url: {host!r} can't be the name of a host") from None
    for port in ports.split(","):
        if port and not (port.isdecimal() and port.isascii() and 0 < int(port) < 65536):
            raise SettingError(f"store.url: the port must be a number from 1 to 65535, not {port!r}")


def _where(said: dict[str, object], schema: str) -> str:
    hosts, ports = str(said.get("host") or "").split(","), str(said.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    names = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True))
    return f"postgresql://{names}/{said.get('dbname') or ''} schema {schema}"


Row = tuple[bytes | None, ...]


class Statement(NamedTuple):
    """Statement in SQL, with types of parameters as in ``$1::int8``, and their values in binary."""

    sql: str
    values: tuple[bytes, ...] = ()


_SEARCHES: Final = dict.fromkeys(
    ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"), "off"
) | {"plan_cache_mode": "force_generic_plan"}
"""Settings that make each statement use its index.

A plan made for an empty table, and kept, would otherwise read the whole table when it has grown.
"""

TURNS: Final[Mapping[str, str]] = MappingProxyType({**_SEARCHES, "synchronous_commit": "off"})
"""Settings of a connection whose commits don't wait for a disk."""

BARRIERS: Final[Mapping[str, str]] = MappingProxyType({**_SEARCHES, "synchronous_commit": "on"})
"""Settings of a connection whose commits wait until they are safe on the disk, and on a synchronous standby's."""

READS: Final[Mapping[str, str]] = MappingProxyType(_SEARCHES)
"""Settings of a connection that only reads."""

SNAPSHOT: Final[Mapping[str, str]] = MappingProxyType({**_SEARCHES, "idle_in_transaction_session_timeout": "0"})
"""Settings of a connection that reads the state at one moment, for as long as it takes."""

_SETTING: Final = "select set_config($1::text, $2::text, false)"
_WELL: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_BINARY: Final = int(pq.Format.BINARY)
_DIVISION_BY_ZERO: Final = "22012"
_UNIQUE_VIOLATION: Final = "23505"
_NO_RIGHT: Final = "42501"
_CORRUPTED: Final = ("XX001", "XX002")
_GONE: Final = ("3F000", "42P01")
"""Errors of an absent schema or table; a store's tables are made before they are used."""

_PASSING: Final = {
    "08": "the connection to the database failed",
    "25": "the database is read-only at the moment",
    "25P03": "the database has ended a transaction that was idle for too long",
    "40": "the database could not complete a transaction",
    "53": "the database is out of resources",
    "55": "the database is not ready",
    "57": "the database is shutting down or starting",
    "57014": "the database has cancelled a statement",
    "58": "the database's disk fails",
}
"""Reasons by SQLSTATE or its class, see https://www.postgresql.org/docs/current/errcodes-appendix.html."""

_LASTING: Final = (
    "does not exist", "authentication failed", "no password supplied", "pg_hba.conf", "not permitted to log in",
    "permission denied", "does not support SSL", "certificate", "invalid",
)  # fmt: skip
"""Words with which a server, or the library, refuses a connection for a reason that does not pass by itself."""

_QUOTED: Final = re.compile(r"""(["']).*?\1""")
"""Quoted names of hosts, roles and databases, which may contain such words."""

PROBE_SECONDS: Final = 1.0
"""Seconds that each host may take to accept a test connection."""

_OF_A_HOST: Final = ("host", "hostaddr", "port")
"""Parameters that list one value for each host, or one for all."""

_UNKNOWN: Final = ("0A000", "22023", "42601", "42704")
"""Errors of an engine about an unknown feature, value, syntax or name."""


class NotAllowed(StoreError):
    """Error of a role that lacks a right."""


class KeyTaken(StoreError):
    """Error of an insert whose key exists; the transaction did nothing, and must be rolled back."""


class Session:
    """Connection to a server, used by one thread at a time.

    Attributes:
        warning: warning of the server during the last run; empty if there was none.
    """

    def __init__(self, target: Target, settings: Mapping[str, str]) -> None:
        """Connect.

        Args:
            settings: settings of the session; those unknown to the engine are left out.

        Raises:
            DatabaseError: the server can't be reached, or is not ready.
            StoreError: the server refuses, for instance a password.
        """
        self.warning = ""
        self._where = target.where
        self._timeout = target.timeout
        self._names: dict[str, bytes] = {}
        self._new_names: list[str] = []
        self._prepared = 0
        self._connection = _connect(target)
        self._connection.add_notice_handler(self._note_warning)
        self._pgconn = self._connection.pgconn
        self._pgconn.nonblocking = 1
        self._pgconn.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        said = {**_limits(target.timeout), **settings}.items()
        self.offer([Statement(_SETTING, (name.encode(), value.encode())) for name, value in said])

    def run(self, verb: str, statements: Iterable[Statement]) -> list[list[Row]]:
        """Run statements in one round trip; return the rows of each.

        Args:
            statements: statements to run; each is sent at once, so that the server works while the next one is made.
            verb: action on the store, for error messages: read, write, sync.

        Raises:
            KeyTaken: a row to insert has a key that exists; the session stays usable.
            Fenced: a fence refused, by a division by zero.
            NotAllowed: the role lacks a right.
            DatabaseError: the database failed in a way that may pass.
            Damaged: the database says that its data is damaged, or tables are gone.
            StoreError: any other failure.
        """
        self.warning = ""
        try:
            with self._closing_if_it_fails(verb):
                expected = self._send(statements)
                results = self._checked(verb, self._receive(verb))
        except KeyTaken:
            # The server has skipped everything after the error, preparing statements included.
            for sql in self._new_names:
                del self._names[sql]
            raise
        return [_rows(result) for result, is_wanted in zip(results, expected, strict=True) if is_wanted]

    def offer(self, statements: Sequence[Statement]) -> None:
        """Run statements in one round trip, each in its own transaction; those unknown to the engine are left out.

        Raises:
            StoreError: another failure, as in ``run``.
        """
        with self._closing_if_it_fails("open"):
            for sql, values in statements:
                self._pgconn.send_query_params(sql.encode(), values)
                self._pgconn.pipeline_sync()
            for _ in statements:
                for result in self._receive("open"):
                    if result.status not in _WELL and _state(result) not in _UNKNOWN:
                        self._raise("open", result)

    def fileno(self) -> int:
        """Return the descriptor of the connection's socket."""
        return self._pgconn.socket

    def hear(self) -> None:
        """Read unsolicited messages of the server.

        Raises:
            DatabaseError: the connection has failed.
        """
        with self._closing_if_it_fails("read"):
            self._pgconn.consume_input()

    def has_heard(self) -> bool:
        """Whether a notification has been read since the last call, alone or with an answer.

        Raises:
            DatabaseError: the connection has failed.
        """
        heard = False
        with self._closing_if_it_fails("read"):
            while self._pgconn.notifies() is not None:
                heard = True
        return heard

    def close(self) -> None:
        """Close the connection in any state; idempotent."""
        self._connection.close()

    @contextmanager
    def _closing_if_it_fails(self, verb: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self.close()
            said = str(error).strip() or "the connection is closed"
            raise DatabaseError(f"{self._where}: could not {verb} the store: {said}", _PASSING["08"]) from None
        except KeyTaken:
            raise
        except BaseException:
            self.close()
            raise

    def _note_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self.warning = f"{notice.message_primary}; {notice.message_detail}"

    def _send(self, statements: Iterable[Statement]) -> list[bool]:
        """Send statements and a sync; return, for each result to come, whether it is a statement's."""
        pgconn, expected = self._pgconn, []
        self._new_names.clear()
        for statement in statements:
            name = self._names.get(statement.sql)
            if name is None:
                self._prepared += 1
                name = self._names[statement.sql] = b"s%d" % self._prepared
                self._new_names.append(statement.sql)
                pgconn.send_prepare(name, statement.sql.encode())
                expected.append(False)
            pgconn.send_query_prepared(name, statement.values, [_BINARY] * len(statement.values), _BINARY)
            expected.append(True)
            pgconn.flush()
        pgconn.pipeline_sync()
        return expected

    def _receive(self, verb: str) -> list[pq.abc.PGresult]:
        """Receive the results up to the sync."""
        deadline = monotonic() + self._timeout
        results: list[pq.abc.PGresult] = []
        while True:
            while self._pgconn.is_busy():
                self._wait(verb, deadline)
            result = self._pgconn.get_result()
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)

    def _checked(self, verb: str, results: list[pq.abc.PGresult]) -> list[pq.abc.PGresult]:
        """Return the results, or raise the first error; the server skips everything after an error."""
        for result in results:
            if result.status not in _WELL:
                self._raise(verb, result)
        return results

    def _wait(self, verb: str, deadline: float) -> None:
        """Send the rest, and wait for the server."""
        unsent = self._pgconn.flush()
        self._poll.modify(self._pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        if not self._poll.poll(max(0.0, deadline - monotonic()) * 1000):
            said = f"the server did not answer within {self._timeout:g} s"
            raise DatabaseError(f"{self._where}: could not {verb} the store: {said}", "the database does not answer")
        self._pgconn.consume_input()

    def _raise(self, verb: str, result: pq.abc.PGresult) -> NoReturn:
        state = _state(result)
        primary = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"no reason given").decode(
            errors="replace"
        )
        if state == _UNIQUE_VIOLATION:
            raise KeyTaken(f"{self._where}: could not {verb} the store: {primary} (SQLSTATE {state})")
        if state == _DIVISION_BY_ZERO:
            raise Fenced(f"{self._where}: another daemon uses this store")
        message = f"{self._where}: could not {verb} the store: {primary} (SQLSTATE {state})"
        if state in _CORRUPTED:
            raise Damaged(f"{message}; restore the database from a backup")
        if state in _GONE:
            raise Damaged(f"{message}, so the store is gone; restore the database from a backup")
        if state == _NO_RIGHT:
            raise NotAllowed(message)
        reason = _PASSING.get(state) or _PASSING.get(state[:2])
        raise DatabaseError(message, reason) if reason else StoreError(message)


def _rows(result: pq.abc.PGresult) -> list[Row]:
    value, columns = result.get_value, range(result.nfields)
    if len(columns) == 3:  # keys, values and checksums, of which there may be ten thousand
        return [(value(row, 0), value(row, 1), value(row, 2)) for row in range(result.ntuples)]
    return [tuple(value(row, column) for column in columns) for row in range(result.ntuples)]


def _state(result: pq.abc.PGresult) -> str:
    return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()


def _connect(target: Target) -> psycopg.Connection:
    try:
        return psycopg.Connection.connect(target.conninfo, autocommit=True)
    except psycopg.Error as error:
        raise _connect_error(target.where, error) from None


def reachable(target: Target) -> Target:
    """Narrow the target to its first host that accepts a connection within PROBE_SECONDS.

    Raises:
        DatabaseError: no host can be reached, or none is ready.
        StoreError: a host refuses, for instance a password.
    """
    said: list[str] = []
    for conninfo in _each_host(target.conninfo):
        refused = _refused_connection(conninfo)
        if not refused:
            return target._replace(conninfo=conninfo)
        said.append(refused)
    raise _connect_error(target.where, psycopg.OperationalError("\n".join(said)))


def _each_host(conninfo: str) -> Iterator[str]:
    """Yield connection parameters for each host; the library would not go past a host that hangs."""
    said = {key: str(value).split(",") for key, value in conninfo_to_dict(conninfo).items() if key in _OF_A_HOST}
    for n in range(max(map(len, said.values()), default=1)):
        yield make_conninfo(conninfo, **{key: parts[n if len(parts) > 1 else 0] for key, parts in said.items()})


def _refused_connection(conninfo: str) -> str:
    """Connect within PROBE_SECONDS, and close; return the reason of a failure, or an empty text."""
    deadline = monotonic() + PROBE_SECONDS
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    try:
        while pgconn.status != pq.ConnStatus.BAD:
            state = pgconn.connect_poll()
            if state == pq.PollingStatus.OK:
                return ""
            if state == pq.PollingStatus.FAILED:
                break
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT)
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                return f"the server did not answer within {PROBE_SECONDS:g} s"
        return pgconn.error_message.decode(errors="replace").strip() or "no reason given"
    finally:
        pgconn.finish()


def _limits(timeout: float) -> dict[str, str]:
    """Make settings that limit how long a stopped daemon's locks and transactions stay in the server."""
    milliseconds = str(int(timeout * 1000))
    return {"idle_in_transaction_session_timeout": milliseconds, "lock_timeout": milliseconds}


def _connect_error(where: str, error: psycopg.Error) -> StoreError:
    """Make the error of a failed connection from its text: the library has no SQLSTATE at this point."""
    said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    message = f"{where}: can't connect: {said}"
    of_its_own = _QUOTED.sub("", said)
    if not isinstance(error, psycopg.OperationalError) or any(words in of_its_own for words in _LASTING):
        return StoreError(f"{message}; correct store.url, or the server's roles and databases")
    return DatabaseError(message, "the database can't be reached")
