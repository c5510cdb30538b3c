"""The operation that imports a project, step by step; its tasks and settings are JSON, as in lines of an export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.json import encode

from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.codec import MALFORMED
from taskqueue.protocol.exports import MAX_PARTS, ExportedPoint, ExportedProject, ExportedTask, ProjectImport
from taskqueue.protocol.fields import Number, ProjectName
from taskqueue.protocol.packed_json import as_msgpack
from taskqueue.protocol.reasons import reason_of
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.problems import of_reason

T = TypeVar("T", bound=Struct)

PACKED: Final = ("body", "result", "settings")
"""Fields whose values are packed, as the daemon never looks into them or looks last."""


class ImportStep(Struct, forbid_unknown_fields=True):
    """Step of an import.

    Attributes:
        export: text that identifies the export, such as a hash of the file.
        begin: the project and the number of its parts, in the first step, which has no tasks and points.
        first: number of parts before these.
        tasks: next tasks: lines of a JSON export, without their project.
        every: what the points count, a minute or an hour.
        points: next points of the history, after all tasks: pairs of a time and the events in it.
    """

    project: ProjectName
    export: Annotated[str, Meta(min_length=1, max_length=64)]
    begin: dict[str, Any] | None = None
    first: Number = 0
    tasks: Annotated[list[dict[str, Any]], Meta(max_length=MAX_PARTS)] = []
    every: Resolution = "hour"
    points: Annotated[list[ExportedPoint], Meta(max_length=MAX_PARTS)] = []


def with_parts(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert the project and the tasks into those of the protocol.

    Raises:
        Problem: one is malformed.
    """
    begin = fields["begin"]
    return fields | {
        "begin": None if begin is None else _converted("begin", begin, ExportedProject),
        "tasks": [_converted(f"tasks[{index}]", each, ExportedTask) for index, each in enumerate(fields["tasks"])],
    }


def _converted(name: str, item: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(_packed(item), kind)
    except (*MALFORMED, OverflowError) as error:
        raise of_reason(reason_of(error, name, kind)) from None


def _packed(item: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = dict(item)
    said |= {key: as_msgpack(Raw(encode(said[key]))) for key in PACKED if key in said}
    if isinstance(said.get("deferred"), dict):
        said["deferred"] = _packed(said["deferred"])
    return said


OPERATIONS: Final = (
    Operation(
        "POST", "/projects/{project}/import", ProjectImport,
        "Begin to bring it back from an export, or bring further parts; the last one makes it whole",
        arguments=ImportStep, remake=with_parts,
    ),
)  # fmt: skip
