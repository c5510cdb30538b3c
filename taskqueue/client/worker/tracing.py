"""Traces, apart because OpenTelemetry need not be installed: a handler's run is a span below that of the task's body.

    body = {"traceparent": "00-4bf9…-00f0…-01", …} ──► span "process news" ──► whatever the handler traces

A task's body may name it by ``traceparent`` (and ``tracestate``), as the header of that name has it (W3C Trace Context,
2021), in the map that it is or in its ``save``. Without one the span has no parent. If ``opentelemetry-api`` is not
installed there are no spans; as long as nobody has set a provider of tracers, or less than LOOK_SECONDS ago, there is
one only below what a body names, and it leads nowhere.
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
"""Between two looks for a provider, because without one each look searches the environment, too."""

OUTCOMES: Final = {Retry: "retry", Drop: "drop", PassedOn: "passed", TooLate: "late", RunEnded: "ended"}
"""Of runs that were ended by a decision; what a WorkerLog calls them."""


class RunSpan(Protocol):
    """The span of one run."""

    def active(self) -> AbstractContextManager[object]:
        """While this is entered, what is traced here belongs to the run."""

    def end(self, error: BaseException | None = None) -> None:
        """The run has ended; ``error`` is what it raised."""


NOWHERE: Final = nullcontext()


class NoSpan:
    """Of a run that nobody traces."""

    def active(self) -> AbstractContextManager[object]:
        return NOWHERE

    def end(self, error: BaseException | None = None) -> None:
        """Nobody listens."""


NO_SPAN: Final = NoSpan()


class OpenSpan:
    """A span of OpenTelemetry."""

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
    """Begins the spans of one worker."""

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
        """Somebody has set a provider, which stays for good."""
        if not self._has_provider and self._look_at <= (now := time.monotonic()):
            self._look_at = now + LOOK_SECONDS
            self._has_provider = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        return self._has_provider


def carrier_of(task: Task) -> dict[str, str]:
    """What the body says of the trace that it belongs to; empty: nothing."""
    try:
        body = task.body
    except ValueError:  # it can't be decoded, which need not trouble a handler that does not look
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
