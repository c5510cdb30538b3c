"""Identifies visitors: by a token, by a trusted proxy's header, or by the cookie of a browser that has signed in.

    on loopback, without tokens, proxies and further names    every visitor is admin: all are on this machine
    else                                                      a visitor is a stranger until it is identified

Once there was a token, or the file could not be read, every visitor needs one until the process ends: removing the last
token must not open the door. The name of a user that a reverse proxy has let in is in a header, which is taken from the
proxy alone.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from taskqueue.errors import ConfigError
from taskqueue.web.access.arrival import FORWARDING, Arrival, HostNames, is_loopback, port_of
from taskqueue.web.access.logins import FailedLogins, Sessions
from taskqueue.web.access.refusals import Refused
from taskqueue.web.access.tokens import Token, Tokens, read_tokens
from taskqueue.web.access.visitors import Visitor
from taskqueue.web.options import WebOptions
from taskqueue.web.roles import Role

STRANGER: Final = Visitor("", "anyone", "")

BEARER: Final = "bearer "

MOST_ACTOR_CHARS: Final = 128

WRONG_TOKEN: Final = "the token is wrong, has expired, or was removed"

UNREADABLE: Final = "the file of tokens can't be read; the log of the web process says why"


class Access:
    """Identification of visitors.

    Attributes:
        tokens, sessions, failed: valid tokens, signed-in browsers, and wrong tokens so far.
        hosts: host names of this process.
        root: path below which a proxy serves the dashboard; "": a proxy may send it.
    """

    def __init__(self, options: WebOptions) -> None:
        chosen = options.access
        self.tokens = Tokens(chosen.tokens)
        self.sessions = Sessions(self.tokens)
        self.failed = FailedLogins()
        self.hosts = HostNames(options.host, chosen.hosts)
        self.trusted = chosen.proxies
        self.root = chosen.root_path
        self._host = socket.gethostname()
        self._users = ProxyUsers(chosen.proxy_header, chosen.proxy_roles)
        self._key = secrets.token_bytes(32)
        self._is_open = is_open(options)
        self._owner = Visitor("", "admin", self._actor(""), self._csrf(""))

    def is_open(self) -> bool:
        """Return whether every visitor that reaches the process is admin."""
        if self._is_open and self.tokens.any():
            self._is_open = False
        return self._is_open

    async def identify(self, request: HTTPConnection, arrival: Arrival) -> Visitor:
        """Identify the visitor of a request.

        Raises:
            Refused: 401: the token is wrong; 403: a proxy's header does not come from the proxy; 429: too many wrong
                tokens from this address; 503: the tokens can't be read.
        """
        if (visitor := self._without_token(request, arrival)) is not None:
            return visitor
        if secret := _bearer_of(request):
            return self._holder(await self.token_of(secret, arrival))
        return self._signed_in(request, arrival)

    def is_still(self, visitor: Visitor, request: HTTPConnection, arrival: Arrival) -> bool:
        """Return whether ``identify`` would still find the visitor, with the same role; counts no wrong tokens."""
        try:
            now = self._without_token(request, arrival)
        except Refused:
            return False
        if now is None and (secret := _bearer_of(request)):
            token = self.tokens.of_secret(secret)
            now = self._holder(token) if token else STRANGER
        now = now or self._signed_in(request, arrival)
        return (now.name, now.role) == (visitor.name, visitor.role)

    def _without_token(self, request: HTTPConnection, arrival: Arrival) -> Visitor | None:
        if user := self._users.find(request.headers, arrival):
            name, role = user
            return Visitor(name, role, self._actor(name), self._csrf(name))
        if not self.is_open():
            return None
        if any(name in request.headers for name in FORWARDING):
            raise Refused(
                403, "this came through a proxy: name it by --trust-proxy, and make tokens or take its users' names"
            )
        return self._owner

    def _holder(self, token: Token) -> Visitor:
        return Visitor(token.name, token.role, self._actor(token.name))

    def _signed_in(self, request: HTTPConnection, arrival: Arrival) -> Visitor:
        sid = cookie_of(request, session_cookie(arrival))
        if not sid or (found := self.sessions.find(sid)) is None:
            return STRANGER
        session, token = found
        return Visitor(token.name, token.role, self._actor(token.name), session.csrf, is_signed_in=True)

    async def token_of(self, secret: str, arrival: Arrival) -> Token:
        """Return the token with this secret.

        Raises:
            Refused: see ``identify``.
        """
        if (token := self.tokens.of_secret(secret)) is not None:
            self.failed.forget(arrival.address)
            return token
        if self.tokens.trouble:
            raise Refused(503, UNREADABLE, 10)
        if not await self.failed.wait(arrival.address):
            raise Refused(429, "too many wrong tokens come from there", 10)
        raise Refused(401, WRONG_TOKEN)

    def end_session(self, request: HTTPConnection, arrival: Arrival) -> None:
        """End the session of a browser."""
        self.sessions.end(cookie_of(request, session_cookie(arrival)))

    def login_csrf(self, nonce: str) -> str:
        """Return the CSRF token for the sign-in form of an unknown browser; it belongs to the nonce in its cookie."""
        return self._csrf(f"login {nonce}")

    def _csrf(self, whose: str) -> str:
        return blake2b(whose.encode(), key=self._key, digest_size=24).hexdigest()

    def _actor(self, name: str) -> str:
        actor = f"{name} via web@{self._host}" if name else f"web@{self._host}"
        return actor[:MOST_ACTOR_CHARS]


def is_open(options: WebOptions) -> bool:
    """Return whether only this machine reaches the process, and no other visitors are configured."""
    chosen = options.access
    return is_loopback(options.host) and not (
        chosen.hosts or chosen.proxies or chosen.root_path or chosen.demands_tokens
    )


def check_start(options: WebOptions) -> None:
    """Check that no visitor is let in by mistake.

    Raises:
        ConfigError: the tokens can't be read; or there are none, and no proxy identifies users.
    """
    chosen = options.access
    found = read_tokens(chosen.tokens)
    if is_open(options) or (found and found.tokens) or chosen.proxy_header:
        return
    raise ConfigError(
        f"{options.host}:{options.port} can be reached from elsewhere, but {chosen.tokens} has no tokens of users. "
        f"Make one with `taskqueue web token add NAME --role admin --tokens {chosen.tokens}`, or name the reverse "
        "proxy that knows its users with --trust-proxy ADDRESS --proxy-header X-Forwarded-User"
    )


def session_cookie(arrival: Arrival) -> str:
    """Return the name of the session cookie; it has the port, because two web processes on one machine share cookies.

    Below a root path the cookie is sent to that path alone, which ``__Host-`` forbids, so other programs don't see it.
    """
    prefix = ("__Secure-" if arrival.root else "__Host-") if arrival.scheme == "https" else ""
    return f"{prefix}taskqueue-{port_of(arrival.host, arrival.scheme)}{arrival.root.replace('/', '.')}"


def _bearer_of(request: HTTPConnection) -> str:
    shown = request.headers.get("authorization", "")
    return shown[len(BEARER) :].strip() if shown.lower().startswith(BEARER) else ""


def cookie_of(request: HTTPConnection, name: str) -> str:
    """Return the value of a cookie; "" if there is none, or several: another site may have added one."""
    said = [part for header in request.headers.getlist("cookie") for part in header.split(";")]
    values = [value.strip() for key, _, value in (part.partition("=") for part in said) if key.strip() == name]
    return values[0] if len(values) == 1 else ""


# ----------------------------------------------------------------------------------------------------- users of proxies

MOST_USER_CHARS = 64


class ProxyUsers:
    """Users that a proxy has let in, and their roles.

    Args:
        header: name of the proxy's header in lower case; empty if there is none.
        roles: roles by user; the role of "" is for all others.
    """

    def __init__(self, header: str, roles: Mapping[str, Role]) -> None:
        self._header = header
        self._roles = roles

    def find(self, headers: Headers, arrival: Arrival) -> tuple[str, Role] | None:
        """Return name and role of the user that the proxy has let in; None if the header is absent or empty.

        Raises:
            Refused: the header does not come from the proxy, or is invalid.
        """
        said = headers.getlist(self._header) if self._header else []
        if not said:
            return None
        if not arrival.is_by_proxy:
            raise Refused(403, f"{self._header} is only taken from the proxies that --trust-proxy names")
        if len(said) > 1:
            raise Refused(403, f"there is more than one {self._header}")
        try:
            name = said[0].encode("latin-1").decode().strip()  # HTTP headers are bytes, names of users are UTF-8
        except UnicodeDecodeError:
            raise Refused(403, f"{self._header} is not UTF-8") from None
        if not name:
            return None
        if len(name) > MOST_USER_CHARS or not name.isprintable():
            raise Refused(403, f"{self._header} is not a valid name")
        return name, self._roles.get(name, self._roles.get("", "viewer"))
