"""Where a store in PostgreSQL lies: server, database and schema, as the settings say it."""

from __future__ import annotations

from typing import Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskqueue.errors import ConfigError

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
        ConfigError: the url is none of PostgreSQL's.
    """
    try:
        said = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise ConfigError(f"store.url: {str(error).strip()}") from None
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
    conninfo = make_conninfo(url, **{name: value for name, value in defaults.items() if name not in said})
    return Target(conninfo, schema, timeout, _where({**said}, schema))


def _where(said: dict[str, object], schema: str) -> str:
    hosts, ports = str(said.get("host") or "").split(","), str(said.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    names = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True))
    return f"postgresql://{names}/{said.get('dbname') or ''} schema {schema}"
