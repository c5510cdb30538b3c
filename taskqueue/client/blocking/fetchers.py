"""Blocking twin of ``taskqueue.client.asynchronous.fetchers``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taskqueue.client.asynchronous.fetchers import AsyncFetchers
from taskqueue.client.connection.background import Background
from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.fetchers import Fetcher, FetcherName, FetcherPage


class BlockingFetchers:
    """Fetchers as the daemon knows them."""

    def __init__(self, background: Background, fetchers: AsyncFetchers) -> None:
        self._background = background
        self._client = fetchers

    def list(
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
        return self._background.run(
            self._client.list(
                after, limit, project=project, group=group, filter=filter, sort=sort, skip=skip, projects=projects
            )
        )

    def iter(self, project: str = "") -> Iterator[Fetcher]:
        """Iterate over all fetchers, or those that may take tasks of a project, by session, asked for page by page."""
        page = self.list(limit=500, project=project)
        while True:
            yield from page.fetchers
            if not page.more:
                return
            page = self.list(page.fetchers[-1].session, limit=500, project=project)

    def get(self, name: str) -> FetcherName:
        """Return the fetchers of one name. A fetcher without a name has its session as name.

        Raises:
            RequestRejected: no fetcher of that name is connected, and the name is not drained.
        """
        return self._background.run(self._client.get(name))

    def drain(self, name: str) -> FetcherName:
        """Dispatch no more tasks to fetchers of this name, including future ones, until ``resume``.

        Connected fetchers finish the tasks that they have begun, and give back the rest. No fetcher needs to have the
        name now: see ``found``.
        """
        return self._background.run(self._client.drain(name))

    def resume(self, name: str) -> FetcherName:
        """Dispatch tasks to fetchers of this name again.

        Raises:
            RequestRejected: no fetcher of that name is connected, and the name is not drained.
        """
        return self._background.run(self._client.resume(name))
