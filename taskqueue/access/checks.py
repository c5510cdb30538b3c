"""Checks whether a caller may make a request, by its role, and by the projects that it reaches.

    Frame.key ──► Caller ──for: a name──► Caller of that name ──role──► projects ──► the core, without items outside
                     └──────────────────────────┴──────────────┴───► Rejected("forbidden")

Rules of projects, for callers that don't reach all:
1. Each name of a project in a request counts, wherever it is. A request that names one outside is refused, whether the
   project exists or not: no answer says that.
2. Of ``new-task`` and ``done`` only the items that name one outside are refused, each by itself; so are follow-ups. A
   report in ``done`` is ``rejected``, not ``stale``, so that the fetcher's log says why.
3. A lease outside, in ``extend`` or ``release``, is stale: their reply has no other word.
4. A hello with capacity must name its projects.
What names no project, such as an operation, a fetcher or a group, is for the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from taskqueue.access.access_file import Entry
from taskqueue.access.rights import is_about_all, request_name, right_of, roles_text, roles_with, with_article
from taskqueue.errors import Rejected
from taskqueue.protocol.callers import EVERYBODY, USER, Caller, Right, Scope
from taskqueue.protocol.daemon import WhoIs, WhoReply
from taskqueue.protocol.exports import ProjectImport
from taskqueue.protocol.fetchers import Extend, Hello, LeaseRef, Note, NotedLease, Release
from taskqueue.protocol.flows import FlowStage
from taskqueue.protocol.messages import REQUESTS, AnyRequest, Flaw, Flaws, Incoming
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask

NO_PROJECT: Final = ""
"""No project has this name."""

_NAMING: Final[Mapping[type[AnyRequest], tuple[str, ...]]] = {
    kind: tuple(field for field in ("project", "projects") if field in kind.__struct_fields__) for kind in REQUESTS
}
"""Fields with names of projects, by type of request; what is nested in others is in ``check_projects``."""


class Callers(Protocol):
    """Names of an access file, and their callers."""

    def caller_of(self, name: str) -> Caller:
        """The caller by the name of a connection's key."""

    def speaker(self, name: str) -> Caller | None:
        """The caller for whom a web process speaks; None if no user has this name."""

    def user(self, digest: str, name: str) -> Entry | None:
        """The user with this token or, without a digest, of this name; None if there is none."""


class Everybody:
    """The callers of a daemon without keys: none has a name."""

    def caller_of(self, name: str) -> Caller:
        """Return the only caller."""
        return EVERYBODY

    def speaker(self, name: str) -> None:
        """Return None: without keys a daemon knows no users."""

    def user(self, digest: str, name: str) -> None:
        """Return None: without keys a daemon knows no users."""


def spoken_for(callers: Callers, caller: Caller, name: str) -> Caller:
    """Return the caller for whom a web process speaks.

    Raises:
        Rejected: with the code ``forbidden``: this caller may not speak for others, or no user has this name.
    """
    if not caller.may("speaks-for-others"):
        raise Rejected("forbidden", f"for: {caller.name} may not speak for others; that takes a key of the role web")
    if (found := callers.speaker(name)) is None:
        raise Rejected("forbidden", f'for: the access file has no token of "{name}"; have an admin authorise one')
    return found


def who_is(callers: Callers, request: WhoIs) -> WhoReply:
    """Answer who the user of a token or of a name is."""
    if (entry := callers.user(request.digest, request.name)) is None:
        return WhoReply(n=request.n)
    return WhoReply(
        n=request.n, name=entry.name, role=entry.role, projects=list(entry.projects), created_at=entry.created_at
    )


def check_right(caller: Caller, request: AnyRequest) -> None:
    """Refuse a request that the caller's role does not allow, or that is about more projects than it reaches.

    A batch is refused as a whole.

    Raises:
        Rejected: with the code ``forbidden``: what was asked for, who asked, and what to do.
    """
    right = right_of(request)
    # A web process says hello, too, which tells it that the daemon is there.
    if caller.may(right) or (right == "look" and isinstance(request, Hello) and caller.role is not None):
        if caller.scope is not None and is_about_all(request):
            reason = f"{request_name(request)} is about all projects, and {caller.name} reaches {caller.scope}"
            raise Rejected("forbidden", f'{reason}; use a key for "*"')
        return
    what = request_name(request)
    if caller.role is None:
        raise Rejected("forbidden", f'{what}: the access file has no "{caller.name}"; have an admin authorise a key')
    if isinstance(request, Hello) and right == "work":
        what = "taking tasks"
    raise Rejected(
        "forbidden",
        f"{caller.name} is {with_article(caller.role)}, and {what} takes {roles_text(right)}; "
        f"{_way_out(caller, right)}",
    )


def check_projects(caller: Caller, scope: Scope, incoming: Incoming) -> str:
    """Refuse a request that names a project outside the caller's scope; of a batch, take out such items.

    Returns:
        Reason for the first item that was taken out; empty: none was.

    Raises:
        Rejected: with the code ``forbidden``: which project is outside of what, and what to do.
    """
    request, outside = incoming.request, _Outside(caller.name, scope)
    if isinstance(request, NewTasks):
        outside.take_out_new(request.tasks, request.project, (), incoming.flaws)
    elif isinstance(request, Done):
        outside.take_out_reports(request, incoming.flaws)
    elif isinstance(request, Extend | Release):
        outside.take_out_leases(request.leases)
    elif isinstance(request, Note):
        outside.take_out_notes(request.notes)
    else:
        outside.check(request)
    return outside.first


class _Outside:
    """Search for projects outside the scope of one caller.

    Attributes:
        first: reason for the first item that was taken out; empty: none was.
    """

    def __init__(self, name: str, scope: Scope) -> None:
        self.first = ""
        self._name = name
        self._scope = scope

    def check(self, request: AnyRequest) -> None:
        """Refuse a request if it names a project outside."""
        for field in _NAMING[type(request)]:
            value = getattr(request, field)
            for project in (value,) if isinstance(value, str) else value or ():
                if project and not self._scope.has(project):
                    raise Rejected("forbidden", self._reason(field, project))
        if isinstance(request, Hello):
            self._check_hello(request)
        elif isinstance(request, FlowStage):
            for index, task in enumerate(request.tasks):
                if reason := self._flaw(task, request.project):
                    raise Rejected("forbidden", f"tasks[{index}].{reason}")
        elif isinstance(request, ProjectImport):
            self._check_import(request)

    def take_out_new(self, tasks: list[NewTask | None], project: str, parent: tuple[int, ...], flaws: Flaws) -> None:
        """Take out tasks that name a project outside; ``project`` is the one of those that name none."""
        for index, task in enumerate(tasks):
            if task is not None and (reason := self._flaw(task, project)):
                tasks[index] = None
                self._note((*parent, index), reason, flaws)

    def take_out_reports(self, request: Done, flaws: Flaws) -> None:
        """Take out reports on tasks outside, and of others the new tasks outside."""
        for index, report in enumerate(request.tasks):
            if report is None:
                continue
            if not self._scope.has(report.project):
                request.tasks[index] = None
                self._note((index,), self._reason("project", report.project), flaws)
            elif report.new:
                self.take_out_new(report.new, report.project, (index,), flaws)

    def take_out_leases(self, leases: list[LeaseRef]) -> None:
        """Make leases of tasks outside stale."""
        for index, lease in enumerate(leases):
            if not self._scope.has(lease.project):
                self.first = self.first or self._reason("leases", lease.project)
                leases[index] = LeaseRef(NO_PROJECT, lease.taskid, lease.token)

    def take_out_notes(self, notes: list[NotedLease]) -> None:
        """Make the leases of notes on tasks outside stale."""
        for index, lease in enumerate(notes):
            if not self._scope.has(lease.project):
                self.first = self.first or self._reason("notes", lease.project)
                notes[index] = NotedLease(NO_PROJECT, lease.taskid, lease.token, lease.note)

    def _check_hello(self, hello: Hello) -> None:
        if hello.capacity and hello.projects is None:
            raise Rejected("forbidden", f"name projects: your key has {self._scope}")
        if hello.hung is not None and not self._scope.has(hello.hung.project):
            raise Rejected("forbidden", self._reason("hung.project", hello.hung.project))

    def _check_import(self, request: ProjectImport) -> None:
        for index, task in enumerate(request.tasks):
            for parent in task.parents:
                if parent.project and not self._scope.has(parent.project):
                    raise Rejected("forbidden", self._reason(f"tasks[{index}].parents", parent.project))

    def _flaw(self, task: NewTask, project: str) -> str:
        """Reason why a new task is outside; empty: it is not."""
        own = task.project or project
        if not self._scope.has(own):
            return self._reason("project", own)
        for parent in task.depends_on:
            if not isinstance(parent, str) and not self._scope.has(parent.project):
                return self._reason("depends_on", parent.project)
        return ""

    def _note(self, path: tuple[int, ...], reason: str, flaws: Flaws) -> None:
        self.first = self.first or reason
        flaws[path] = Flaw(reason, "forbidden")

    def _reason(self, field: str, project: str) -> str:
        return (
            f'{field}: {self._name} reaches {self._scope}, and project "{project}" is outside; have it added at the '
            f"daemon: taskqueue key set {self._name} --projects …"
        )


def _way_out(caller: Caller, right: Right) -> str:
    """Way for a caller to get a right that its role has not."""
    if caller.name.startswith(USER):
        return "see daemon.ipc_role in its config file"
    if caller.role == "web":
        return "use a key of such a role, taskqueue key list shows all"
    return f"at the daemon: taskqueue key set {caller.name} --role {roles_with(right)[0]}"
