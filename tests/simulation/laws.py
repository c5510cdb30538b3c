"""Laws, checked from outside as events happen: by messages and writes, never by asking the scheduler.

S1   an accepted task or report is never lost
S2   a task finishes at most once between two restarts; every outcome fits the task's former state
S3   two leases of one task are never in force at once; a lease ends only for a reason
S4   a token is counted at most once, and only while it is the task's; none is given twice, numbers grow; a part is kept
     only while its token could count, and does not use it up
S5   a reply is sent only after its writes; a repeated request gets an equal reply
S6   in any t seconds a project dispatches at most burst + rate * t, across restarts   (paces)
S7   a fetcher never has, or works on, more than its capacity, nor gets unwanted tasks   (leases)
S8   the scheduler equals one that is loaded from the store, order included            (reloads)
S9   the scheduler's own check finds no problem                                        (host)
S10  a scheduler that was succeeded writes nothing
S11  a delayed task is not dispatched before its time, nor a task that a rerun keeps before its release
S12  the store is consistent                                                           (reloads)
S13  no slot dispatches before its time, across restarts
S14  no slot has more processing tasks than its maximum
S15  no slot takes more new tasks than its maximum, nor fewer                          (slots)
S16  with synced hand-outs no task leaves for a fetcher before its lease is on disk
L1   in calm, every accepted task ends, and every operation                            (play)
L2   the scheduler never sleeps past due work                                          (sleep)
L3   the scheduler is awake only if there is work                                      (sleep)
F1 F2 C1 C2 C3   ends of projects, their processing tasks, runs of entries    (projects)
F3   each task that fails for good leads to one task of ``on_failure``, in its commit
O1   a bulk operation changes each old task that it selects once              (operations)
O2   an undo gives tasks back what they were, unless they have changed since  (operations)
B1 to B3   what an attempt leaves to the next, and its new tasks with their jobs    (attempts)
A1   each failed attempt is written to the failures in the turn that ends it          (failures)
R1   only tasks that finished longer ago than their project keeps them are dropped; forgotten only if it says so
G1 to G8   dependent tasks run after their parents, once                      (edges)
W1 to W4   each task of a flow that is accepted is made once; a tick of a graph has one flow  (flows)
I1   an import brings each part of its export once                                     (importers)
N1   a draining fetcher gets no new task, and its welcome says so                      (drains)
H1   free, running and hung places of a fetcher are those of its hello                 (places)
P1   each task goes to the best waiting fetcher that could take it                     (ranks)
P2   no task is dispatched while the store has a due one that has to go before it      (ranks)
P3   no task is dispatched before a ready one that goes before it by the project's order  (ranks)
T1   four fifths of a lease are noted when they have passed                            (leases)
D1   the same seed gives the same trace, whatever the store and the order of hashes    (test_seeds)

Within a turn a task may go through several states. Its possible states are a set, which every event narrows:

    new          unknown ─► waiting              done, ok      leased, waiting ─► over
    merged       waiting ─► waiting              done, failed  leased ─► waiting or over
    deferred     leased ─► leased                cancelled     known ─► over
    restarted    over ─► waiting                 ran out       leased ─► leased, waiting or over
    expired      waiting ─► over                 cleared       live ─► unknown

and what the turn writes must be in the set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from math import inf
from typing import Any, Final, NamedTuple

from taskqueue.core.model.events import Event
from taskqueue.core.model.hashes import derive
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import OperationRecord, WriteSet
from taskqueue.core.model.task import (
    DELAYED,
    FAILED,
    PROCESSING,
    READY,
    STATE_NAMES,
    Move,
    Task,
    is_held,
    key_time,
    ready_key,
)
from taskqueue.core.model.task import OVER as ENDED
from taskqueue.settings.settings import CoreConfig
from tests.simulation.attempts import Attempts
from tests.simulation.drains import Drains
from tests.simulation.edges import Edges
from tests.simulation.failures import wrong_failures
from tests.simulation.flows import Flows
from tests.simulation.importers import Imports, ends_live
from tests.simulation.leases import Leases
from tests.simulation.operations import Bulks, Undone, Undos
from tests.simulation.outcomes import by_request, first_task, follow_ups, outcomes
from tests.simulation.paces import Paces
from tests.simulation.places import Places
from tests.simulation.projects import Projects
from tests.simulation.ranks import HandOut, Ranks
from tests.simulation.sleep import Sleep
from tests.simulation.slots import Slots
from tests.simulation.tasks import ON_FAILURE, ON_FINISHED, ends_by_itself, recurs
from tests.simulation.truth import EPSILON, Answer, Facts, Held, Name, Truth
from tests.simulation.world import Violation, World

Message = dict[str, Any]

UNKNOWN, WAITING, LEASED, OVER = "unknown", "waiting", "leased", "over"
KNOWN: Final = frozenset((WAITING, LEASED, OVER))

_FITS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "new": (frozenset((UNKNOWN,)), frozenset((WAITING,))),
    "merged": (frozenset((WAITING,)), frozenset((WAITING,))),
    "replaced": (frozenset((WAITING,)), frozenset((WAITING,))),
    "deferred": (frozenset((LEASED,)), frozenset((LEASED,))),
    "restarted": (frozenset((OVER,)), frozenset((WAITING,))),
    "cancelled": (KNOWN, frozenset((OVER,))),
}
"""By outcome of a new-task: states that the task may have had, and those that it may have then."""

ACCEPTED: Final = frozenset(_FITS)
READS: Final = (
    "hello", "status", "fetchers", "stats", "project-show", "project-wait", "task-show", "task-list", "why",
    "operation-show", "operation-list", "verify", "flow-submit",
)  # fmt: skip
"""Requests whose reply is not stored, so that a repeat may get another one."""

KEPT: Final = ("new-task-reply", "done-reply", "tasks-reply", "tokens-reply")
"""Replies of requests whose reply is stored."""


class Round(NamedTuple):
    """Turn, as seen from outside.

    Attributes:
        requests, said: (peer, message), decoded apart from the daemon's own codec.
        kept: what was written; empty if ``written`` is False.
        events: events for users.
        missed: (session, tokens) of selects of the turn before that could not be sent.
    """

    now: Now
    requests: list[tuple[bytes, Message]]
    said: list[tuple[bytes, Message]]
    kept: WriteSet
    written: bool
    events: list[Event]
    missed: list[tuple[str, list[int]]]


class Judge:
    """Judge of one world.

    Attributes:
        truth: contents of the store, and events in progress.
        handed: dispatches so far; ``handed_to`` are those of the last turn.
    """

    def __init__(self, world: World, config: CoreConfig, durable: bool) -> None:
        self.truth = Truth()
        self.paces = Paces(world, self.truth, config)
        self.sleep = Sleep(world, self.truth, self.paces)
        self.projects = Projects(self.truth, self.paces)
        self.bulks = Bulks(self.truth)
        self.undos = Undos(self.truth)
        self.leases = Leases(world, self.truth)
        self.slots = Slots(world, self.truth)
        self.attempts = Attempts(self.truth)
        self.drains = Drains(self.truth, world.secret)
        self.ranks = Ranks(world, self.truth, self.paces)
        self.places = Places(world, self.truth)
        self.edges = Edges(self.truth)
        self.flows = Flows(self.truth, self.paces)
        self.imports = Imports(self.truth)
        self._waiting: dict[tuple[bytes, int], Message] = {}
        self.handed = 0
        self.handed_to: list[Name] = []
        self._world = world
        self._durable = durable
        self._journal = self.truth.journal
        self._greatest = 0
        self._given: set[int] = set()
        self._secret = world.secret
        self._left: set[tuple[str, int]] = set()
        self._may_be: dict[Name, frozenset[str]] = {}
        self._tokens: dict[Name, int] = {}
        self._wall = 0.0
        self._config: CoreConfig | None = None
        self._reset: dict[str, int] = {}
        self._set: dict[str, int] = {}
        self._deleted: set[str] = set()
        self._missed: dict[str, None] = {}
        self._waits_for_sync = config.synced_handout
        self._unsynced: set[int] = set()

    # ------------------------------------------------------------------------------------ events

    def turned(self, turn: Round) -> None:
        """Judge a turn that was decided and, if it had writes, written."""
        self._may_be, self._tokens = {}, {}
        self._wall = turn.now.wall
        self._reset.clear()
        self._set.clear()
        self._deleted.clear()
        self.edges.begin()
        self.attempts.begin()
        self.imports.begin()
        self.places.begin(turn.requests, missed=bool(turn.missed))
        self.leases.end_by_time()
        self.projects.looked(turn.now)
        self.flows.looked(turn.now)
        self._push_own(turn)
        if self._config is not None:
            self.paces.configured(self._config)
            self._config = None
        for session, tokens in turn.missed:
            self._miss(session, tokens)
        replies = by_request(turn.said)
        for key in [key for key in self._waiting if key in replies]:
            self._take(self._waiting.pop(key), replies[key].pop(0))
        for peer, request in turn.requests:
            self._hear(request, replies.get((peer, request["n"]), []))
        self._write(turn)
        if turn.written:
            self._journal.commit()
        self.sleep.turned(heard=bool(turn.requests), did=bool(turn.said) or turn.written)

    def synced(self) -> None:
        """Record that everything written so far is on disk."""
        self._journal.synced()
        self._unsynced.clear()

    def configured(self, config: CoreConfig) -> None:
        """Record that another config is in force from this turn on, except for the turn's own pushes.

        The config of a scheduler that was succeeded has no effect: the store refuses its writes.
        """
        self._config = config

    def power_cut(self, lucky: int) -> None:
        """Record that the machine died after ``lucky`` unsynced writes had reached the disk."""
        before = dict(self.truth.answers)
        self._journal.cut(lucky)
        self._unsynced.clear()
        lost = before.keys() - self.truth.answers.keys()
        told = sorted(lost & self._left)
        if told and self._durable:
            task = first_task(before[told[0]].request)
            self._fail("S5", task, f"the answer to {told[0]} had left, but a power cut undid what it told")
        self._left -= lost
        self.paces.power_cut()

    def restarted(self, config: CoreConfig, *, same_boot: bool) -> None:
        """Record that a scheduler has loaded the store."""
        self._config = None
        self.truth.facts.clear()
        self.truth.takers.clear()
        self.truth.running.clear()
        self.truth.mentioned.clear()
        self.truth.unnamed.clear()
        self._missed.clear()
        self._waiting.clear()
        self.paces.restarted(config, same_boot=same_boot)
        self.leases.restarted(same_boot=same_boot)
        self.drains.restarted()
        self.ranks.restarted()
        self.slots.restarted()

    def leaving(self, session: str, message: Message, knows: Callable[[int, str], bool]) -> None:
        """Judge a message that leaves for a client; ``knows`` asks the store for a task, by its project's number."""
        if message["type"] == "select":
            self._judge_select(session, message)
        if message["type"] not in KEPT:
            return
        self._left.add((session, message["n"]))
        answer = self.truth.answers.get((session, message["n"]))
        if answer is None:
            self._fail("S5", session, f"the answer to #{message['n']} leaves, but nothing of it is kept")
            return
        for name, outcome in outcomes(answer.request, answer.reply):
            facts = self.truth.projects.get(name.project)
            gone = facts is None or self._gone_at(name) >= answer.at
            if outcome in ACCEPTED and not gone and facts and not knows(facts.number, name.taskid):
                self._fail("S5", name.taskid, f"its producer is told {outcome}, but the store doesn't know it")

    def _judge_select(self, session: str, message: Message) -> None:
        early = [task["taskid"] for task in message["tasks"] if task["token"] in self._unsynced]
        if early and self._waits_for_sync:
            self._fail("S16", early[0], f"{session} gets it, but a power cut could still undo its lease")

    def told(self, session: str, request: Message, reply: Message) -> None:
        """Record the first reply that a client hears to its request."""
        if request["type"] in READS or reply["type"] == "error":
            return
        answer = self.truth.answers.get((session, reply["n"]))
        if answer is None and self._durable:
            self._fail("S5", first_task(request), f"{session} #{reply['n']} was answered, which is not kept")
        if answer is not None and self._durable and answer.reply != reply:
            self._fail("S5", first_task(request), f"{session} #{reply['n']}: {reply} but kept {answer.reply}")

    def fenced_write(self, who: str) -> None:
        """Judge a write of a scheduler that was succeeded."""
        self._fail("S10", who, "it has written although a newer epoch had begun")

    def accepted(self) -> Iterable[Name]:
        """Yield accepted tasks that must still be known."""
        for answer in self.truth.answers.values():
            for name, outcome in outcomes(answer.request, answer.reply):
                if outcome in ACCEPTED and self._gone_at(name) < answer.at:
                    yield name

    def _gone_at(self, name: Name) -> float:
        """Return the true time at which a task of that name was last dropped, with its project or by retention."""
        return max(self.truth.dropped_at.get(name.project, -1.0), self.truth.forgotten_at.get(name, -1.0))

    # ------------------------------------------------------------------------------------ what is heard

    def _push_own(self, turn: Round) -> None:
        """Record the scheduler's own pushes, which come before the turn's requests."""
        for project in self.projects.begun(turn):
            if self.has_finisher(project):
                self._become_pushed(Name(project, ON_FINISHED))
                is_dropped = self.truth.projects[project].number in (*turn.kept.cleared, *turn.kept.dropped_projects)
                if not is_dropped and not any(move[0].taskid == ON_FINISHED for move in turn.kept.moves):
                    self._fail("F2", project, f"{project} has finished, and its {ON_FINISHED} is not touched")
        for name, surely in self.projects.pushed(turn):
            if surely:
                self._become_pushed(name)
            elif any(move[0].taskid == name.taskid for move in turn.kept.moves):
                self._widen(name, WAITING)
                self.attempts.made(name)
                self.projects.fed(name.project)

        self._submit_graphs(turn)

    def _submit_graphs(self, turn: Round) -> None:
        """Record the tasks of flows that cron entries have submitted."""
        numbers = {facts.number: name for name, facts in self.truth.projects.items()}
        for name, item in self.flows.submitted(turn, numbers):
            if self._states(name) != {UNKNOWN}:
                self._fail("W4", name.taskid, "it is made, but it is known")
            self._may_be[name] = frozenset((WAITING,))
            self.attempts.made(name)
            self.edges.pushed(name, "new", item)
            self.projects.fed(name.project)

    def has_finisher(self, project: str) -> bool:
        """Whether the project pushes a task when it finishes."""
        facts = self.truth.projects.get(project)
        return facts is not None and self.paces.setting(project, facts.overrides, "on_finished", None) is not None

    def _become_pushed(self, name: Name) -> None:
        may_be = self._states(name)
        self.attempts.made(name)
        if name.taskid != ON_FINISHED:
            self.projects.fed(name.project)
        if LEASED in may_be:
            self._put(self.truth.deferred, name, True)
            self._may_be[name] = may_be | {WAITING, LEASED}
        else:
            self._revoke(name)
            self._may_be[name] = frozenset((WAITING,))

    def _hear(self, request: Message, replies: list[Message]) -> None:
        session = request["session"]
        self.truth.heard_at[session] = self._world.clock.now
        is_news = request["type"] == "hello" and self._hear_hello(session, request)
        reply = replies.pop(0) if replies else None
        if reply is None:
            if request["type"] not in READS:
                self._waiting[session.encode(), request["n"]] = request
            return
        if is_news and reply["type"] != "error":
            self.drains.welcomed(session, reply)
        self._take(request, reply)

    def _take(self, request: Message, reply: Message) -> None:
        """Judge a reply, in the turn that heard the request or in a later one."""
        session = request["session"]
        if reply["type"] == "error":
            return
        first = self.truth.answers.get((session, request["n"]))
        if first is not None:
            self._hear_repeat(first, reply)
            return
        if request["type"] not in READS:
            self._put(self.truth.answers, (session, request["n"]), Answer(self._world.clock.now, request, reply))
        _HEAR.get(request["type"], Judge._hear_other)(self, request, reply)

    def _hear_repeat(self, first: Answer, reply: Message) -> None:
        if reply != first.reply:
            task = first_task(first.request)
            self._fail("S5", task, f"a repeat was answered {reply}, the first time {first.reply}")

    def _hear_other(self, request: Message, reply: Message) -> None:
        pass

    def _hear_hello(self, session: str, hello: Message) -> bool:
        """Apply a hello; return False if it is not newer."""
        n, _, _ = self.truth.facts.get(session, (0, 0, None))
        if hello["n"] < n or (hello["n"] == n and session in self._missed):
            return False
        self._missed.pop(session, None)
        self.truth.facts[session] = hello["n"], hello["capacity"], hello["projects"]
        self.truth.takers[session] = True
        if hello["n"] > n:
            self.leases.states(session, hello)
            self.drains.stated(session, hello)
            self.ranks.stated(session, hello)
        holds = set(hello["holds"])
        for token, lease in self.leases.of(session):
            if lease.number <= hello["seen"] and token not in holds:
                self.leases.end(token)
                self._widen(lease.name, WAITING)
                self.edges.may_have_ended(lease.name)
        return bool(hello["n"] > n)

    def _miss(self, session: str, tokens: list[int]) -> None:
        """Record a message that could not be sent: others get its tasks, and the fetcher none until its next hello."""
        self.truth.takers.pop(session, None)
        self._missed[session] = None
        for token in tokens:
            if lease := self.truth.leases.get(token):
                self.leases.end(token)
                self._widen(lease.name, WAITING)
                self.edges.may_have_ended(lease.name)

    def _hear_new_tasks(self, request: Message, reply: Message) -> None:
        codes = {error["index"]: error.get("code", "") for error in reply.get("errors", ())}
        for index, (name, outcome) in enumerate(outcomes(request, reply)):
            self._become(name, outcome, request["tasks"][index])
            self.attempts.pushed(name, outcome, request["tasks"][index])
            self.edges.pushed(name, outcome, request["tasks"][index])
            self.slots.pushed(name, outcome, codes.get(index, ""))

    def _hear_import(self, request: Message, reply: Message) -> None:
        for name, item in self.imports.stepped(request, reply):
            if UNKNOWN not in self._states(name):
                continue
            self._may_be[name] = frozenset((WAITING if ends_live(item) else OVER,))
            self.attempts.pushed(name, "new", item)
            if ends_live(item):
                self.projects.fed(name.project)

    def _hear_done(self, request: Message, reply: Message) -> None:
        came_out = iter(follow_ups(request, reply))
        decided = reply.get("new") or [[] for _ in request["tasks"]]
        for item, outcome, became_of in zip(request["tasks"], reply["outcomes"], decided, strict=True):
            name = Name(item["project"], item["taskid"])
            job = self.attempts.job_of(name)  # before its new tasks, of which one may be the task itself
            self.attempts.reported(name, item, outcome, len(became_of))
            if not item.get("part"):
                self.leases.lets_go(request["session"], item["token"])
            if outcome == "kept":
                self._keep(name, item)
            elif outcome == "done":
                self._count(name, item)
            elif outcome == "stale":
                self._refuse(name, item)
            for new, (follow_up, became) in zip(item.get("new", []), next(came_out), strict=False):
                self._become(follow_up, became, new)
                self.attempts.pushed(follow_up, became, new, job)
                self.edges.pushed(follow_up, became, new)
                self.slots.pushed(follow_up, became)

    def _hear_tokens(self, request: Message, reply: Message) -> None:
        for token in [lease["token"] for lease in request["leases"]]:
            lease = self.truth.leases.get(token)
            if request["type"] == "release":
                self.leases.lets_go(request["session"], token)
                self.truth.released_at[request["session"]] = self._world.clock.now
            if lease is None or token in reply["stale"]:
                continue
            if request["type"] == "release":
                self.leases.end(token)
                # One that has expired counts as timed out, which may have been the last retry.
                has_expired = self._world.clock.now >= lease.until - EPSILON
                self._may_be[lease.name] = frozenset((WAITING, OVER) if has_expired else (WAITING,))
                self._tokens[lease.name] = 0
                self.edges.ended(lease.name)
            else:
                self.leases.extend(token, lease, request.get("seconds"))

    def _hear_tasks(self, request: Message, reply: Message) -> None:
        become = OVER if request["type"] == "task-cancel" else WAITING
        for taskid, outcome in zip(request["taskids"], reply["outcomes"], strict=True):
            name = Name(request["project"], taskid)
            if outcome == "done":
                self._revoke(name)
                self._may_be[name] = frozenset((become,))
                self.projects.fed(name.project)
                if become == OVER:
                    self._cancel(name)
                else:
                    self.edges.retried(name)
                    self.edges.ran_by_hand(name)

    def _cancel(self, name: Name) -> None:
        """Record that the task was cancelled, and that its deferred update has taken effect."""
        self.edges.cancelled(name)
        self.attempts.cancelled(name)

    def _hear_settings(self, request: Message, reply: Message) -> None:
        self._set[request["project"]] = self._set.get(request["project"], 0) + 1

    def _hear_action(self, request: Message, reply: Message) -> None:
        self._act(request["project"], request["action"])

    def _hear_group(self, request: Message, reply: Message) -> None:
        for project in reply["operation"]["projects"]:
            self._act(project, request["action"])

    def _act(self, project: str, action: str) -> None:
        if action not in ("clear", "reset", "delete"):
            return
        self._put(self.truth.dropped_at, project, self._world.clock.now)
        self.slots.cleared(project)
        facts = self.truth.projects.get(project)
        is_empty = project in self._deleted or project in self._reset
        if action == "reset" and facts is not None and project not in self._deleted:
            self._reset[project] = facts.number
        elif action == "delete":
            self.imports.dropped(project)
            self._deleted.add(project)
            self._reset.pop(project, None)
        self.projects.emptied(project, is_gone=action == "delete")
        names = [name for name in (*self.truth.tasks, *self._may_be) if name.project == project]
        for name in dict.fromkeys(names):
            may_be = self._states(name)
            was = self.truth.tasks.get(name)
            if was is None:
                self.edges.failed(name)
            if action != "clear" or was is None or was.state not in ENDED or is_empty:
                gone = {OVER} & may_be if action == "clear" else set()
                self._may_be[name] = frozenset((UNKNOWN, *gone)) if may_be != {OVER} or not gone else may_be
            else:
                self._may_be[name] = frozenset((OVER,))
            if self._may_be[name] != {OVER}:
                self._revoke(name)
                self._journal.drop(self.truth.deferred, name)
                self.edges.cleared(name, surely=OVER not in self._may_be[name])

    def _hear_fetchers(self, request: Message, reply: Message) -> None:
        self.places.told(reply)

    def _hear_drain(self, request: Message, reply: Message) -> None:
        self.drains.acted(request)

    def _hear_stage(self, request: Message, reply: Message) -> None:
        self.flows.staged(request, reply)

    def _hear_hold(self, request: Message, reply: Message) -> None:
        until = self._wall + request["seconds"] if request["seconds"] else 0.0
        self.projects.held(request["project"], request["session"], until)

    # ------------------------------------------------------------------------------------ S2, S4: outcomes

    def _become(self, name: Name, outcome: str, item: Message) -> None:
        may_be = self._states(name)
        if outcome not in _FITS:
            return
        before, after = _FITS[outcome]
        if not may_be & before:
            self._fail("S2", name.taskid, f"{outcome}, but it was {_words(may_be)}")
        if outcome == "deferred":
            self._put(self.truth.deferred, name, True)
            after = after if may_be == after else after | {WAITING}  # the lease may end in this turn
        elif outcome != "merged":
            self._revoke(name)
            after |= {OVER} if self.edges.may_drop(name, item) else set()
        if outcome != "merged" or name in self._may_be or not self._is_held(name):
            self._may_be[name] = after
        if after != {OVER} and outcome != "merged":
            self.projects.fed(name.project)

    def _is_held(self, name: Name) -> bool:
        """Whether a rerun kept the task before this turn: only its release, a user or a replacement ends that."""
        held = self.truth.tasks.get(name)
        return held is not None and held.is_held

    def _keep(self, name: Name, item: Message) -> None:
        """Judge an accepted part of a report: it needs what a success needs, and ends nothing."""
        if not item.get("part"):
            self._fail("S4", name.taskid, "an answer that was no part was kept as one")
        self._check_token(name, item["token"], ok=True)

    def _check_token(self, name: Name, token: int, *, ok: bool) -> None:
        may_be = self._states(name)
        if token in self.truth.counted:
            self._fail("S4", name.taskid, f"token {token:x} was counted twice")
        if token != self._token(name):
            self._fail("S4", name.taskid, f"token {token:x} was counted, but {self._token(name):x} is in force")
        if not may_be & frozenset((LEASED, WAITING) if ok else (LEASED,)):
            self._fail("S2", name.taskid, f"its answer counted, but it was {_words(may_be)}")

    def _count(self, name: Name, item: Message) -> None:
        """Judge a report that counted."""
        token, ok = item["token"], item.get("ok", True)
        if item.get("part"):
            self._fail("S4", name.taskid, "a part of an answer was taken for all of it")
        self._check_token(name, token, ok=ok)
        self._put(self.truth.counted, token, True)
        first = name not in self._may_be
        self._may_be[name] = self._after_answer(name, item, ok)
        if ok:
            self.edges.succeeded(name)
        else:
            self.attempts.failed(name, item, self._may_be[name], first=first)
        self.edges.ended(name)
        self.leases.end(token)

    def _after_answer(self, name: Name, item: Message, ok: bool) -> frozenset[str]:
        if name in self.truth.deferred:
            return frozenset((WAITING, OVER) if self.edges.may_drop(name) else (WAITING,))
        if ok and ends_by_itself(name.taskid):
            return frozenset((WAITING, OVER))
        if ok:
            return frozenset((WAITING if recurs(name.taskid) else OVER,))
        if item.get("retry") is False and not recurs(name.taskid):
            return frozenset((OVER,))
        if item.get("again", {}).get("counts") is False:
            return frozenset((WAITING,))
        return frozenset((WAITING, OVER))

    def _refuse(self, name: Name, item: Message) -> None:
        """Judge a report that was called stale."""
        lease = self.truth.leases.get(item["token"])
        if lease is not None and self._states(name) == {LEASED} and self._token(name) == item["token"]:
            self._fail("S4", name.taskid, f"the answer with {item['token']:x}, which is in force, was refused")

    def _revoke(self, name: Name) -> None:
        """End the task's lease, if it has one."""
        self.leases.end(self._token(name))
        self._tokens[name] = 0

    def _states(self, name: Name) -> frozenset[str]:
        """Return the states that the task may have at this point of the turn."""
        if name in self._may_be:
            return self._may_be[name]
        held = self.truth.tasks.get(name)
        if held is None:
            return frozenset((UNKNOWN,))
        if held.state != PROCESSING:
            return frozenset((_class(held.state),))
        lease = self.truth.leases.get(held.token)
        return frozenset((LEASED,)) if lease is not None and not lease.ended else KNOWN

    def _widen(self, name: Name, state: str) -> None:
        """Add a state that the task may have."""
        self._may_be[name] = self._states(name) | {state}

    def _token(self, name: Name) -> int:
        held = self.truth.tasks.get(name)
        return self._tokens.get(name, held.token if held else 0)

    # ------------------------------------------------------------------------------------ what is written

    def _write(self, turn: Round) -> None:
        numbers = {facts.number: name for name, facts in self.truth.projects.items()}
        for number in turn.kept.dropped_projects:
            self._drop_project(number, numbers.get(number, ""))
        for number in turn.kept.cleared:
            self._drop_live(number)
        for record in turn.kept.projects:
            if record.number not in turn.kept.dropped_projects:
                numbers[record.number] = record.name
                self._write_project(
                    record.name, Facts(record.number, record.state, dict(record.overrides), record.newest is None)
                )
        touched = set(self._may_be)
        changed = self.bulks.step(turn, touched)
        for name, operation, surely in changed:
            self._change(name, operation, surely=surely)
        decided = self.undos.step(turn, numbers, touched, changed)
        for undone in decided:
            self._undo(undone)
        for name in self.undos.cancelled():
            self._cancel(name)
        self._may_expire(turn, numbers)
        # Steps such as those of reruns may revoke the lease later in the turn.
        for kept in turn.kept.attempts:
            if kept.attempt.outcome == "slow" and kept.project in numbers:
                name = Name(numbers[kept.project], kept.taskid)
                self.leases.slow(name, self._token(name))
        for name in self.edges.failed_upstream(turn, numbers):
            self._widen(name, OVER)
        # Children may have been dropped in this turn before an undo brought their parents back.
        for undone in decided:
            if undone.surely and undone.action == "cancel":
                self.edges.brought_back(undone)
        for name in self.edges.revived(turn, numbers):
            self._widen(name, WAITING)
            self.projects.fed(name.project)
        for name in self.edges.reset(turn, numbers):
            self._revoke(name)
            self._widen(name, WAITING)
            self.projects.fed(name.project)
        ended = self._flow_on(turn, numbers)
        self._look_at_failures(turn, numbers)
        self.edges.passed(turn)
        self.ranks.begin(turn.kept.operations)
        greatest, handed = self._greatest, self.handed_to
        handed.clear()
        for move in turn.kept.moves:
            self._write_task(Name(numbers[move[0].project], move[0].taskid), move, turn, greatest)
        for old in turn.kept.old:
            self._write_old(Name(numbers[old.task.project], old.task.taskid), old.task, turn)
        self._check_changed(changed, turn)
        self.undos.judge(turn, ended)
        self.edges.written(turn, numbers)
        if problem := wrong_failures(turn.kept):
            self._fail("A1", "", problem)
        self.attempts.handed(turn)
        self.projects.written(turn, handed)
        self.imports.written(turn)
        self.ranks.turned(turn.now.wall)
        self.slots.turned(handed)

    def _look_at_failures(self, turn: Round, numbers: Mapping[int, str]) -> None:
        """Judge law F3, and record the tasks that were made for failed ones."""
        made: Counter[Name] = Counter()
        failed = {Name(numbers[each.project], each.taskid) for _, each in turn.kept.failures if each.project in numbers}
        for task, old_state, *_ in turn.kept.moves:
            name = Name(numbers[task.project], task.taskid)
            if name.taskid.startswith(ON_FAILURE) and not old_state:
                self._may_be[name] = frozenset((WAITING,))
                self.attempts.made(name)
                self.projects.fed(name.project)
                made[name._replace(taskid=name.taskid.split(".", 3)[3])] += 1
        for name, count in made.items():
            if name not in failed or count > 1 or name.taskid.startswith(ON_FAILURE):
                self._fail("F3", name.taskid, f"{count} tasks were made for its failure")
        gone = (*turn.kept.cleared, *turn.kept.dropped_projects)
        for task, *_ in turn.kept.moves:
            name = Name(numbers[task.project], task.taskid)
            fails = task.state == FAILED and name in failed and task.project not in gone
            if fails and name not in made and self._has_on_failure(name):
                self._fail("F3", name.taskid, "it has failed for good, and no task was made for that")

    def _has_on_failure(self, name: Name) -> bool:
        """Whether the failure of the task surely leads to another task; not if settings have changed in this turn."""
        facts = self.truth.projects.get(name.project)
        if facts is None or name.project in self._set or name.taskid.startswith(ON_FAILURE):
            return False
        return self.paces.setting(name.project, facts.overrides, "on_failure", None) is not None

    def _flow_on(self, turn: Round, numbers: Mapping[int, str]) -> Set[Name]:
        """Judge tasks that flows have made or ended; return those that cancels of flows have reached."""
        made, ended = self.flows.step(turn, numbers)
        for record in turn.kept.flows:
            self.projects.fed(numbers[record.project])
        moved = {(move[0].project, move[0].taskid) for move in turn.kept.moves}
        for name, item in made:
            may_drop = self.edges.may_drop(name, item)
            if self._states(name) - ({OVER} if may_drop else set()) == {UNKNOWN}:
                if (self.truth.projects[name.project].number, name.taskid) not in moved:
                    self._fail("W1", name.taskid, "it counts as made, and is not")
                self._may_be[name] = frozenset((WAITING, OVER) if may_drop else (WAITING,))
                self.attempts.made(name)
                self.edges.pushed(name, "new", item)
            else:
                self._fail("W1", name.taskid, "it is made, but it is known")
        for name in ended:
            if not self._states(name) & {WAITING, LEASED}:
                continue
            self._revoke(name)
            self._widen(name, OVER)
            self._cancel(name)
        return frozenset(ended)

    def _change(self, name: Name, operation: OperationRecord, *, surely: bool) -> None:
        """Apply an operation to the task, surely or maybe."""
        action = operation.progress.action
        after = OVER if action == "cancel" else WAITING
        if action == "reprioritise":
            return
        if action == "cancel":
            self.leases.end(self._token(name))
        elif action == "retry":
            self.projects.fed(name.project)
            self.edges.ran_by_hand(name)
        self._may_be[name] = frozenset((after,)) if surely else self._states(name) | {after}

    def _undo(self, undone: Undone) -> None:
        """Apply an undo to a task, surely or maybe."""
        name, row = undone.name, undone.row
        if undone.action == "reprioritise" or (undone.has_run and not undone.surely):
            return
        after = OVER if row.state in ENDED else WAITING
        if after == WAITING:
            self.projects.fed(name.project)
        if undone.surely:
            self._may_be[name] = frozenset((after,))
        else:
            self._widen(name, after)
        if undone.surely and undone.update is not None:
            self.attempts.brought_back(name, undone.update)

    def _check_changed(self, changed: list[tuple[Name, OperationRecord, bool]], turn: Round) -> None:
        priorities = {(move[0].project, move[0].taskid): move[0].priority for move in turn.kept.moves}
        for name, operation, surely in changed:
            held = self.truth.tasks.get(name)
            if not surely or held is None:
                continue
            moved = priorities.get((held.number, name.taskid))
            wanted = operation.progress
            if wanted.action != "reprioritise":
                if moved is None:
                    self._fail(
                        "O1", name.taskid, f"operation {operation.progress.id} was about it, and it did not change"
                    )
            elif moved != operation.progress.priority and not (moved is None and held.state == READY):
                self._fail("O1", name.taskid, f"its priority is {moved}, it was to be {operation.progress.priority}")

    def _may_expire(self, turn: Round, numbers: dict[int, str]) -> None:
        """Find expired tasks: the end of their attempt is written before its beginning."""
        for kept in turn.kept.attempts:
            if kept.attempt.outcome == "expired" and kept.project in numbers:
                name = Name(numbers[kept.project], kept.taskid)
                if WAITING not in self._states(name) and LEASED not in self._states(name):
                    self._fail("S11", name.taskid, f"it has expired, but it was {_words(self._states(name))}")
                self._may_be[name] = self._states(name) | {OVER}

    def _drop_live(self, number: int) -> None:
        """Record that a project was cleared."""
        for task, held in list(self.truth.tasks.items()):
            if held.number == number and held.state not in ENDED:
                if UNKNOWN in self._states(task):
                    self.edges.gone(task)
                else:
                    self.edges.failed(task)
                self._journal.drop(self.truth.tasks, task)
                self._journal.drop(self.truth.deferred, task)
                self.leases.end(held.token)

    def _drop_project(self, number: int, name: str) -> None:
        if name and self.truth.projects[name].number == number:
            self._journal.drop(self.truth.projects, name)
        self._journal.drop(self.truth.records, number)
        for task, held in list(self.truth.tasks.items()):
            if held.number == number:
                self._journal.drop(self.truth.tasks, task)
                self._journal.drop(self.truth.deferred, task)

    def _write_project(self, name: str, facts: Facts) -> None:
        before = self.truth.projects.get(name)
        if before == facts:
            return
        self._put(self.truth.projects, name, facts)
        if before is None and name in self._reset:
            self.paces.kept_on(name, self._reset[name], facts)
        elif before is None or before.number != facts.number:
            self.paces.made(name, facts)
        else:
            self.paces.changed(name, facts)
        is_new = before is None or before.number != facts.number
        if is_new + self._set.get(name, 0) > 1:
            self.paces.went_through_others(facts)

    def _write_task(self, name: Name, move: Move, turn: Round, greatest: int) -> None:
        task, old_state, old_key, *_ = move
        was, may_be, now = self.truth.tasks.get(name), self._states(name), turn.now
        self.attempts.written(name, task, may_be, turn)
        if self.edges.is_kept(name) or (self._is_held(name) and name not in self._may_be):
            self._check_let_go(name, task)
        elif old_state == DELAYED and task.state in (READY, PROCESSING) and name not in self._may_be:
            self._check_due(name, key_time(old_key), now)
        if task.state == PROCESSING and (was is None or was.token != task.token or was.state != PROCESSING):
            self._check_hand_out(name, may_be, greatest, task)
            self._check_expiry(name, task.spec.schedule.expires_at if task.spec else None, now)
            self.handed_to.append(name)
            self.drains.handed(task.lease.session if task.lease else "", name.taskid)
            self.paces.pay(name)
            self.slots.handed(name)
            self.leases.begin(name, task)
            self.edges.handed(name)
            self.handed += 1
            self._apply_deferred(name, task)
        elif _class(task.state) not in may_be:
            self._fail("S3", name.taskid, f"it is {_class(task.state)} now, but it was {_words(may_be)}")
        if task.state != PROCESSING:
            self._apply_deferred(name, task)
        self.attempts.kept(name, task)
        place = ready_key(task.priority, task.seq)
        held = Held(
            task.project, task.state, task.token, task.key, False, task.crashes, place, is_held(task), task.retried,
            self.ranks.became_due(name, was, move, is_alone=name not in self._may_be),
            task.job,
        )  # fmt: skip
        self._put(self.truth.tasks, name, held)
        self.undos.written(name, task)

    def _apply_deferred(self, name: Name, task: Task) -> None:
        """Apply a deferred update at the end of its lease: the task is work again, even if it has just finished."""
        self.attempts.updated(name, task)
        if name in self.truth.deferred:
            self._journal.drop(self.truth.deferred, name)
            self.edges.ended(name)
            self.projects.fed(name.project)

    def _write_old(self, name: Name, task: Task, turn: Round) -> None:
        """Judge a task that retention dropped whole, or down to its bare record."""
        was, overrides = self.truth.tasks.get(name), self.truth.projects[name.project].overrides
        keep = self.paces.keep(name.project, overrides, STATE_NAMES[task.state], inf)
        is_moved = any(move[0].taskid == name.taskid and move[0].project == task.project for move in turn.kept.moves)
        if (
            was is None
            or was.bare
            or (was.state, was.key) != (task.state, task.key)
            or was.state not in ENDED
            or is_moved
        ):
            self._fail("R1", name.taskid, f"it was dropped, but it was {was}")
        if key_time(task.key) + keep > turn.now.wall + EPSILON:
            self._fail("R1", name.taskid, f"it was dropped {turn.now.wall - key_time(task.key):.3f} s after its end")
        if task.bare != (self.paces.keep(name.project, overrides, "then", "remember") == "remember"):
            self._fail("R1", name.taskid, f"it is bare: {task.bare}")
        if task.bare:
            self.attempts.kept(name, task)
            self._put(self.truth.tasks, name, Held(task.project, task.state, task.token, task.key, bare=True))
        else:
            self._journal.drop(self.truth.tasks, name)
            self.edges.gone(name)
            self._put(self.truth.forgotten_at, name, self._world.clock.now)

    def _check_hand_out(self, name: Name, may_be: frozenset[str], greatest: int, task: Task) -> None:
        session = task.lease.session if task.lease else ""
        number = task.token ^ derive(self._secret, session).mask
        if WAITING not in may_be:
            self._fail("S3", name.taskid, f"handed out as {number:x}, but it is {_words(may_be)}")
        if task.token in self._given or not 0 < task.token < 2**63:
            self._fail("S4", name.taskid, f"token {task.token:x} was given before, or is none")
        if number <= greatest:
            self._fail("S4", name.taskid, f"number {number:x} is not greater than {greatest:x}, given before")
        self.ranks.handed(HandOut(number, name, session, task.crashes > 0))
        self._given.add(task.token)
        self._unsynced.add(task.token)
        self._greatest = max(self._greatest, number)

    def _check_expiry(self, name: Name, expires_at: float | None, now: Now) -> None:
        if expires_at is not None and expires_at <= now.wall:
            self._fail("S11", name.taskid, f"it runs {now.wall - expires_at:.3f} s after it has expired")

    def _check_due(self, name: Name, due_at: float, now: Now) -> None:
        if due_at > now.wall + EPSILON:
            self._fail("S11", name.taskid, f"it runs {due_at - now.wall:.3f} s before its time")

    def _check_let_go(self, name: Name, task: Task) -> None:
        is_free = task.state in (READY, DELAYED, PROCESSING) and not is_held(task)
        if is_free and (self.edges.is_kept(name) or not self.edges.is_let_go(name)):
            self._fail("S11", name.taskid, "a rerun holds it, and has not let go of it")

    # ------------------------------------------------------------------------------------ help

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._journal.put(table, key, value)

    def _fail(self, law: str, task: str, reason: str) -> None:
        raise Violation(law, task, reason)


_HEAR: Final = {
    "new-task": Judge._hear_new_tasks,
    "done": Judge._hear_done,
    "extend": Judge._hear_tokens,
    "release": Judge._hear_tokens,
    "task-cancel": Judge._hear_tasks,
    "task-retry": Judge._hear_tasks,
    "project-set": Judge._hear_settings,
    "project-unset": Judge._hear_settings,
    "project-do": Judge._hear_action,
    "group-do": Judge._hear_group,
    "project-hold": Judge._hear_hold,
    "fetcher-do": Judge._hear_drain,
    "fetchers": Judge._hear_fetchers,
    "flow-stage": Judge._hear_stage,
    "project-import": Judge._hear_import,
}


def _class(state: int) -> str:
    if state == PROCESSING:
        return LEASED
    return OVER if state in ENDED else WAITING


def _words(states: frozenset[str]) -> str:
    return " or ".join(sorted(states))
