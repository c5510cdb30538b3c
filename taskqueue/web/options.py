"""Options of the web process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from taskqueue.access.key_file import KeyFile
from taskqueue.defaults import METRICS_PROJECTS, WEB_HOST, WEB_PORT
from taskqueue.protocol.callers import Role


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Options that decide who is let in.

    Attributes:
        hosts: further host names for which requests are accepted.
        proxies: addresses of reverse proxies whose X-Forwarded headers count.
        proxy_header: header in which they name the user, in lower case; empty if they don't.
        root_path: path below which a reverse proxy serves the dashboard, such as /taskqueue; "": the top, or the path
            that the proxy sends.
        proxy_roles: roles of these users by name, without keys; the role of "" is for all others, and viewer if
            missing.
    """

    hosts: tuple[str, ...] = ()
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    proxy_header: str = ""
    root_path: str = ""
    proxy_roles: Mapping[str, Role] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of what a peer may cost before its connection is cut.

    Attributes:
        connections: connections at a time.
        of_one_address: connections of one address at a time.
        head_seconds: from the beginning of a connection, or the first byte after a response, to the end of a request's
            head.
        idle_seconds: time without a byte of a body that is awaited.
        unread_seconds: time in which the peer may leave a full connection unread.
        look_seconds: time between two checks.
        fresh_seconds: age at which an idle connection may be closed for a new one without room.
        idle_of_one_address: idle connections of an address above which they may be closed at any age.
    """

    connections: int = 2048
    of_one_address: int = 1024
    head_seconds: float = 10.0
    idle_seconds: float = 60.0
    unread_seconds: float = 20.0
    look_seconds: float = 2.0
    fresh_seconds: float = 1.0
    idle_of_one_address: int = 512


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Options of the web process.

    Attributes:
        daemon_url: address of the daemon, such as tcp://127.0.0.1:7400.
        host, port: address to listen on; port 0 is any free port.
        name: name of this process in ``taskqueue log``, such as web@host1.
        timeout: longest wait for an answer of the daemon, in seconds.
        access: who is let in.
        patience: limits of what a peer may cost.
        key: key shown to the daemon, by which it may speak for its users; None: the daemon has no keys.
        metrics_projects: projects with metrics of their own, the busiest ones; None: metrics are switched off.
    """

    daemon_url: str
    host: str = WEB_HOST
    port: int = WEB_PORT
    name: str = "web"
    timeout: float = 5.0
    access: AccessOptions = field(default_factory=AccessOptions)
    patience: Patience = field(default_factory=Patience)
    metrics_projects: int | None = METRICS_PROJECTS
    key: str | Path | KeyFile | None = None
