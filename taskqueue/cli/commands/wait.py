"""``taskqueue wait``: until a project has finished; for scripts that push a crawl and go on after it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input.daemon import Daemon, patience_option, url_option
from taskqueue.cli.input.names import project_name
from taskqueue.defaults import COMMAND_SECONDS
from taskqueue.display.remaining import remaining_text, to_go_text
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.projects import Remaining

REFRESHES_A_SECOND = 4.0
"""Times that the line is drawn which says how far the project is, on a terminal."""

FIRST_TOLD: Final = (1, 3, 7)
THEN_TOLD: Final = 20
"""Where there is no terminal, a line is printed of these answers of the daemon, which come each half a minute, and then
of each so many."""

NOTHING_LEFT: Final = "nothing is left, but it is held open"


@click.command()
@click.argument("project", type=project_name)
@click.option("--ignore-retries", is_flag=True, help="Tasks that wait for a retry need not end first.")
@patience_option
@url_option
def wait(project: str, ignore_retries: bool, patience: float | None, url: str) -> int:
    """Wait until a project has finished: until no task is left that has to end first.

    Recurring tasks that have run once are not waited for. A project with nothing to do has finished. The exit status is
    0 if it has finished, 1 if it has not within --timeout. A daemon that is restarted meanwhile is waited for.

    A task that has expired is waited for, too: that it has is seen when its turn comes, so not in a project that is
    stopped, paused or without fetchers.

    How far it is, and how long that may take, is said on a terminal all the time, else in a line on stderr: after half
    a minute, then less and less often, at last every ten minutes.

    \b
    Example:
      taskqueue wait news
      taskqueue wait news --ignore-retries && ./report
      taskqueue push news --file tasks.jsonl && taskqueue wait news && ./report
    """
    with Daemon(url, COMMAND_SECONDS).client() as client:
        waiting = _Waiting(client, project, patience, ignore_retries=ignore_retries)
        finished = waiting.on_terminal() if sys.stderr.isatty() else waiting.in_lines()
        if not finished:
            view = client.projects.show(project)
            to_go = to_go_text(view.unfinished, view.remaining, ignores_retries=ignore_retries) or NOTHING_LEFT
            say(f"taskqueue wait: {project} has not finished, {to_go}", err=True)
    return 0 if finished else 1


class _Waiting:
    """One wait, and what is said of it meanwhile."""

    def __init__(self, client: Client, project: str, patience: float | None, *, ignore_retries: bool) -> None:
        self._client = client
        self._project = project
        self._patience = patience
        self._ignore_retries = ignore_retries

    def on_terminal(self) -> bool:
        """Wait with a line on the terminal that says how far it is."""
        from taskqueue.terminal.screen import Screen, Text

        screen, unfinished = Screen(err=True), 0

        def note(left: int) -> None:
            nonlocal unfinished
            unfinished = left

        def tell(remaining: Remaining) -> None:
            to_go = to_go_text(unfinished, remaining, ignores_retries=self._ignore_retries) or NOTHING_LEFT
            line.update(Text(f"{self._project}: {to_go}"))

        with screen.status(Text(self._project), refresh_per_second=REFRESHES_A_SECOND) as line:
            finished = self._wait(note, tell)
        if finished:
            screen.print(Text(f"{self._project} has finished{', but for its retries' * self._ignore_retries}"))
        return finished

    def in_lines(self) -> bool:
        """Wait with a line on stderr now and then."""
        asked = count()

        def tell(remaining: Remaining) -> None:
            if is_told(next(asked)):
                say(f"taskqueue wait: {self._project}: {remaining_text(remaining) or NOTHING_LEFT}", err=True)

        return self._wait(None, tell)

    def _wait(self, progress: Callable[[int], object] | None, tell: Callable[[Remaining], object]) -> bool:
        return self._client.projects.wait(
            self._project, self._patience, progress, ignore_retries=self._ignore_retries, on_remaining=tell
        )


def is_told(place: int) -> bool:
    """Whether a line is printed for the answer at this place, of one each half a minute."""
    return place in FIRST_TOLD or (place > 0 and place % THEN_TOLD == 0)
