"""Where a store in PostgreSQL lies: server, database and schema, as the settings say it."""

from __future__ import annotations

from typing import Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskqueue.errors import SettingError

SCHEMA: Final = "taskqueue"
TIMEOUT_SECONDS: Final = 10.0


class Target(NamedTuple):
    """A schema in a database.

    Attributes:
        conninfo: what to connect by, with what the url leaves open.
        schema: has the tables; a plain name, which needs no quotes.
        timeout: seconds that the server may take for an answer.
        where: for messages, without the password.
    """

    conninfo: str
    schema: str
    timeout: float
    where: str


def reading(target: Target) -> Target:
    """The same for somebody who only reads: a standby will do."""
    return target._replace(conninfo=make_conninfo(target.conninfo, target_session_attrs="any"))


def target_of(url: str, schema: str = SCHEMA, timeout: float = TIMEOUT_SECONDS) -> Target:
    """The target that the settings name.

    Raises:
        SettingError: the url is none of PostgreSQL's, or names what can't be a server.
    """
    try:
        said = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise SettingError(f"store.url: {str(error).strip()}") from None
    except UnicodeError:
        raise SettingError("store.url: what is percent-encoded must be UTF-8") from None
    _check_servers(str(said.get("host") or ""), str(said.get("port") or ""))
    seconds = max(2, round(timeout))  # the library's least
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
    """The library says of these too late what is wrong, and not as an error of its own."""
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
