"""Numbers and tasks as arguments: an invalid one is refused at once, by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from math import inf, nan
from typing import Any, Final

import pytest

from taskqueue import AsyncClient, Client, PushOptions, RequestRejected, Retry, Worker, new_task
from taskqueue.client.arguments import client_key
from taskqueue.client.tasks.task import Cancelled
from taskqueue.errors import SettingError
from taskqueue.http import AsyncHttp, Http
from taskqueue.robots.asynchronous import AsyncRobots
from taskqueue.robots.blocking import Robots
from tests.unit.client.conftest import WAIT_SECONDS, Daemon

NAMESPACES: Final = (
    "projects", "groups", "tasks", "slots", "cron", "operations", "flows", "fetchers", "stats", "daemon", "log",
)  # fmt: skip

NUMBERS: Final = {"int", "float", "Duration", "Moment"}
"""Words of the annotation of a number."""

ODD: Final[tuple[Any, ...]] = (nan, inf, -inf, -1, 0, 2**70, 10**400, "5", True, None)

FOR_EVER: Final = (inf, 2**70, 10**400, None)
"""Values of ``timeout`` with which a call waits."""

PLAIN: Final[dict[str, Any]] = {"str": "x", "Iterable[str]": ["x"], "Mapping[str, Setting]": {}, "Iterable[Item]": []}
"""Value for each kind of argument without a default."""

LEFT_OUT: Final = {"stream"}
"""Methods that wait for tasks with any arguments."""


def numbers(call: Callable[..., Any]) -> Iterator[str]:
    """Return the names of the arguments that are numbers."""
    for name, argument in inspect.signature(call).parameters.items():
        if is_number(argument.annotation):
            yield name


def is_number(annotation: object) -> bool:
    words = str(getattr(annotation, "__forward_arg__", annotation)).replace("|", " ").split()
    return not NUMBERS.isdisjoint(words)


def needed(call: Callable[..., Any]) -> dict[str, Any]:
    """Return the required arguments, with values that make the call not wait."""
    patience = {"timeout": 0} if "timeout" in inspect.signature(call).parameters else {}
    return patience | {
        name: PLAIN.get(str(argument.annotation), 1)
        for name, argument in inspect.signature(call).parameters.items()
        if argument.default is argument.empty and argument.kind not in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL)
    }


def calls(client: Client) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Iterate over the public methods of a client and of its namespaces that take numbers."""
    for owner in (client, *(getattr(client, name) for name in NAMESPACES)):
        for name, call in inspect.getmembers(owner, inspect.ismethod):
            if not name.startswith("_") and name not in LEFT_OUT and any(numbers(call)):
                yield f"{type(owner).__name__}.{name}", call


def outcome(call: Callable[..., Any], arguments: dict[str, Any]) -> BaseException | None:
    """Return the error of a call, if there is one; a generator is asked for its first item."""
    try:
        made = call(**arguments)
        if inspect.isgenerator(made):
            next(made, None)
    except Exception as error:
        return error
    return None


def test_every_odd_number_is_refused_or_heeded_at_once(daemon: Daemon) -> None:
    tried, wrong = 0, []
    with Client(daemon.url, timeout=WAIT_SECONDS) as client:
        for name, call in calls(client):
            for argument in numbers(call):
                for odd in ODD:
                    if argument == "timeout" and odd in FOR_EVER:
                        continue
                    raised = outcome(call, needed(call) | {argument: odd})
                    tried += 1
                    if raised is not None and not isinstance(raised, ValueError | TypeError | RequestRejected):
                        wrong.append(f"{name}({argument}={odd!r}): {raised!r}")

    assert wrong == []
    assert tried > 200


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda client: client.push_many("p", ["http://a/"], in_flight=0), "in_flight: expected at least 1, got 0"),
        (lambda client: client.push_many("p", ["http://a/"], batch=True), "batch: expected an integer, got bool"),
        (lambda client: client.select(timeout=nan), "timeout: expected at least 0 seconds, got nan"),
        (lambda client: client.select(timeout=-1), "timeout: expected at least 0 seconds, got -1"),
        (lambda client: client.projects.wait("p", timeout="5"), "timeout: expected a number of seconds, got str"),
        (lambda client: client.wait_drained(timeout=nan), "timeout: expected at least 0 seconds, got nan"),
        (lambda client: next(client.stream(places=0)), "places: expected an integer from 1 to 100000, got 0"),
        (lambda client: next(client.stream(places=2.5)), "places: expected an integer from 1 to 100000, got 2.5"),
        (lambda client: client.select(priority=0.5), "priority: expected an integer from -2^31 to 2^31 - 1, got 0.5"),
        (lambda client: client.done("a"), "task: expected a Task, as select gives it, got str"),
        (lambda client: client.failed({}, status_code=404), "task: expected a Task, as select gives it, got dict"),
        (lambda client: client.release("a"), "task: expected a Task, as select gives it, got str"),
        (lambda client: client.extend(None), "task: expected a Task, as select gives it, got NoneType"),
    ],
)
def test_what_can_not_be_is_told_by_its_name(daemon: Daemon, call: Callable[[Client], object], reason: str) -> None:
    with Client(daemon.url, timeout=WAIT_SECONDS) as client, pytest.raises((ValueError, TypeError)) as refused:
        call(client)

    assert str(refused.value) == reason


@pytest.mark.parametrize("argument", ["timeout", "connect_timeout"])
@pytest.mark.parametrize("odd", [nan, -1, "5", True])
def test_a_client_is_not_made_with_a_patience_that_can_not_be(argument: str, odd: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{argument}: expected "):
        Client("tcp://127.0.0.1:9", **{argument: odd})


@pytest.mark.parametrize("argument", [name for name in numbers(Worker.__init__) if name != "priority"])
@pytest.mark.parametrize("odd", [nan, -1, "5", True])
def test_a_worker_is_not_made_with_a_number_that_can_not_be(argument: str, odd: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{argument}: expected "):
        Worker(print, client="tcp://127.0.0.1:9", **{argument: odd})


def absent(url: str) -> tuple[int, bytes]:
    """Answer of a site without files."""
    return 404, b""


async def absent_later(url: str) -> tuple[int, bytes]:
    return 404, b""


OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "Http": partial(Http, "me"),
    "AsyncHttp": partial(AsyncHttp, "me"),
    "Robots": partial(Robots, absent, "me"),
    "AsyncRobots": partial(AsyncRobots, absent_later, "me"),
    "Robots.sitemap_tasks": partial(Robots(absent, "me").sitemap_tasks, "http://a/", sitemaps=()),
    "AsyncClient": partial(AsyncClient, "tcp://127.0.0.1:9"),
    "Retry": Retry,
    "Task.lost.wait": Cancelled().wait,
}
"""Other functions that take numbers, except for the options of tasks."""


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("odd", [nan, -inf, -1, "x", True, b"5"], ids=repr)
def test_what_is_no_number_is_told_by_its_name_wherever_one_is_given(call: Callable[..., Any], odd: Any) -> None:
    names = [name for name in numbers(call) if (name, odd) != ("priority", -1)]
    for name in names:
        raised = outcome(call, {name: odd})

        assert isinstance(raised, ValueError | TypeError), f"{name}: {raised!r}"
        assert name in str(raised)
    assert names


@pytest.mark.parametrize("name", [name for name, kind in PushOptions.__annotations__.items() if is_number(kind)])
@pytest.mark.parametrize("odd", [nan, inf, -1, 2**70, 10**400, "x", True, b"5"], ids=lambda odd: repr(odd)[:9])
def test_no_option_of_a_task_takes_what_is_no_number(name: str, odd: Any) -> None:
    if (name, odd) != ("priority", -1):
        with pytest.raises((ValueError, TypeError), match=name):
            new_task("http://a/", **{name: odd})


def test_a_time_beyond_all_floats_is_for_ever() -> None:
    lost = Cancelled()
    lost.set()

    assert AsyncClient("tcp://127.0.0.1:9", timeout=10**400).timeout == inf
    assert lost.wait(10**400)


def test_an_empty_key_is_none_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKQUEUE_KEY", "missing.key")

    assert client_key("", "tcp://127.0.0.1:7400") is None
    with pytest.raises(SettingError, match=r"missing\.key"):
        client_key(None, "tcp://127.0.0.1:7400")
