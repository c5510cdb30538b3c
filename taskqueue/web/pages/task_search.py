"""What a page of tasks is asked for: a state, or any; globs; how long ago; and where the page before ended.

The daemon lists one state at a time. A list of any state goes through them one after the other, and its cursor says in
which of them it is: ``failed 0000018f``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from starlette.exceptions import HTTPException

from taskqueue import AsyncClient
from taskqueue.protocol.choices import WAITING_STATES, StateName
from taskqueue.protocol.tasks import TaskRow
from taskqueue.units import EXAMPLES, parse_duration

STATES: Final[tuple[StateName, ...]] = (
    "processing", "ready", "delayed", "blocked", "failed", "success", "cancelled",
)  # fmt: skip
"""In the order in which a list of any state goes through them."""

FORWARDS_ONLY: Final = WAITING_STATES
"""States that can't be listed backwards."""

WITHOUT_ERRORS: Final = ("processing",)

ROWS: Final = 100
"""Of a page."""

ASKS_MOST: Final = 14
"""Of one page: globs that let little through make short answers, which are put together."""


class Found(NamedTuple):
    """A task in a list, and the state in which it was listed."""

    state: StateName
    row: TaskRow


class TaskSearch(NamedTuple):
    """What is asked for.

    Attributes:
        state: empty: any.
        since: an age such as 2d; empty: at any time.
        newest: backwards where that can be.
        after: where the page before ended; empty: from the first task.
    """

    project: str
    state: StateName | Literal[""] = ""
    url: str = ""
    error: str = ""
    since: str = ""
    newest: bool = False
    after: str = ""

    @property
    def chosen(self) -> dict[str, object]:
        """What an address says to ask for the same, from the start."""
        said = {**self._asdict(), "newest": "1" if self.newest else ""}
        del said["project"], said["after"]
        return said

    @property
    def is_filtered(self) -> bool:
        """Whether some tasks are left out beside those in other states."""
        return bool(self.url or self.error or self.since)


def search_of(project: str, query: Mapping[str, str]) -> TaskSearch:
    """Read the query of an address.

    Raises:
        HTTPException: 400: something in it makes no sense, and what.
    """
    state, since = query.get("state", ""), query.get("since", "")
    if state and state not in STATES:
        raise HTTPException(400, f'state: "{state}" is none of {", ".join(STATES)}')
    if since and parse_duration(since) is None:
        raise HTTPException(400, f'since: "{since}" is no duration, such as {EXAMPLES}')
    newest = bool(query.get("newest"))
    return TaskSearch(
        project, state, query.get("url", ""), query.get("error", ""), since, newest, query.get("after", "")
    )


async def find(client: AsyncClient, search: TaskSearch, now: float) -> tuple[list[Found], str]:
    """A page of tasks, and the cursor of the page after it; empty: there is none."""
    found: list[Found] = []
    states = _states(search)
    begins, _, after = search.after.partition(" ")
    if begins in states:
        states = states[states.index(begins) :]
    asked = 0
    for state in states:
        after = after if state == begins else ""
        while True:
            page = await client.tasks.list(
                search.project,
                state,
                url=search.url,
                error=search.error,
                since=now - (parse_duration(search.since) or 0.0) if search.since else None,
                newest=search.newest and state not in FORWARDS_ONLY,
                after=after,
                limit=ROWS - len(found),
            )
            found += [Found(state, row) for row in page.tasks]
            after, asked = page.next, asked + 1
            if not after:
                break
            if len(found) >= ROWS or asked >= ASKS_MOST:
                return found, f"{state} {after}"
        if len(found) >= ROWS:
            further = states[states.index(state) + 1 :]
            return found, f"{further[0]} " if further else ""
    return found, ""


def _states(search: TaskSearch) -> list[StateName]:
    if search.state:
        return [] if search.error and search.state in WITHOUT_ERRORS else [search.state]
    return [state for state in STATES if not (search.error and state in WITHOUT_ERRORS)]
