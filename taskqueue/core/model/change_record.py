"""The record of a change made by a person; ``change_log`` has the rules."""

from __future__ import annotations

from msgspec import Struct, field


class ChangeRecord(Struct, frozen=True, omit_defaults=True, gc=False):
    """Who changed what.

    Attributes:
        number: of the entry in the log; later ones are larger.
        at: unix seconds.
        what: as the command line calls it, such as ``project delete``.
        actor: who asked: as the client said, or what its session is called; ``SIGHUP``: whoever sent that signal. In
            the store it is called ``name``.
        address: of the machine that it came from; empty: not known.
        project: that was changed; empty: it was not about one.
        group: that was meant as a whole.
        count: tasks that it changed or dropped.
        detail: what else there is to be said, such as old values.
        projects: names of those of the group that were changed.
    """

    number: int
    at: float
    what: str
    actor: str = field(name="name")
    address: str = ""
    project: str = ""
    group: str = ""
    count: int = 0
    detail: str = ""
    projects: list[str] = []
