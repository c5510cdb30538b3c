"""``client.fetchers``: fetchers that want tasks or hold leases, and draining them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.fetchers import Fetcher, FetcherDo, FetcherName, FetcherPage, Fetchers, FetcherShow


class AsyncFetchers:
    """Fetchers as the daemon knows them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self,
        after: str = "",
        limit: int = 100,
        *,
        project: str = "",
        group: str = "",
        filter: str = "",
        sort: FetcherSort = "session",
        skip: int = 0,
        projects: Sequence[str] = (),
    ) -> FetcherPage:
        """Return a page of fetchers that want tasks or hold leases.

        Args:
            after: session of the last fetcher of the page before, if ``sort`` is ``session``; empty: from the first
                one.
            limit: fetchers per page, 1 to 500.
            project, group: fetchers that may take tasks of this project or group; empty: all.
            filter: fetchers whose name or address contains this text, in upper or lower case.
            sort: by ``session`` (a pseudonym) or ``name``, or those first that have the largest ``capacity``,
                ``holds``, ``done`` or ``failed``, have held a lease for longest (``oldest``) or have been silent for
                longest (``silent``).
            skip: fetchers to leave out at the beginning, for further pages if ``sort`` is not ``session``.
            projects: fetchers that may take tasks of one of these projects (at most 200); empty: all.
        """
        request = Fetchers(
            after=after,
            limit=limit,
            project=project,
            group=group,
            filter=filter,
            sort=sort,
            skip=skip,
            projects=[*projects],
        )
        return without_envelope(FetcherPage, await self._exchange.ask(request))

    async def iter(self, project: str = "") -> AsyncGenerator[Fetcher, None]:
        """Iterate over all fetchers, or those that may take tasks of a project, by session, asked for page by page."""
        page = await self.list(limit=500, project=project)
        while True:
            for fetcher in page.fetchers:
                yield fetcher
            if not page.more:
                return
            page = await self.list(page.fetchers[-1].session, limit=500, project=project)

    async def get(self, name: str) -> FetcherName:
        """Return the fetchers of one name. A fetcher without a name has its session as name.

        Raises:
            RequestRejected: no fetcher of that name is connected, and the name is not drained.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherShow(fetcher=name)))

    async def drain(self, name: str) -> FetcherName:
        """Dispatch no more tasks to fetchers of this name, including future ones, until ``resume``.

        Connected fetchers finish the tasks that they have begun, and give back the rest. No fetcher needs to have the
        name now: see ``found``.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherDo(fetcher=name, action="drain")))

    async def resume(self, name: str) -> FetcherName:
        """Dispatch tasks to fetchers of this name again.

        Raises:
            RequestRejected: no fetcher of that name is connected, and the name is not drained.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherDo(fetcher=name, action="resume")))
