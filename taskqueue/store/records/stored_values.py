"""Shapes of packed values that are decoded for each task."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder

from taskqueue.protocol.fields import Boot
from taskqueue.protocol.values import PageFacts, Schedule


class SpecValue(Struct, array_like=True, gc=False):
    """Value of SPECS."""

    taskid: str
    url: str
    schedule: Schedule
    body: Raw
    depth: int = 0
    page: PageFacts | None = None


class LeaseValue(Struct, array_like=True, gc=False):
    """Value of LEASES."""

    record: bytes
    taskid: str
    session: str
    number: int
    deadline: Boot
    selected_at: Boot
    check: int = 0
    links: tuple[int, int, int] | None = None


decode_spec_value: Final = Decoder(SpecValue).decode
decode_lease_value: Final = Decoder(LeaseValue).decode
