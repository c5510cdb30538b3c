"""Operations of fetchers: tasks to run, and what became of them."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.fetchers import Extend, Hello, Release, TokensReply
from taskqueue.protocol.tasks import Done, DoneReply
from taskqueue.web.api.fetching import handing_out
from taskqueue.web.api.lease_objects import (
    HandedOut,
    Prolonged,
    Released,
    Reports,
    Wish,
    with_reports,
    with_tokens,
)
from taskqueue.web.api.operation import Operation

OPERATIONS: Final = (
    Operation(
        "POST", "/select", "operator", Hello, HandedOut, "Take tasks to run; waits for the first one",
        arguments=Wish, endpoint=handing_out, waits=True,
    ),
    Operation(
        "POST", "/done", "operator", Done, DoneReply, "Report tasks: succeeded, or with ok false failed",
        arguments=Reports, remake=with_reports,
    ),
    Operation(
        "POST", "/extend", "operator", Extend, TokensReply, "Give leases more time", arguments=Prolonged,
        remake=with_tokens,
    ),
    Operation(
        "POST", "/release", "operator", Release, TokensReply, "Hand back tasks that were not started",
        arguments=Released, remake=with_tokens,
    ),
)  # fmt: skip
