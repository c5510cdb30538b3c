"""Traces, apart because OpenTelemetry is optional: a handler's run is a span below that of the task's body.

    body = {"traceparent": "00-4bf9…-00f0…-01", …} ──► span "process news" ──► spans of the handler

A task's body may name its trace by ``traceparent`` (and ``tracestate``), in the format of that header (W3C Trace
Context, 2021), in its map or in its ``save``. Without it the span has no parent. There are no spans if
``opentelemetry-api`` is not installed; without a provider of tracers, or for up to LOOK_SECONDS after it is set, only a
task that names a trace has a span, which is not recorded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from math import inf
from typing import Any, Final, Protocol

from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.outcome import Drop, PassedOn, Retry, RunEnded, TooLate, is_failure

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    IS_INSTALLED: Final = False
else:
    IS_INSTALLED: Final = True  # type: ignore[misc]  # one of the two

SCOPE: Final = "taskqueue.worker"

FIELDS: Final = ("traceparent", "tracestate")

LOOK_SECONDS: Final = 1.0
"""Time between two looks for a provider, because without one each look searches the environment, too."""

OUTCOMES: Final = {Retry: "retry", Drop: "drop", PassedOn: "passed", TooLate: "late", RunEnded: "ended"}
"""Outcomes of runs that were ended by a decision, as a WorkerLog calls them."""


class RunSpan(Protocol):
    """Span of one run."""

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which new spans belong to the run."""

    def end(self, error: BaseException | None = None) -> None:
        """End the span; ``error`` is the exception of the run."""


NOWHERE: Final = nullcontext()


class NoSpan:
    """Span of a run that is not traced."""

    def active(self) -> AbstractContextManager[object]:
        return NOWHERE

    def end(self, error: BaseException | None = None) -> None:
        """Do nothing."""


NO_SPAN: Final = NoSpan()


class OpenSpan:
    """Span of OpenTelemetry."""

    def __init__(self, task: Task, carrier: Mapping[str, str]) -> None:
        self._span = trace.get_tracer(SCOPE).start_span(
            f"process {task.project}",
            TraceContextTextMapPropagator().extract(carrier, context.Context()),
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "taskqueue",
                "messaging.operation.type": "process",
                "messaging.destination.name": task.project,
                "messaging.message.id": task.taskid,
                "url.full": task.url,
            },
        )

    def active(self) -> AbstractContextManager[object]:
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def end(self, error: BaseException | None = None) -> None:
        self._span.set_attribute("taskqueue.outcome", _outcome(error))
        if error is not None and is_failure(error):
            description = type(error).__name__
            with suppress(Exception):  # one whose ``__str__`` fails has only its type
                description = f"{description}: {error}"
                self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, description))
        self._span.end()


class Tracing:
    """Maker of the spans of one worker."""

    def __init__(self) -> None:
        self._has_provider = False
        self._look_at = -inf

    def span_of(self, task: Task) -> RunSpan:
        """Begin the span of a run."""
        if not IS_INSTALLED:
            return NO_SPAN
        carrier = carrier_of(task)
        return OpenSpan(task, carrier) if carrier or self._is_wanted() else NO_SPAN

    def _is_wanted(self) -> bool:
        """Return True once a provider is set, which stays for good."""
        if not self._has_provider and self._look_at <= (now := time.monotonic()):
            self._look_at = now + LOOK_SECONDS
            self._has_provider = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        return self._has_provider


def carrier_of(task: Task) -> dict[str, str]:
    """Return the trace that a body names; empty: none."""
    try:
        body = task.body
    except ValueError:  # it can't be decoded, which does not matter to a handler that never reads it
        return {}
    if not isinstance(body, dict):
        return {}
    place = body if FIELDS[0] in body else body.get("save")
    return _texts(place) if isinstance(place, dict) else {}


def _texts(place: dict[Any, Any]) -> dict[str, str]:
    return {name: place[name] for name in FIELDS if isinstance(place.get(name), str)}


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "done"
    return next((word for decision, word in OUTCOMES.items() if isinstance(error, decision)), "failed")
