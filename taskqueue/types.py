"""Types that clients return and take, each declared once: in messages, or here.

All are frozen, except ``TaskCounts`` and ``EventTotals``, in which the daemon counts. Names from pyspider are kept:
``itag``, ``exetime``, ``age``, ``lastcrawltime``, ``retries``.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from taskqueue.protocol.choices import (
    AttemptOutcome,
    FailuresBy,
    FetcherSort,
    FlowState,
    FlowTaskState,
    ParentFailure,
    ProjectSort,
    ProjectState,
    PushOutcome,
    RemainingReason,
    RerunScope,
    Resolution,
    SlotPlace,
    SlotSort,
    TaskState,
)
from taskqueue.protocol.daemon import DaemonPoint, DaemonStatus, Histogram, KeyUse, Status, StoreLevel
from taskqueue.protocol.exports import (
    ExportedParent,
    ExportedPoint,
    ExportedProject,
    ExportedTask,
    ExportedUpdate,
    ImportProgress,
)
from taskqueue.protocol.fetchers import Fetcher, FetcherName, FetcherPage, HungPlaces, NoteOutcome
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.protocol.insight import (
    FailureGroup,
    Failures,
    HistoryPoint,
    ProjectChanges,
    ProjectPulse,
    ProjectStats,
    Window,
    Windows,
)
from taskqueue.protocol.projects import (
    CronEntry,
    GroupChange,
    Project,
    ProjectProgress,
    Remaining,
    SharedBucket,
)
from taskqueue.protocol.slots import Slot, SlotDetails, SlotDivision, SlotFact, SlotPage
from taskqueue.protocol.tasks import Child, Parent, ReportOutcome, TaskDetails, TaskOutcome, TaskRow
from taskqueue.protocol.values import (
    Attempt,
    BulkAction,
    Change,
    EventTotals,
    Operation,
    OperationAction,
    Recrawl,
    RerunLayer,
    RerunProgress,
    Schedule,
    TaskCounts,
    TaskFilter,
    UndoProgress,
)

__all__ = [
    "Attempt",
    "AttemptOutcome",
    "BulkAction",
    "Change",
    "Child",
    "CronEntry",
    "DaemonPoint",
    "DaemonStatus",
    "EventTotals",
    "ExportedParent",
    "ExportedPoint",
    "ExportedProject",
    "ExportedTask",
    "ExportedUpdate",
    "FailureGroup",
    "Failures",
    "FailuresBy",
    "Fetcher",
    "FetcherName",
    "FetcherPage",
    "FetcherSort",
    "Flow",
    "FlowState",
    "FlowTaskState",
    "FlowTaskStatus",
    "GroupChange",
    "Histogram",
    "HistoryPoint",
    "HungPlaces",
    "ImportProgress",
    "KeyUse",
    "NoteOutcome",
    "Operation",
    "OperationAction",
    "Page",
    "Parent",
    "ParentFailure",
    "Project",
    "ProjectChanges",
    "ProjectProgress",
    "ProjectPulse",
    "ProjectSort",
    "ProjectState",
    "ProjectStats",
    "PushOutcome",
    "Recrawl",
    "Remaining",
    "RemainingReason",
    "ReportOutcome",
    "RerunLayer",
    "RerunProgress",
    "RerunScope",
    "Resolution",
    "Schedule",
    "Setting",
    "SharedBucket",
    "Slot",
    "SlotDetails",
    "SlotDivision",
    "SlotFact",
    "SlotPage",
    "SlotPlace",
    "SlotSort",
    "Status",
    "StoreLevel",
    "TaskCounts",
    "TaskDetails",
    "TaskFilter",
    "TaskOutcome",
    "TaskRow",
    "TaskState",
    "UndoProgress",
    "Window",
    "Windows",
]

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """Page of a longer list.

    Attributes:
        items: items of this page; may be empty although more pages follow.
        next: value of ``after`` for the next page; empty on the last page.
    """

    items: list[T]
    next: str = ""
