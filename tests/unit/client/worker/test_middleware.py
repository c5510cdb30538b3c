"""Middleware of a worker: its calls around the handler, their order, and its decisions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskqueue import Drop, Middleware, NewTask, Retry, Task
from tests.unit.client.conftest import Daemon
from tests.unit.client.worker.test_worker import outcome_of


class Notes(Middleware):
    """Middleware that records its calls and their threads."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes
        self.threads: set[threading.Thread] = set()

    def before(self, task: Task) -> None:
        self.note("before")

    def after(self, task: Task, *, new: list[NewTask] | None = None, error: BaseException | None = None) -> None:
        self.note(f"after {[each.url for each in new] if new is not None else repr(error)}")

    def error(self, task: Task, error: BaseException) -> None:
        self.note(f"error {error!r}")

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}")
        self.threads.add(threading.current_thread())


def notes_of(daemon: Daemon, handler: Callable[[Task], Any], *, count: int = 1) -> list[str]:
    notes: list[str] = []
    outcome_of(daemon, handler, middleware=[Notes(str(number), notes) for number in range(count)])
    return notes


async def coroutine(task: Task) -> list[str]:
    return ["http://b/"]


def generator(task: Task) -> Iterator[str]:
    yield "http://b/"


def waits_later(task: Task) -> Any:
    return coroutine(task)


@pytest.mark.parametrize("handler", [coroutine, generator, lambda task: ["http://b/"], waits_later])
def test_middleware_is_called_around_each_run(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    assert notes_of(daemon, handler) == ["0 before", "0 after ['http://b/']"]


def raises(error: BaseException) -> Callable[[Task], Any]:
    def handler(task: Task) -> None:
        raise error

    return handler


async def raises_in_the_loop(task: Task) -> None:
    raise ValueError("no title")


@pytest.mark.parametrize("handler", [raises(ValueError("no title")), raises_in_the_loop])
def test_the_last_middleware_hears_first_of_the_end(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    error = "ValueError('no title')"

    assert notes_of(daemon, handler, count=2) == [
        "0 before", "1 before", f"1 error {error}", f"0 error {error}", f"1 after {error}", f"0 after {error}",
    ]  # fmt: skip


def test_a_handler_that_exits_has_failed_for_middleware_too(daemon: Daemon) -> None:
    assert "0 error SystemExit(3)" in notes_of(daemon, raises(SystemExit(3)))


@pytest.mark.parametrize("decision", [Retry(60.0), Drop("404")])
def test_what_a_handler_decides_is_no_error(daemon: Daemon, decision: Exception) -> None:
    assert notes_of(daemon, raises(decision)) == ["0 before", f"0 after {decision!r}"]


def test_middleware_runs_in_the_thread_of_the_handler(daemon: Daemon) -> None:
    notes = Notes("", [])

    outcome_of(daemon, lambda task: notes.threads.add(threading.current_thread()), middleware=[notes])

    assert len(notes.threads) == 1
    assert threading.current_thread() not in notes.threads


class Refuses(Middleware):
    def before(self, task: Task) -> None:
        raise Drop("robots.txt says no")


@pytest.mark.parametrize("handler", [coroutine, generator])
def test_middleware_decides_before_the_handler_is_called(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    notes: list[str] = []

    item = outcome_of(daemon, handler, middleware=[Notes("0", notes), Refuses()])

    assert (item.ok, item.retry, item.error) == (False, False, "robots.txt says no")
    assert notes == ["0 before", "0 after Drop('robots.txt says no')"]


class Broken(Middleware):
    def before(self, task: Task) -> None:
        raise KeyError("before")

    def after(self, task: Task, **_: Any) -> None:
        raise KeyError("after")


def test_middleware_that_is_broken_is_logged_and_changes_nothing(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []

    item = outcome_of(daemon, coroutine, middleware=[Notes("0", notes), Broken()])

    assert item.ok
    assert notes == ["0 before", "0 after ['http://b/']"]
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert logged == [
        f"event=middleware-failed middleware=Broken method={method}" for method in ("before", "after")
    ]  # fmt: skip


def test_on_error_is_called_with_each_failure_and_with_nothing_else(daemon: Daemon) -> None:
    failures: list[str] = []
    errors = [ValueError("no title"), Retry(), Drop(), SystemExit(3)]

    for error in errors:
        outcome_of(daemon, raises(error), on_error=lambda task, error: failures.append(f"{task.url} {error!r}"))

    assert failures == ["http://a/1 ValueError('no title')", "http://a/1 SystemExit(3)"]
