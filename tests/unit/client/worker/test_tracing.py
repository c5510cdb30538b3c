"""Span of a run: its parent, its attributes, and the spans of its handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from taskqueue import Drop, Retry, Task
from taskqueue.client.worker import tracing
from tests.unit.client.conftest import Daemon
from tests.unit.client.worker.test_worker import outcome_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"

EXPORTER = InMemorySpanExporter()

Handle = Callable[[Task], Any]


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    """Set up the real SDK; a process has one provider for good."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture(autouse=True)
def _nothing_exported() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def trace_inside() -> None:
    with trace.get_tracer("handler").start_as_current_span("inside"):
        pass


def plain(task: Task) -> None:
    trace_inside()


async def coroutine(task: Task) -> None:
    trace_inside()


async def generator(task: Task) -> AsyncIterator[str]:
    trace_inside()
    yield "http://b/"


def waits_later(task: Task) -> Any:
    return coroutine(task)


def spans_of(daemon: Daemon, handler: Handle, body: object) -> dict[str, ReadableSpan]:
    """Return the spans of the run of a task with that body, by name."""
    outcome_of(daemon, handler, handed={"body": Raw(msgspec.msgpack.encode(body))})
    return {span.name: span for span in EXPORTER.get_finished_spans()}


def context_of(span: ReadableSpan) -> tuple[str, str]:
    """Return the ids of a span's trace and parent."""
    assert span.context is not None
    parent = "" if span.parent is None else trace.format_span_id(span.parent.span_id)
    return trace.format_trace_id(span.context.trace_id), parent


@pytest.mark.parametrize("handler", [plain, coroutine, generator, waits_later])
def test_what_a_handler_traces_belongs_to_the_trace_of_its_task(daemon: Daemon, handler: Handle) -> None:
    spans = spans_of(daemon, handler, {"traceparent": PARENT})

    run, inside = spans["process p"], spans["inside"]
    assert run.context is not None
    assert context_of(run) == (TRACE, SPAN)
    assert context_of(inside) == (TRACE, trace.format_span_id(run.context.span_id))


@pytest.mark.parametrize("body", [{"traceparent": PARENT}, {"save": {"traceparent": PARENT}, "fetch": {}}])
def test_the_body_or_its_save_names_the_trace(daemon: Daemon, body: object) -> None:
    assert context_of(spans_of(daemon, plain, body)["process p"]) == (TRACE, SPAN)


@pytest.mark.parametrize("body", [None, "text", {}, {"traceparent": 7}, {"traceparent": "00-x-y-01"}, {"save": "x"}])
def test_a_body_that_names_no_trace_begins_one(daemon: Daemon, body: object) -> None:
    run = spans_of(daemon, plain, body)["process p"]

    assert run.parent is None


def test_a_body_that_can_not_be_decoded_does_not_trouble_a_handler_that_does_not_look(daemon: Daemon) -> None:
    report = outcome_of(daemon, plain, handed={"body": Raw(b"\xa1\xff")})

    assert report.ok


def test_a_span_tells_of_its_task(daemon: Daemon) -> None:
    run = spans_of(daemon, plain, {"traceparent": PARENT, "tracestate": "vendor=1"})["process p"]

    assert run.kind is SpanKind.CONSUMER
    assert run.attributes is not None
    assert run.context is not None
    assert run.context.trace_state.to_header() == "vendor=1"
    assert run.attributes["messaging.system"] == "taskqueue"
    assert run.attributes["messaging.destination.name"] == "p"
    assert run.attributes["messaging.message.id"]
    assert run.attributes["taskqueue.outcome"] == "done"
    assert run.status.status_code is StatusCode.UNSET


def raises(error: BaseException) -> Handle:
    def handler(task: Task) -> None:
        raise error

    return handler


async def fails_in_the_loop(task: Task) -> None:
    raise ValueError("no title")


@pytest.mark.parametrize("handler", [raises(ValueError("no title")), fails_in_the_loop])
def test_a_failure_is_one_of_the_span_with_its_error(daemon: Daemon, handler: Handle) -> None:
    run = spans_of(daemon, handler, None)["process p"]

    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "ValueError: no title")
    [event] = run.events
    assert (event.name, (event.attributes or {})["exception.message"]) == ("exception", "no title")


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_can_not_be_told_fails_its_span_by_its_type(daemon: Daemon) -> None:
    run = spans_of(daemon, raises(Unsayable()), None)["process p"]

    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "Unsayable")


@pytest.mark.parametrize(("decision", "outcome"), [(Retry(60.0), "retry"), (Drop("404"), "drop")])
def test_what_a_handler_decides_is_no_error_of_the_span(daemon: Daemon, decision: Exception, outcome: str) -> None:
    run = spans_of(daemon, raises(decision), None)["process p"]

    assert (run.attributes or {})["taskqueue.outcome"] == outcome
    assert run.status.status_code is StatusCode.UNSET


def test_without_opentelemetry_there_are_no_spans(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "IS_INSTALLED", False)

    assert "process p" not in spans_of(daemon, plain, {"traceparent": PARENT})


@pytest.mark.parametrize(("body", "trace_id"), [(None, 0), ({"traceparent": PARENT}, int(TRACE, 16))])
def test_without_a_provider_a_run_still_belongs_to_the_trace_that_its_body_names(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, body: object, trace_id: int
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    found: list[int] = []

    async def note_trace(task: Task) -> None:
        found.append(trace.get_current_span().get_span_context().trace_id)

    spans_of(daemon, note_trace, body)

    assert found == [trace_id]
