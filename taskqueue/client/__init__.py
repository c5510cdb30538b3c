"""Public names of the client: Client, AsyncClient, Worker, and their companions.

Here may live what speaks to a daemon over its socket. It knows the protocol, and neither the daemon's code nor the
store.
"""

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.blocking.client import Client
from taskqueue.client.hyperlinks import links
from taskqueue.client.tasks.new_flow import FlowTask
from taskqueue.client.tasks.new_task import canonical_url, default_taskid, new_task
from taskqueue.client.tasks.push_options import PushOptions
from taskqueue.client.tasks.pushes import Pushed, PushedTask
from taskqueue.client.tasks.reports import Reported
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.middleware import Middleware
from taskqueue.client.worker.outcome import Drop, PassedOn, Retry
from taskqueue.client.worker.worker import Worker

__all__ = [
    "AsyncClient",
    "Client",
    "Drop",
    "FlowTask",
    "Middleware",
    "PassedOn",
    "PushOptions",
    "Pushed",
    "PushedTask",
    "Reported",
    "Retry",
    "Task",
    "Worker",
    "canonical_url",
    "default_taskid",
    "links",
    "new_task",
]
