"""What keeps a worker from its work, said in its log: at once, and again with growing pauses as long as it is so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.draining import Draining
from taskqueue.errors import ClientError, RequestRejected

PAUSE_SECONDS: Final = 5.0
"""Between the first two times that something is said; doubled each time, up to the next."""
PAUSE_MOST_SECONDS: Final = 300.0

SILENCE_SECONDS: Final = 2.0
"""That a daemon may take for its first answer, before it is said that it does not answer."""

NAMES_MOST: Final = 10
"""Projects that a line names."""

log = logging.getLogger("taskqueue.worker")


async def tell_reach(client: AsyncClient, projects: Sequence[str] | None, slots: int) -> None:
    """Say whenever the daemon can't be reached and, when it can, what this worker wants of it; until cancelled."""
    reach = client.reachability
    wanted = "any" if projects is None else ",".join(projects)
    while True:
        await reach.known(SILENCE_SECONDS)
        pauses = growing_pauses()
        while not reach.answers.is_set():
            log.warning(
                "event=unreachable url=%s reason='nobody answers: is the daemon running there? It is waited for'",
                client.url,
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(reach.answers.wait(), next(pauses))
        log.info(
            "event=connected url=%s version=%s projects=%s slots=%d", client.url, reach.version or "?", wanted, slots
        )
        await reach.lost.wait()


async def tell_draining(draining: Draining, *, ends: bool) -> None:
    """Say when this worker is to finish, when it has, and when it is to go on; until cancelled.

    Args:
        ends: return when it has finished.
    """
    while True:
        await draining.told.wait()
        log.info(
            "event=draining name=%s reason='no new tasks come: what has begun is finished, the rest goes back'",
            draining.name,
        )
        await _either(draining.finished, draining.taking)
        if draining.finished.is_set():
            log.info(
                "event=drained name=%s reason='all that was held is over; tasks come again after "
                "`taskqueue fetcher resume %s`'",
                draining.name,
                draining.name,
            )
            if ends:
                return
        await draining.taking.wait()
        log.info("event=resumed name=%s reason='tasks come again'", draining.name)


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


async def tell_unknown(client: AsyncClient, projects: Sequence[str]) -> None:
    """Say in one line which of the projects do not exist, until all do."""
    unknown: Sequence[str] = []
    for pause in growing_pauses():
        missing = [project for project in unknown or projects if not await _exists(client, project)]
        if missing:
            log.warning(
                "event=unknown-project project=%s reason='%s'", _joined(missing, ","), _why_nothing_comes(missing)
            )
        if found := [project for project in unknown if project not in missing]:
            log.info("event=project-found project=%s", _joined(found, ","))
        if not missing:
            return
        unknown = missing
        await asyncio.sleep(pause)


def _joined(projects: Sequence[str], between: str) -> str:
    return between.join([*projects[:NAMES_MOST], *["…"] * (len(projects) > NAMES_MOST)])


def _why_nothing_comes(missing: Sequence[str]) -> str:
    start = f"`taskqueue project start {_joined(missing, ' ')}`"
    if len(missing) == 1:
        return f"it does not exist, so nothing of it is handed out; {start} makes it"
    return f"these {len(missing)} do not exist, so nothing of them is handed out; {start} makes them"


def growing_pauses() -> Iterator[float]:
    """Seconds between the times that something is said, for ever."""
    pause = PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, PAUSE_MOST_SECONDS)


async def _exists(client: AsyncClient, project: str) -> bool:
    """It is there, or nobody can tell now."""
    try:
        await client.projects.show(project)
    except RequestRejected as error:
        return error.code != "unknown-project"
    except ClientError:
        return True
    return True
