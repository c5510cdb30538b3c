"""Requests about fetchers, of people and tools."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.crawl_requests import Change, Request
from taskqueue.protocol.fields import GroupName, Number, Part


class Fetchers(Request, tag="fetchers"):
    """Who fetches? A page of those that want or hold tasks.

    Attributes:
        after: fetchers with pseudonyms after this one; who pages in the order of these goes on so.
        project, group: those who may take tasks of it; empty: all.
        filter: those whose names (or pseudonyms, if they have none) or addresses contain it.
        sort: by pseudonym (``session``) or name, or the most first; ``oldest``: who has held a task for longest,
            ``silent``: who has not been heard for longest.
        skip: so many of the first ones; who pages in another order than that of pseudonyms goes on so.
    """

    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    project: GroupName = ""
    group: GroupName = ""
    filter: Part = ""
    sort: FetcherSort = "session"
    skip: Number = 0


FetcherName = Annotated[str, Meta(min_length=1, max_length=128)]
"""Of fetchers, as in their hellos; of one that has none, its pseudonym."""


class FetcherShow(Request, tag="fetcher-show"):
    """Tell about the fetchers of one name."""

    fetcher: FetcherName


FetcherAction = Literal["drain", "resume"]


class FetcherDo(Change, tag="fetcher-do"):
    """Do something with all fetchers of one name, with those too that come later.

    ``drain``: they get no new tasks; ``resume``: they do again.
    """

    fetcher: FetcherName
    action: FetcherAction
