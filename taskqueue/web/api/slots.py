"""Operations on slots."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from msgspec import Meta, Struct

from taskqueue.protocol.fields import ProjectName, SlotName
from taskqueue.protocol.slots import SlotFact, SlotList, SlotSet, SlotShow
from taskqueue.web.api.http_operation import Operation

FACTS: Final = get_args(SlotFact)


class SlotUnset(Struct, forbid_unknown_fields=True):
    """What was said of a slot and is not to be said any more.

    Attributes:
        keys: all that was said, if there are none. With block_until every pause of the slot is over, also one that its
            host has asked for.
    """

    project: ProjectName
    slot: SlotName
    keys: Annotated[tuple[SlotFact, ...], Meta(max_length=len(FACTS))] = ()


def as_unset(fields: dict[str, Any]) -> dict[str, Any]:
    """The keys as the protocol has them, all of them if none is named."""
    return {"project": fields["project"], "slot": fields["slot"], "unset": fields["keys"] or FACTS}


OPERATIONS: Final = (
    Operation("GET", "/projects/{project}/slots", "viewer", SlotList, "The first slots in an order"),
    Operation("GET", "/projects/{project}/slots/{slot}", "viewer", SlotShow, "All about a slot"),
    Operation(
        "PATCH", "/projects/{project}/slots/{slot}", "admin", SlotSet, "Say how a slot goes, now and across restarts",
        {"unset": ()},
    ),
    Operation(
        "DELETE", "/projects/{project}/slots/{slot}", "admin", SlotSet,
        "Forget what was said of a slot; no keys: all of it", arguments=SlotUnset, remake=as_unset,
    ),
)  # fmt: skip
