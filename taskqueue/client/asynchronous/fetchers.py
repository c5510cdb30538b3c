"""``client.fetchers``: who wants or holds tasks, and who is to get no more of them."""

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
        """Up to ``limit`` of those who want or hold tasks.

        Args:
            after: fetchers whose pseudonyms come after this one; who pages in the order of these goes on so.
            limit: 1 to 500.
            project, group: those that may take tasks of it; empty: all.
            filter: those whose name or address contains it, in upper or lower case.
            sort: by pseudonym (``session``) or name, or those first that have the most (``capacity``, ``holds``,
                ``done``, ``failed``), have held a task for longest (``oldest``) or have not been heard for longest
                (``silent``).
            skip: so many of the first ones; who pages in another order than that of pseudonyms goes on so.
            projects: those that may take tasks of one of these (at most 200); empty: all.
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
        """All who want or hold tasks, or may take those of the project, by pseudonym, asked for page by page."""
        page = await self.list(limit=500, project=project)
        while True:
            for fetcher in page.fetchers:
                yield fetcher
            if not page.more:
                return
            page = await self.list(page.fetchers[-1].session, limit=500, project=project)

    async def get(self, name: str) -> FetcherName:
        """The fetchers of one name; one that has none has its pseudonym.

        Raises:
            RequestRejected: nobody of that name is connected, and it is not drained.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherShow(fetcher=name)))

    async def drain(self, name: str) -> FetcherName:
        """Give no new tasks to fetchers of this name, nor to those that come later under it, until ``resume``.

        They finish what they have begun, and hand back the rest. Nobody has to have the name now: see ``found``.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherDo(fetcher=name, action="drain")))

    async def resume(self, name: str) -> FetcherName:
        """Give tasks to fetchers of this name again.

        Raises:
            RequestRejected: nobody of that name is connected, and it is not drained.
        """
        return without_envelope(FetcherName, await self._exchange.ask(FetcherDo(fetcher=name, action="resume")))
