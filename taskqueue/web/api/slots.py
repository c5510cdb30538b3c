"""Operations on slots."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.slots import SlotList, SlotSet, SlotShow
from taskqueue.web.api.http_operation import Operation

OPERATIONS: Final = (
    Operation("GET", "/projects/{project}/slots", "viewer", SlotList, "The first slots in an order"),
    Operation("GET", "/projects/{project}/slots/{slot}", "viewer", SlotShow, "All about a slot"),
    Operation(
        "PATCH", "/projects/{project}/slots/{slot}", "admin", SlotSet, "Say how a slot goes, now and across restarts"
    ),
)  # fmt: skip
