"""Operations on slots."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from msgspec import Meta, Struct

from taskqueue.protocol.fields import ProjectName, SlotName
from taskqueue.protocol.slots import SlotFact, SlotList, SlotSet, SlotShow
from taskqueue.web.api.http_operation import Operation

FACTS: Final = get_args(SlotFact)


class SlotUnset(Struct, forbid_unknown_fields=True):
    """Overrides of a slot to remove.

    Attributes:
        keys: overrides to remove; none: all. With block_until every pause of the slot ends, including one that its host
            has asked for.
    """

    project: ProjectName
    slot: SlotName
    keys: Annotated[tuple[SlotFact, ...], Meta(max_length=len(FACTS))] = ()


def as_unset(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert the keys into those of the protocol; all keys if none is named."""
    return {"project": fields["project"], "slot": fields["slot"], "unset": fields["keys"] or FACTS}


OPERATIONS: Final = (
    Operation("GET", "/projects/{project}/slots", SlotList, "The first slots in some order"),
    Operation("GET", "/projects/{project}/slots/{slot}", SlotShow, "A slot in detail"),
    Operation(
        "PATCH", "/projects/{project}/slots/{slot}", SlotSet,
        "Override a slot's pace, also across restarts", {"unset": ()},
    ),
    Operation(
        "DELETE", "/projects/{project}/slots/{slot}", SlotSet,
        "Remove overrides of a slot; without keys, all of them", arguments=SlotUnset, remake=as_unset,
    ),
)  # fmt: skip
