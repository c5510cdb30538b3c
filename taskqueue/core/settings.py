"""The settings of a project and of the core, and how layers of them make one.

A project's settings come in layers, the later wins: the defaults below, ``[defaults]`` of the config, the project's
own section of the config, and what ``project-set`` said. Each layer is a plain map, checked as it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from taskqueue.core.messages import Retries, Setting, TimeoutSeconds
from taskqueue.errors import Rejected

Layer = Mapping[str, Setting]
"""Settings by name; only those that it wants to say."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the tasks of one project are run.

    Attributes:
        rate: tasks handed out a second, on average; inf is unlimited, 0 hands out nothing.
        burst: tasks that may be handed out at once after a quiet time; at least 1.
        processing_timeout: seconds that a fetcher has for a task that says nothing else.
        retries: further attempts after the first failure, for a task that says nothing else.
        retry_delay: seconds before each further attempt; the last one stands for all that follow.
        max_queue: live tasks at which new ones are rejected; inf is unlimited.
    """

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0
    processing_timeout: TimeoutSeconds = 600.0
    retries: Retries = 3
    retry_delay: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e9)], ...], Meta(min_length=1, max_length=100)
    ] = (30.0, 3600.0, 21600.0, 43200.0, 86400.0)  # fmt: skip
    max_queue: Annotated[float, Meta(ge=1)] = float("inf")


class CoreConfig(Struct, frozen=True):
    """Everything that the core is told from outside.

    Attributes:
        defaults, projects: layers of settings: for all projects, and by name; a project named here is made.
        auto_create: a new-task for an unknown project makes it.
        fetcher_timeout: seconds of silence after which a fetcher gives back what it holds.
        session_timeout: seconds of silence after which a session's kept outcomes are forgotten.
        max_sessions: kept at once; above it the one silent for longest is forgotten.
        head_tasks, head_bytes: what each order of a project holds in memory, at most.
        turn_tasks: most tasks promoted, expired or handed out in one turn.
        select_bytes: about the size at which a select message is full.
        max_message: bytes of the longest message taken, told to clients.
        version: of the software, told to clients.
    """

    defaults: Layer = field(default_factory=dict)
    projects: dict[str, Layer] = field(default_factory=dict)
    auto_create: bool = False
    fetcher_timeout: float = 60.0
    session_timeout: float = 3600.0
    max_sessions: int = 10_000
    head_tasks: int = 4096
    head_bytes: int = 4 << 20
    turn_tasks: int = 2048
    select_bytes: int = 1 << 20
    max_message: int = 8 << 20
    version: str = ""


def merge(*layers: Layer) -> Settings:
    """Lay the layers over each other and check the whole.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        merged.update(layer)
    unknown = [key for key in merged if key not in Settings.__struct_fields__]
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise Rejected("setting", f"{unknown[0]}: unknown setting; there are {known}")
    for key, value in merged.items():
        try:
            msgspec.convert({key: value}, Settings)
        except msgspec.ValidationError as error:
            raise Rejected("setting", f"{key}: {_plain(str(error))}, not {value!r}") from None
    return msgspec.convert(merged, Settings)


def as_layer(settings: Settings) -> dict[str, Setting]:
    """All settings as a map, for people."""
    layer = {key: getattr(settings, key) for key in Settings.__struct_fields__}
    return layer | {"retry_delay": list(settings.retry_delay)}


def _plain(message: str) -> str:
    """``Expected `float` >= 0.0 - at `$.rate``` as ``expected float >= 0.0``."""
    return message.split(" - at ")[0].replace("`", "").replace("Expected", "expected")
