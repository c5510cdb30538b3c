"""What users import: Client, AsyncClient, Worker, and what goes with them."""

from taskqueue.client.async_client import AsyncClient
from taskqueue.client.blocking import Client
from taskqueue.client.finishing import Finish
from taskqueue.client.hyperlinks import links
from taskqueue.client.middleware import Middleware
from taskqueue.client.outcome import Drop, PassedOn, Retry
from taskqueue.client.pushing import Pushed
from taskqueue.client.task import Task, canonical_url, default_taskid, new_task
from taskqueue.client.worker import Worker

__all__ = [
    "AsyncClient",
    "Client",
    "Drop",
    "Finish",
    "Middleware",
    "PassedOn",
    "Pushed",
    "Retry",
    "Task",
    "Worker",
    "canonical_url",
    "default_taskid",
    "links",
    "new_task",
]
