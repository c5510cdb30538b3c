"""What may be chosen about the web process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from taskqueue.web.roles import Role

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7401
DEFAULT_METRICS_PROJECTS: Final = 50
DEFAULT_TOKENS: Final = Path("data/web-tokens.json")


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who is let in.

    Attributes:
        tokens: the file of tokens; it may not be there.
        demands_tokens: nobody comes in without one, on loopback neither.
        hosts: names, beside its own, by which browsers may call the process.
        proxies: addresses of reverse proxies, whose X-Forwarded headers count.
        proxy_header: in which they say who asks, in lower case; empty: they don't.
        root_path: below which a reverse proxy shows the pages, such as /taskqueue; "": at the top, or where it says.
        proxy_roles: what those may do, by name; that of "" is everybody else's, a viewer's if it is missing.
    """

    tokens: Path = DEFAULT_TOKENS
    demands_tokens: bool = False
    hosts: tuple[str, ...] = ()
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    proxy_header: str = ""
    root_path: str = ""
    proxy_roles: Mapping[str, Role] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """What a peer may cost before his connection is cut.

    Attributes:
        connections: at a time.
        of_one_address: of these.
        head_seconds: from the first moment of a connection, or the first byte after a response, until a request has its
            head.
        idle_seconds: how long nothing may come of a body that is waited for.
        unread_seconds: how long he may leave unread what has filled his connection.
        look_seconds: how often it is seen to.
        fresh_seconds: age at which an idle connection gives way to a newcomer that finds no room.
        idle_of_one_address: with more than so many, they give way at any age.
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
    """Choices of whoever starts the web process.

    Attributes:
        daemon_url: address of the daemon, such as tcp://127.0.0.1:7400.
        host, port: where browsers are listened to; port 0: one that is free.
        name: of this process, for the change log, such as web@host1.
        timeout: seconds that the daemon may take to answer.
        access: who is let in.
        patience: what a peer may cost.
        metrics_projects: projects that have metrics of their own, the busiest ones; None: there are no metrics.
    """

    daemon_url: str
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    name: str = "web"
    timeout: float = 5.0
    access: AccessOptions = field(default_factory=AccessOptions)
    patience: Patience = field(default_factory=Patience)
    metrics_projects: int | None = DEFAULT_METRICS_PROJECTS
