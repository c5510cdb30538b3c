"""Projects of a key: a request that names one outside is refused, and of a batch such items."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import msgpack
import pytest
from msgspec import inspect

from taskqueue.access.checks import check_projects
from taskqueue.errors import MAX_REASON_CHARS, Rejected
from taskqueue.protocol.callers import Caller, Scope
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import Extend, Hello, LeaseRef, Note, NotedLease, Release
from taskqueue.protocol.fields import NOTATION, Peer, Token
from taskqueue.protocol.flows import FlowList, FlowStage
from taskqueue.protocol.messages import REQUESTS, AnyRequest, Flaw, Incoming
from taskqueue.protocol.projects import ProjectShow
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask, TaskOf, TaskReport

Path = tuple[str | int, ...]

OUTSIDE: Final = "shop"
NOT_NAMES: Final = ("flow", "group", "job")
"""Fields whose names are not those of projects."""
SAMPLES: Final[dict[str | int, Any]] = {
    "new": [{"taskid": "n", "url": "http://a/"}],
    "depends_on": [["news", "x"]],
    "projects": ["news"],
}
"""Lists that examples leave out."""


def names_in(shape: inspect.Type, path: Path = ()) -> Iterator[Path]:
    """Paths of the names of projects in a type: fields called so, and fields of their type."""
    match shape:
        case inspect.Metadata(inner, extra=extra):
            if str((extra or {}).get(NOTATION, "")).startswith("name"):
                yield path
            else:
                yield from names_in(inner, path)
        case inspect.StructType(fields=fields, array_like=array_like):
            for place, field in enumerate(fields):
                if field.encode_name not in NOT_NAMES:
                    below: Path = (*path, place if array_like else field.encode_name)
                    found = list(names_in(field.type, below))
                    yield from found or ([below] if field.encode_name.startswith("project") else [])
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from names_in(item, (*path, 0))
        case inspect.UnionType(types=types):
            for each in types:
                yield from names_in(each, path)


NAMES: Final = [(kind, path) for kind in REQUESTS for path in dict.fromkeys(names_in(inspect.type_info(kind)))]


def naming(kind: type[AnyRequest], path: Path) -> Incoming:
    """The example of a request, with a project outside at this path."""
    place: Any = msgpack.unpackb(encode(EXAMPLES[kind]))
    message = place
    for step in path[:-1]:
        if isinstance(place, dict) and not place.get(step):
            place[step] = deepcopy(SAMPLES[step])
        place = place[step]
    place[path[-1]] = OUTSIDE
    return incoming(*decode_request(msgpack.packb(message)))


def incoming(request: AnyRequest, flaws: dict[tuple[int, ...], Flaw] | None = None) -> Incoming:
    return Incoming(Peer(b"p"), request, flaws or {})


def check(one: Incoming, *patterns: str) -> str:
    """Check a request of a fetcher with these patterns; by default those of the examples."""
    scope = Scope(patterns or ("news*", "shops"))
    return check_projects(Caller("web1", "fetcher"), scope, one)


def refusal(request: AnyRequest, *patterns: str) -> str:
    with pytest.raises(Rejected) as refused:
        check(incoming(request), *patterns)
    assert refused.value.code == "forbidden"
    return refused.value.reason


@pytest.mark.parametrize(("kind", "path"), NAMES, ids=lambda of: of.__name__ if isinstance(of, type) else str(of))
def test_a_project_outside_is_found_wherever_a_request_can_name_one(kind: type[AnyRequest], path: Path) -> None:
    one = naming(kind, path)
    try:
        said = check(one)
    except Rejected as refused:
        said = refused.reason

    assert f'web1 reaches news*, shops, and project "{OUTSIDE}" is outside' in said
    assert check(naming(kind, path), "news*", "shops", OUTSIDE) == ""


def test_names_are_looked_for_at_all_depths() -> None:
    assert {
        (NewTasks, ("project",)),
        (NewTasks, ("tasks", 0, "depends_on", 0, 0)),
        (Done, ("tasks", 0, "new", 0, "depends_on", 0, 0)),
        (Hello, ("hung", "project")),
        (FlowList, ("project",)),
    } <= set(NAMES)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_what_names_projects_inside_or_none_passes_unchanged(kind: type[AnyRequest]) -> None:
    request, flaws = decode_request(encode(EXAMPLES[kind]))
    one = incoming(request, flaws)
    before = encode(one.request)

    assert check(one) == ""
    assert (encode(one.request), one.flaws) == (before, {})


def test_a_refusal_says_whose_key_reaches_what_and_what_to_do() -> None:
    assert refusal(ProjectShow(project="shop"), "news-*") == (
        'project: web1 reaches news-*, and project "shop" is outside; have it added at the daemon: '
        "taskqueue key set web1 --projects …"
    )
    many = refusal(ProjectShow(project="s" * 64), *[f"{'n' * 60}{number}" for number in range(100)])
    assert "and 97 more" in many
    assert len(many) < MAX_REASON_CHARS


def test_a_hello_that_wants_tasks_must_name_projects() -> None:
    assert refusal(Hello(capacity=1), "news-*") == "name projects: your key has news-*"
    assert check(incoming(Hello(capacity=0, holds=[Token(1)]))) == ""
    assert check(incoming(Hello(capacity=1, projects=["news-a"]))) == ""
    assert "projects: " in refusal(Hello(capacity=1, projects=["news-a", "shop"]))


def test_of_a_push_only_the_items_outside_are_refused() -> None:
    tasks: list[NewTask | None] = [
        NewTask("a", "http://a/"),
        NewTask("b", "http://a/", project="news-b"),
        None,
        NewTask("c", "http://a/", project="news", depends_on=("x", TaskOf("news", "y"), TaskOf("bank", "z"))),
    ]
    one = incoming(NewTasks(project="shop", tasks=tasks), {(2,): Flaw("odd")})

    first = check(one)

    assert isinstance(one.request, NewTasks)
    assert [task and task.taskid for task in one.request.tasks] == [None, "b", None, None]
    assert {path: flaw.code for path, flaw in one.flaws.items()} == {
        (0,): "forbidden", (2,): "malformed", (3,): "forbidden",
    }  # fmt: skip
    assert first == one.flaws[0,].reason
    assert first.startswith('project: web1 reaches news*, shops, and project "shop" is outside')
    assert one.flaws[3,].reason.startswith('depends_on: web1 reaches news*, shops, and project "bank" is outside')


def test_of_reports_only_those_outside_and_their_new_tasks_outside_are_refused() -> None:
    new: list[NewTask | None] = [NewTask("n", "http://a/"), NewTask("o", "http://a/", project="shop")]
    reports: list[TaskReport | None] = [
        TaskReport("news", "a", Token(1), new=new),
        TaskReport("shop", "b", Token(2), new=[NewTask("p", "http://a/", project="news")]),
        None,
        TaskReport("news-a", "c", Token(3)),
    ]
    one = incoming(Done(tasks=reports))

    check(one)

    assert isinstance(one.request, Done)
    assert [report and report.taskid for report in one.request.tasks] == ["a", None, None, "c"]
    assert [task and task.taskid for task in new] == ["n", None]
    assert {path: flaw.code for path, flaw in one.flaws.items()} == {(0, 1): "forbidden", (1,): "forbidden"}


@pytest.mark.parametrize("kind", [Extend, Release], ids=lambda kind: kind.__name__)
def test_a_lease_outside_is_as_one_of_no_project_and_keeps_its_token(kind: type[Extend | Release]) -> None:
    one = incoming(kind(leases=[LeaseRef("news", "a", Token(1)), LeaseRef("shop", "b", Token(2))]))

    check(one)

    assert isinstance(one.request, Extend | Release)
    assert [(ref.project, ref.token) for ref in one.request.leases] == [("news", 1), ("", 2)]


def test_a_note_on_a_task_outside_is_as_one_of_no_project() -> None:
    one = incoming(Note(notes=[NotedLease("news", "a", Token(1), 0.5), NotedLease("shop", "b", Token(2), "x")]))

    check(one)

    assert isinstance(one.request, Note)
    assert [(ref.project, ref.token, ref.note) for ref in one.request.notes] == [("news", 1, 0.5), ("", 2, "x")]


def test_a_flow_with_a_task_outside_is_refused_as_a_whole() -> None:
    inside = NewTask("a", "http://a/")
    outside = NewTask("b", "http://a/", depends_on=(TaskOf("shop", "x"),))

    said = refusal(FlowStage(project="news", flow="f", first=0, tasks=[inside, outside]))

    assert said.startswith("tasks[1].depends_on: web1 reaches news*")
