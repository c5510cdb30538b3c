"""Laws of whole projects, judged by writes: when they finish, how many tasks are processing, when their entries run.

F1   a project finishes when no ordinary task of it is live and no client keeps it open; once for each time it had work
F2   each finish has its event and its ``on_finished`` task; in calm, none is missing
C1   a project that is not running or checking dispatches nothing; at most three checks of one phase are processing
C2   no project has more processing tasks than its ``max_processing``
C3   a cron entry runs once for a tick, and once a turn
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from taskqueue.core.model.now import Now
from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.task import OVER, PROCESSING
from tests.simulation.tasks import GRAPH_ENTRY, ON_FINISHED, recurs
from tests.simulation.truth import Name, Run, Shown, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round
    from tests.simulation.paces import Paces

CHECKS: Final = 3


class Projects:
    """Judge of projects."""

    def __init__(self, truth: Truth, paces: Paces) -> None:
        self._truth = truth
        self._paces = paces

    def looked(self, now: Now) -> None:
        """Record a turn's time; holds that have expired by then stay expired, even if the clock is put back."""
        for held in [key for key, until in self._truth.holds.items() if until <= now.wall]:
            self._truth.journal.drop(self._truth.holds, held)
        for key, run in self._truth.runs.items():
            if now.wall < run.lowest:
                self._truth.journal.put(self._truth.runs, key, run._replace(lowest=now.wall))

    def held(self, project: str, session: str, until: float) -> None:
        """Record that a client keeps a project open until a time (unix seconds), or no longer."""
        self._truth.journal.put(self._truth.holds, (project, session), until)

    def fed(self, project: str) -> None:
        """Record that a project has got work."""
        self._truth.journal.put(self._truth.fed, project, True)

    def emptied(self, project: str, *, is_gone: bool) -> None:
        """Record that a project was cleared, which does not finish it, or deleted, which also ends its holds."""
        for key in [key for key in self._truth.holds if key[0] == project and is_gone]:
            self._truth.journal.drop(self._truth.holds, key)
        self._truth.journal.put(self._truth.fed, project, False)

    # ------------------------------------------------------------------------------------ F1, F2: the end

    def begun(self, turn: Round) -> list[str]:
        """Judge the beginning of a turn; return the projects that finish in it."""
        finished = []
        for record in turn.kept.projects:
            before = self._truth.records.get(record.number)
            gained = record.finished - (before.finished if before else 0)
            told = sum(event.kind == "finished" and event.project == record.name for event in turn.events)
            if gained and before is not None:
                self._finish(record, gained, told, turn.now)
                finished.append(record.name)
        return finished

    def _finish(self, record: ProjectRecord, gained: int, told: int, now: Now) -> None:
        name = record.name
        if gained != 1 or told != 1:
            raise Violation("F2", name, f"{name} has finished {gained} times in a turn, and {told} were told")
        if not self._truth.fed.get(name):
            raise Violation("F1", name, f"{name} has finished without having had anything to do since")
        for task, held in self._truth.tasks.items():
            if (
                task.project == name
                and held.state not in OVER
                and not (recurs(task.taskid) or task.taskid == ON_FINISHED)
            ):
                raise Violation("F1", task.taskid, f"{name} has finished, but this is in state {held.state}")
        for (project, session), until in self._truth.holds.items():
            if project == name and until > now.wall:
                raise Violation("F1", name, f"{name} has finished, but {session} holds it open")
        self._truth.journal.put(self._truth.fed, name, False)

    def owed(self) -> list[str]:
        """List projects that have had work, have none left, and have not finished."""
        return [shown.name for shown in self._truth.records.values() if shown.is_owed]

    # ------------------------------------------------------------------------------------ C1 to C3

    def written(self, turn: Round, handed: list[Name]) -> None:
        """Judge a written turn with its dispatched tasks."""
        for record in turn.kept.projects:
            if record.number in turn.kept.dropped_projects:
                continue
            given = [name for name in handed if name.project == record.name]
            self._check_state(record, given)
            self._check_out(record, given)
            self._check_entries(record, turn.now)
            self._truth.journal.put(self._truth.records, record.number, _shown(record))

    def _check_state(self, record: ProjectRecord, given: list[Name]) -> None:
        if given and record.state not in ("running", "checking"):
            raise Violation("C1", given[0].taskid, f"{record.name} is {record.state} and hands out")
        if record.state != "checking":
            return
        phase = record.number, record.pause.phase
        tokens = (*self._truth.checks.get(phase, ()), *(self._truth.tasks[name].token for name in given))
        out = {held.token for held in self._truth.tasks.values() if held.state == PROCESSING}
        tokens = tuple(token for token in dict.fromkeys(tokens) if token in out)  # a turn may write it twice
        if len(tokens) > CHECKS:
            raise Violation("C1", record.name, f"{len(tokens)} checks of {record.name} are out")
        self._truth.journal.put(self._truth.checks, phase, tokens)

    def _check_out(self, record: ProjectRecord, given: list[Name]) -> None:
        if not given:
            return
        most = self._paces.setting(record.name, record.overrides, "max_processing", inf)
        out = [name for name, held in self._truth.tasks.items() if held[:2] == (record.number, PROCESSING)]
        if len(out) > most:
            raise Violation("C2", given[0].taskid, f"{record.name} has {len(out)} tasks out, {most} are allowed")

    def _check_entries(self, record: ProjectRecord, now: Now) -> None:
        entries: dict[str, Any] = self._paces.setting(record.name, record.overrides, "cron", {})
        for entry, kept in record.cron.items():
            if entry == GRAPH_ENTRY:
                continue  # law W4
            key, heeded = (record.number, entry), kept.ran + kept.skipped
            every = int(entries[entry]["every"][:-1]) if entry in entries else 1
            run = self._truth.runs.get(key)
            if run is None or heeded < run.heeded or every != run.every:
                fresh = Run(heeded, every, int(now.wall // every), now.wall)
                self._truth.journal.put(self._truth.runs, key, fresh)
            elif heeded > run.heeded:
                self._run(record.name, key, run, Run(heeded, every, int(now.wall // every), now.wall))

    def _run(self, project: str, key: tuple[int, str], before: Run, run: Run) -> None:
        if run.heeded > before.heeded + 1:
            raise Violation("C3", project, f"entry {key[1]} has run {run.heeded - before.heeded} times in a turn")
        was_put_back = before.lowest // before.every < before.tick
        if run.tick <= before.tick and not was_put_back:
            raise Violation("C3", project, f"entry {key[1]} has run twice for one tick")
        self._truth.journal.put(self._truth.runs, key, run)

    def pushed(self, turn: Round) -> list[tuple[Name, bool]]:
        """List (task, surely): tasks that entries pushed at the beginning of a turn; not surely if the turn then
        removed the entry."""
        rows = []
        for record in turn.kept.projects:
            shown = self._truth.records.get(record.number)
            before = shown.ran if shown is not None else {}
            ran = [
                entry for entry, kept in record.cron.items() if kept.ran > before.get(entry, 0) and entry != GRAPH_ENTRY
            ]
            rows += [(Name(record.name, f"cron.{entry}"), True) for entry in ran]
            removed = [entry for entry in before if entry not in record.cron and entry != GRAPH_ENTRY]
            rows += [(Name(record.name, f"cron.{entry}"), False) for entry in removed]
        return rows


def _shown(record: ProjectRecord) -> Shown:
    is_owed = record.armed and not record.unfinished and not record.holds
    check_at = record.pause.check_at if record.state == "paused" else 0.0
    ran = {entry: kept.ran for entry, kept in record.cron.items()}
    return Shown(record.name, record.state, record.finished, check_at, record.pause.until, ran, is_owed)
