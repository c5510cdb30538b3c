"""Operations on fetchers."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.fetchers import FetcherDo, FetcherReply, Fetchers, FetcherShow, FetchersReply
from taskqueue.web.api import paging
from taskqueue.web.api.operation import Operation

OPERATIONS: Final = (
    Operation(
        "GET", "/fetchers", "viewer", Fetchers, FetchersReply, "Who fetches, in pages", further=paging.of_fetchers
    ),
    Operation("GET", "/fetchers/{fetcher}", "viewer", FetcherShow, FetcherReply, "All fetchers of a name"),
    Operation(
        "POST", "/fetchers/{fetcher}/drain", "operator", FetcherDo, FetcherReply,
        "Give fetchers of a name no new tasks", {"action": "drain"},
    ),
    Operation(
        "POST", "/fetchers/{fetcher}/resume", "operator", FetcherDo, FetcherReply,
        "Give fetchers of a name tasks again", {"action": "resume"},
    ),
)  # fmt: skip
