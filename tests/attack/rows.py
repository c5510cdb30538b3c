"""Attacks by name: one row of the table each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.attack import of_bytes, of_floods, of_keys, of_names, of_sessions, of_strangers
from tests.attack.attack import Attack

FEW_FILES: Final = 1_024
BESIDE: Final = 1.5
"""``p50_times`` of attacks on the socket, which don't involve the loop."""
BESIDE_KEYS: Final = 2.0
"""``p50_times`` of attacks on handshakes with keys, which cost the daemon's other threads about a core."""
MANY: Final = 100
"""Connections of an attack with many."""


class Row(NamedTuple):
    """Attack with its conditions.

    Attributes:
        attack: function that attacks and returns its report; its docstring describes it in the table.
        connections: number of its connections.
        files: files that the daemon may open at first; 0: as many as this process.
        hard: True if the daemon can't raise that.
        needs_keys: True if it attacks handshakes with keys, so a daemon without keys has nothing to attack.
        p50_times: bound of the polite client's median wait, in multiples of that without the attack; 0: only the
            bound of all rows holds.
        disk: MiB of a file system for its store alone; 0: it lies among other files.
    """

    name: str
    attack: Callable[[Attack], str]
    connections: int = 1
    files: int = 0
    hard: bool = False
    disk: int = 0
    p50_times: float = 0.0
    needs_keys: bool = False

    @property
    def what(self) -> str:
        """Description for the table."""
        said = (self.attack.__doc__ or "").strip().splitlines()[0].rstrip(".")
        over = f", over {self.connections} connections" if self.connections > 1 else ""
        limit = f"; the daemon may open {self.files:,} files" if self.files else ""
        disk = f", on a disk of {self.disk} MiB" if self.disk else ""
        return said + over + limit + (" and can't raise that" if self.hard else "") + disk


_ONE: Final = [
    Row("endless-parts", of_bytes.endless_parts),
    Row("endless-empty-parts", of_bytes.endless_empty_parts),
    Row("empty-parts", of_bytes.empty_parts),
    Row("unread", of_bytes.unread),
    Row("large-frames", of_bytes.large_frames),
    Row("requests-1-mb", of_bytes.unread_requests),
    Row("idle", of_bytes.idle, files=FEW_FILES),
    Row("idle-hard", of_bytes.idle, files=FEW_FILES, hard=True),
    Row("wishes", of_names.wishes),
    Row("fetch-maps", of_names.fetch_maps),
    Row("projects", of_names.projects),
    Row("deferred", of_names.deferred),
    Row("waits", of_names.waits),
    Row("hellos", of_floods.hellos),
    Row("pushes", of_floods.pushes),
    Row("malformed", of_floods.malformed),
    Row("verify", of_floods.verify),
    Row("status", of_floods.status),
    Row("globs", of_floods.globs),
    Row("bulk", of_floods.bulk),
    Row("kept", of_floods.kept, disk=640),
    Row("histories", of_sessions.histories, disk=640),
    Row("leases", of_sessions.leases),
    Row("jump", of_sessions.jump),
    Row("tokens", of_sessions.tokens),
    Row("strangers", of_strangers.strangers, p50_times=BESIDE),
    Row("greetings", of_strangers.greetings, p50_times=BESIDE),
    Row("claimed-ids", of_strangers.claimed_ids, p50_times=BESIDE),
    Row("stolen-ids", of_strangers.stolen_ids, p50_times=BESIDE),
    Row("silent", of_strangers.silent, p50_times=BESIDE),
    Row("wrong-keys", of_keys.wrong_keys, p50_times=BESIDE_KEYS, needs_keys=True),
    Row("half-handshakes", of_keys.half_handshakes, p50_times=BESIDE_KEYS, needs_keys=True),
]
_MANY: Final = (
    "endless-parts", "endless-empty-parts", "empty-parts", "unread", "large-frames", "requests-1-mb", "hellos",
    "malformed", "globs",
)  # fmt: skip

ROWS: Final = {row.name: row for row in _ONE}
ROWS.update({f"{name}-{MANY}": ROWS[name]._replace(name=f"{name}-{MANY}", connections=MANY) for name in _MANY})
