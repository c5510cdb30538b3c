"""All projects of a daemon, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from taskqueue import AsyncClient
from taskqueue.protocol.replies import StatusReply
from taskqueue.protocol.requests import Status
from taskqueue.protocol.views import ProjectView
from taskqueue.web.metrics.activity import ProjectRow


class Projects:
    """Asks for them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def rows(self, patience: float) -> Sequence[ProjectRow]:
        """All of them.

        Args:
            patience: seconds that each answer may take.
        """
        rows: list[ProjectRow] = []
        more, after = True, ""
        while more:
            request = Status(session="", n=0, after=after, limit=200, fetchers=0)
            reply = await self._client.ask(request, StatusReply, patience)
            rows += map(_row, reply.projects)
            more, after = reply.more, rows[-1].name if rows else ""
        return rows


def _row(view: ProjectView) -> ProjectRow:
    return ProjectRow(view.name, view.state, astuple(view.counts), astuple(view.totals), bool(view.reason))
