"""Identify visitors: by a token, by a trusted proxy's header, or by the cookie of a browser that has signed in.

    on loopback, without keys, proxies and further names    every visitor is admin: all are on this machine
    else                                                    a visitor is a stranger until it is identified

With keys the daemon says who a visitor is: the holder of a token, or a name of its access file that a proxy has let in.
The name is in a header, which is taken from the proxy alone.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from taskqueue.errors import ConfigError, TaskQueueError
from taskqueue.protocol.callers import Role
from taskqueue.web.access.arrival import FORWARDING, Arrival, HostNames, is_loopback, port_of
from taskqueue.web.access.logins import FailedLogins, Sessions
from taskqueue.web.access.refusals import Refused
from taskqueue.web.access.users import Ask, User, Users
from taskqueue.web.access.visitors import Visitor
from taskqueue.web.options import WebOptions

STRANGER: Final = Visitor("", None, "")

BEARER: Final = "bearer "

MOST_ACTOR_CHARS: Final = 128

WRONG_TOKEN: Final = "the token is wrong, has expired, or was revoked"


class Access:
    """Identification of visitors.

    Attributes:
        has_keys: whether the daemon has keys, so that visitors are users of its access file.
        users, sessions, failed: users whom the daemon knows, signed-in browsers, and wrong tokens so far.
        hosts: host names of this process.
        root: path below which a proxy serves the dashboard; "": a proxy may send it.
    """

    def __init__(self, options: WebOptions, ask: Ask) -> None:
        chosen = options.access
        self.has_keys = options.key is not None
        self.users = Users(ask)
        self.sessions = Sessions()
        self.failed = FailedLogins()
        self.hosts = HostNames(options.host, chosen.hosts)
        self.trusted = chosen.proxies
        self.root = chosen.root_path
        self._host = socket.gethostname()
        self._proxy = ProxyUsers(chosen.proxy_header, chosen.proxy_roles)
        self._key = secrets.token_bytes(32)
        self._is_open = is_open(options)
        self._owner = Visitor("", "admin", self._actor(""), self._csrf(""))

    async def identify(self, request: HTTPConnection, arrival: Arrival) -> Visitor:
        """Identify the visitor of a request.

        Raises:
            Refused: 401: the token is wrong; 403: a proxy's header does not come from the proxy, or names no user; 429:
                too many wrong tokens from this address; 503: the daemon does not say who this is.
        """
        try:
            return await self._identified(request, arrival)
        except TaskQueueError as error:
            raise _unsaid(error) from None

    async def is_still(self, visitor: Visitor, request: HTTPConnection, arrival: Arrival) -> bool:
        """Return whether ``identify`` would still find the visitor, with its role and projects; counts no wrong tokens.

        Raises:
            TaskQueueError: the daemon does not say who this is.
        """
        try:
            now = await self._without_token(request, arrival)
        except Refused:
            return False
        if now is None and (token := _bearer_of(request)):
            now = self._holder(await self.users.with_token(token))
        now = now or await self._signed_in(request, arrival)
        return (now.reach, now.role) == (visitor.reach, visitor.role)

    async def _identified(self, request: HTTPConnection, arrival: Arrival) -> Visitor:
        if (visitor := await self._without_token(request, arrival)) is not None:
            return visitor
        if token := _bearer_of(request):
            return self._holder(await self.user_of(token, arrival))
        return await self._signed_in(request, arrival)

    async def _without_token(self, request: HTTPConnection, arrival: Arrival) -> Visitor | None:
        if name := self._proxy.find(request.headers, arrival):
            if not self.has_keys:
                return Visitor(name, self._proxy.role_of(name), self._actor(name), self._csrf(name))
            if (user := await self.users.named(name)) is None:
                raise Refused(403, f'the access file has no token of "{name}"; have an admin authorise one')
            return self._holder(user, self._csrf(name))
        if not self._is_open:
            return None
        if any(name in request.headers for name in FORWARDING):
            raise Refused(403, "this came through a proxy: name it by --trust-proxy, and take its users' names")
        return self._owner

    def _holder(self, user: User | None, csrf: str = "", *, is_signed_in: bool = False) -> Visitor:
        """Make the visitor of a user; None: a stranger."""
        if user is None:
            return STRANGER
        return Visitor(user.name, user.role, self._actor(""), csrf, is_signed_in, user.owner, user.reach, user.sees_all)

    async def _signed_in(self, request: HTTPConnection, arrival: Arrival) -> Visitor:
        sid = cookie_of(request, session_cookie(arrival))
        if not sid or (session := self.sessions.find(sid)) is None:
            return STRANGER
        if (user := await self.users.with_digest(session.digest)) is None:
            self.sessions.end(sid)
        return self._holder(user, session.csrf, is_signed_in=True)

    async def user_of(self, token: str, arrival: Arrival) -> User:
        """Return the user with this token.

        Raises:
            Refused: see ``identify``.
        """
        try:
            user = await self.users.with_token(token)
        except TaskQueueError as error:
            raise _unsaid(error) from None
        if user is not None:
            self.failed.forget(arrival.address)
            return user
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


def _unsaid(error: TaskQueueError) -> Refused:
    """Make the refusal of a visitor of whom the daemon does not say who it is."""
    return Refused(503, f"the daemon does not say who you are: {error}", 5)


def is_open(options: WebOptions) -> bool:
    """Return whether only this machine reaches the process, and the daemon has no keys."""
    chosen = options.access
    is_plain = not (chosen.hosts or chosen.proxies or chosen.root_path)
    return options.key is None and is_loopback(options.host) and is_plain


def check_start(options: WebOptions) -> None:
    """Check that no visitor is let in by mistake, and that no option is without effect.

    Raises:
        ConfigError: elsewhere reaches the process, and no visitor could be identified; or roles are given twice.
    """
    chosen = options.access
    if options.key is not None and chosen.proxy_roles:
        raise ConfigError("--proxy-role: the daemon has keys, so its access file has the roles; leave the option out")
    if is_open(options) or options.key is not None or chosen.proxy_header:
        return
    raise ConfigError(
        f"{options.host}:{options.port} can be reached from elsewhere, and without keys no user is known. Switch keys "
        "on, by daemon.keys, and authorise users: taskqueue key authorise NAME --token --role viewer. Or name the "
        "reverse proxy that knows its users, with --trust-proxy ADDRESS --proxy-header X-Forwarded-User"
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
    """Users that a proxy has let in, and without keys their roles.

    Args:
        header: name of the proxy's header in lower case; empty if there is none.
        roles: roles by user; the role of "" is for all others.
    """

    def __init__(self, header: str, roles: Mapping[str, Role]) -> None:
        self._header = header
        self._roles = roles

    def role_of(self, name: str) -> Role:
        """Return the role of a user."""
        return self._roles.get(name, self._roles.get("", "viewer"))

    def find(self, headers: Headers, arrival: Arrival) -> str:
        """Return the name of the user that the proxy has let in; empty if the header is absent or empty.

        Raises:
            Refused: the header does not come from the proxy, or is invalid.
        """
        said = headers.getlist(self._header) if self._header else []
        if not said:
            return ""
        if not arrival.is_by_proxy:
            raise Refused(403, f"{self._header} is only taken from the proxies that --trust-proxy names")
        if len(said) > 1:
            raise Refused(403, f"there is more than one {self._header}")
        try:
            name = said[0].encode("latin-1").decode().strip()  # HTTP headers are bytes, names of users are UTF-8
        except UnicodeDecodeError:
            raise Refused(403, f"{self._header} is not UTF-8") from None
        if len(name) > MOST_USER_CHARS or not name.isprintable():
            raise Refused(403, f"{self._header} is not a valid name")
        return name
