"""Users that a reverse proxy has let in: their name stands in a header, which is taken from the proxy alone."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers

from taskqueue.web.access.arrival import Arrival
from taskqueue.web.access.refusals import Refused
from taskqueue.web.roles import Role

MOST_CHARS = 64


class ProxyUsers:
    """The proxy's header, and what users may do.

    Args:
        header: its name in lower case; empty: there is none.
        roles: by user; that of "" is everybody else's.
    """

    def __init__(self, header: str, roles: Mapping[str, Role]) -> None:
        self._header = header
        self._roles = roles

    def find(self, headers: Headers, arrival: Arrival) -> tuple[str, Role] | None:
        """The name and role of the user that the proxy has let in; None: it says nothing.

        Raises:
            Refused: the header comes from elsewhere, or is none.
        """
        said = headers.getlist(self._header) if self._header else []
        if not said:
            return None
        if not arrival.is_by_proxy:
            raise Refused(403, f"{self._header} is only taken from the proxies that --trust-proxy names")
        if len(said) > 1:
            raise Refused(403, f"there is more than one {self._header}")
        try:
            name = said[0].encode("latin-1").decode().strip()  # as HTTP has bytes, and people names
        except UnicodeDecodeError:
            raise Refused(403, f"{self._header} is not UTF-8") from None
        if not name:
            return None
        if len(name) > MOST_CHARS or not name.isprintable():
            raise Refused(403, f"{self._header} is no name")
        return name, self._roles.get(name, self._roles.get("", "viewer"))
