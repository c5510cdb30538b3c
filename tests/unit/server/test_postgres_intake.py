"""Rows of an inbox with any content: each becomes a task, or is refused with the reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pytest

from taskqueue.protocol.tasks import NewTasks
from taskqueue.server.postgres_intake import TableIntake
from taskqueue.store.postgres.inbox import InboxRow

LARGEST: Final = 8 << 20
DEEP: Final = 100_000
GOOD: Final = InboxRow(b"good", 20, b"news", b"http://site/", None, None, None, None, None)


class Rows:
    """Table with some rows."""

    where = "a database"
    inbox_has_more = has_retired = False

    def __init__(self, *rows: InboxRow) -> None:
        self._rows = rows

    def inbox_rows(self, without: Collection[bytes], largest: int) -> Sequence[InboxRow]:
        return [row for row in self._rows if row.id not in without]

    def fileno(self) -> int:
        return -1

    def hear(self) -> None:
        """Read no notifications."""

    def has_heard(self) -> bool:
        return False


ODD: Final[dict[str, dict[str, Any]]] = {
    "url that is not UTF-8": {"url": b"http://site/\xff"},
    "project that is not UTF-8": {"project": b"\xed\xa0\x80"},
    "taskid that is not UTF-8": {"taskid": b"\xfe"},
    "policy that is not UTF-8": {"on_parent_failure": b"\xff"},
    "body that is not UTF-8": {"body": b'"\xff"'},
    "half a character": {"body": b'"\\ud800"'},
    "nested deep": {"body": b"[" * DEEP + b"]" * DEEP},
    "maps nested deep": {"schedule": b'{"a":' * DEEP + b"1" + b"}" * DEEP},
    "giant number": {"body": b"1" * 400},
    "infinite number": {"schedule": b'{"delay": 1e400}'},
    "no map": {"schedule": b"[1]"},
    "cut off": {"depends_on": b"[["},
    "nothing at all": {"project": b"", "url": b""},
}


@pytest.mark.parametrize("fields", ODD.values(), ids=ODD)
def test_a_row_that_can_not_be_a_task_is_refused_and_the_next_one_is_taken_up(fields: dict[str, Any]) -> None:
    row = InboxRow(**{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | fields | {"id": b"odd"})
    intake = TableIntake(Rows(row, GOOD), LARGEST)

    (incoming,) = intake.requests(0.0)
    _, taken = intake.settle([])

    assert isinstance(incoming.request, NewTasks)
    assert [task.url for task in incoming.request.tasks if task] == ["http://site/"]
    assert taken is not None
    ((refused, reason),) = taken.refused
    assert (taken.ids, refused) == ([b"odd"], b"odd")
    assert reason
