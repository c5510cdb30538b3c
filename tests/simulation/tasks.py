"""Tasks that the cast pushes: facts that follow from the taskid, and those that vary by message.

A taskid is ``p1.t07``: its project and its number. By the number, some tasks have a short timeout of their own, and
some (``r`` at the end) recur until they are cancelled, in one project a few times only. All other facts are drawn for
each message.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

PROJECTS: Final = ("p0", "p1", "p2")
PROCESSING_TIMEOUT: Final = 90.0
SHORT_TIMEOUT: Final = 20.0
RETRY_DELAY: Final = [5.0, 40.0, 200.0]
FETCHER_TIMEOUT: Final = 60.0
ON_FINISHED: Final = "on_finished"
ON_FAILURE: Final = "on_failure."
"""Beginning of the taskids of tasks that are made for failed ones, which these end with."""
GROUP: Final = "g"
SHARED: Final = "both"
GRAPH_ENTRY: Final = "night"
"""Name of the cron entries that submit graphs."""
ORDERS: Final = ("arrival", "due", "newest")
"""Values of the setting ``order``."""


def name_of(project: str, number: int) -> str:
    """Make the taskid of a number."""
    return f"{project}.t{number:02}{'r' if number % 17 == 16 else ''}"


def recurs(taskid: str) -> bool:
    """Whether the task runs again and again."""
    return taskid.endswith("r") and not taskid.startswith(ON_FAILURE)


def ends_by_itself(taskid: str) -> bool:
    """Whether the task, which recurs, does so a few times only."""
    return recurs(taskid) and taskid.startswith(PROJECTS[1])


def own_timeout(taskid: str) -> float | None:
    """Return the processing timeout (seconds) that the task asks for in every message."""
    return SHORT_TIMEOUT if taskid[-1] in "05" and not taskid.startswith(ON_FAILURE) else None


def timeout_of(taskid: str) -> float:
    """Return the processing timeout (seconds) that the task gets."""
    return own_timeout(taskid) or PROCESSING_TIMEOUT


def draw_task(rng: Random, project: str, pool: int, wall: float) -> dict[str, Any]:
    """Draw a task for a ``new-task`` or a follow-up: one of ``pool`` names, so that many are known."""
    return draw_named(rng, project, name_of(project, rng.randrange(pool)), wall)


def draw_named(rng: Random, project: str, taskid: str, wall: float) -> dict[str, Any]:
    """Draw a task of this name."""
    schedule = _draw_schedule(rng, taskid, wall)
    task: dict[str, Any] = {"taskid": taskid, "url": f"http://{project}/{taskid}"}
    if schedule:
        task["schedule"] = schedule
    if rng.random() < 0.7:
        task["body"] = {"depth": rng.randrange(9), "note": "x" * rng.randrange(40)}
    return task


def _draw_schedule(rng: Random, taskid: str, wall: float) -> dict[str, Any]:
    schedule: dict[str, Any] = {}
    if rng.random() < 0.5:
        schedule["priority"] = rng.randrange(-2, 6)
    if rng.random() < 0.2:
        schedule["delay"] = float(rng.randrange(200))
    elif rng.random() < 0.1:
        schedule["exetime"] = wall + rng.randrange(-50, 200)
    if rng.random() < 0.2:
        schedule["retries"] = rng.randrange(3)
    if rng.random() < 0.2:
        schedule["age"] = float(rng.randrange(1, 300))
    if rng.random() < 0.1:
        schedule["itag"] = rng.choice("abc")
    if rng.random() < 0.12:
        schedule["force_update"] = True
    if rng.random() < 0.05:
        schedule.update(cancel=True, force_update=rng.random() < 0.7)
    if rng.random() < 0.08 and not recurs(taskid):
        schedule["expires_at"] = wall + rng.randrange(-10, 200)
    if own_timeout(taskid):
        schedule["timeout"] = own_timeout(taskid)
    if recurs(taskid):
        schedule.update(auto_recrawl=True, age=float(rng.randrange(20, 120)))
    if ends_by_itself(taskid):
        schedule["repeat"] = rng.randrange(4)
    if schedule.get("priority", 0) % 2:  # not drawn, so that the same seeds go on as before
        schedule["job"] = "monday" if schedule["priority"] < 3 else "tuesday"
    return schedule
