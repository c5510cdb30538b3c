"""taskqueue: a durable task queue and daemon for web crawlers.

Here are the names that every user imports; ``taskqueue.http``, ``robots`` and ``types`` have further ones. They are
loaded on first use, so that importing ``taskqueue.core`` loads neither ZeroMQ nor asyncio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskqueue.client.asynchronous.client import AsyncClient
    from taskqueue.client.blocking.client import Client
    from taskqueue.client.hyperlinks import links
    from taskqueue.client.tasks.new_flow import FlowTask
    from taskqueue.client.tasks.new_task import canonical_url, default_taskid, new_task
    from taskqueue.client.tasks.push_options import PushOptions
    from taskqueue.client.tasks.pushes import Pushed, PushedTask
    from taskqueue.client.tasks.reports import Reported, Result
    from taskqueue.client.tasks.task import Task
    from taskqueue.client.worker.middleware import Middleware
    from taskqueue.client.worker.outcome import Drop, PassedOn, Retry, RunEnded
    from taskqueue.client.worker.worker import Worker
    from taskqueue.errors import (
        BacklogFull,
        ClientClosed,
        ClientError,
        Hung,
        MessageTooLarge,
        RequestRejected,
        RequestTimeout,
        TaskQueueError,
        Unauthorised,
    )
    from taskqueue.protocol.values import NewTask

__all__ = [
    "AsyncClient",
    "BacklogFull",
    "Client",
    "ClientClosed",
    "ClientError",
    "Drop",
    "FlowTask",
    "Hung",
    "MessageTooLarge",
    "Middleware",
    "NewTask",
    "PassedOn",
    "PushOptions",
    "Pushed",
    "PushedTask",
    "Reported",
    "RequestRejected",
    "RequestTimeout",
    "Result",
    "Retry",
    "RunEnded",
    "Task",
    "TaskQueueError",
    "Unauthorised",
    "Worker",
    "canonical_url",
    "default_taskid",
    "links",
    "new_task",
]

_HOMES = {
    "AsyncClient": "client.asynchronous.client",
    "Client": "client.blocking.client",
    "Drop": "client.worker.outcome",
    "FlowTask": "client.tasks.new_flow",
    "Reported": "client.tasks.reports",
    "Middleware": "client.worker.middleware",
    "NewTask": "protocol.values",
    "PassedOn": "client.worker.outcome",
    "PushOptions": "client.tasks.push_options",
    "PushedTask": "client.tasks.pushes",
    "Pushed": "client.tasks.pushes",
    "Result": "client.tasks.reports",
    "Retry": "client.worker.outcome",
    "RunEnded": "client.worker.outcome",
    "Task": "client.tasks.task",
    "Worker": "client.worker.worker",
    "canonical_url": "client.tasks.new_task",
    "default_taskid": "client.tasks.new_task",
    "links": "client.hyperlinks",
    "new_task": "client.tasks.new_task",
}
"""Modules of the names above; names that are missing here are in ``errors``."""


def __getattr__(name: str) -> object:
    """Import a public name from its module (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
