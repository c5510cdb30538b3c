"""All messages of protocol 1: the unions that are decoded and encoded, and envelopes for incoming and outgoing ones."""

from __future__ import annotations

from msgspec import Raw, Struct

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import (
    DaemonHistory,
    DaemonHistoryReply,
    DaemonReply,
    DaemonShow,
    Status,
    StatusReply,
    Verify,
    VerifyReply,
)
from taskqueue.protocol.fetchers import (
    Extend,
    FetcherDo,
    FetcherReply,
    Fetchers,
    FetcherShow,
    FetchersReply,
    Hello,
    HelloWanted,
    Release,
    Select,
    TokensReply,
    Welcome,
)
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.flows import (
    FlowCancel,
    FlowList,
    FlowReply,
    FlowShow,
    FlowsReply,
    FlowStage,
    FlowStaged,
    FlowSubmit,
    FlowTasks,
    FlowTasksReply,
)
from taskqueue.protocol.insight import (
    Failures,
    FailuresReply,
    HistoryReply,
    Log,
    LogReply,
    Stats,
    StatsHistory,
    StatsReply,
    Watch,
    WatchReply,
    Why,
    WhyReply,
)
from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationReply,
    OperationShow,
    OperationsReply,
    Rerun,
)
from taskqueue.protocol.projects import (
    GroupDo,
    GroupReply,
    GroupSet,
    ProjectDo,
    ProjectHold,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
    WaitReply,
)
from taskqueue.protocol.slots import SlotList, SlotListReply, SlotReply, SlotSet, SlotShow
from taskqueue.protocol.tasks import (
    Done,
    DoneReply,
    NewTasks,
    NewTasksReply,
    TaskCancel,
    TaskChildren,
    TaskChildrenReply,
    TaskList,
    TaskListReply,
    TaskParents,
    TaskParentsReply,
    TaskReply,
    TaskReprioritise,
    TaskRetry,
    TaskShow,
    TasksReply,
    TaskWait,
    TaskWaitReply,
)

AnyRequest = (
    Hello | NewTasks | Done | Extend | Release | Status | Fetchers | FetcherShow | FetcherDo | Stats | StatsHistory
    | ProjectShow | ProjectSet | ProjectUnset | ProjectDo | GroupSet | GroupDo | ProjectWait | ProjectHold | Why
    | TaskShow | TaskWait | TaskParents | TaskRetry | TaskCancel | TaskList | Failures | Bulk | Rerun
    | OperationShow | OperationList | OperationCancel | FlowStage | FlowSubmit | FlowShow | FlowList | FlowTasks
    | FlowCancel | SlotList | SlotShow | SlotSet | TaskChildren | TaskReprioritise | Watch
    | Log | Verify | DaemonShow | DaemonHistory
)  # fmt: skip

Flaws = dict[tuple[int, ...], str]
"""Why items of a batch could not be decoded, by their path: (index,) or, for a follow-up, (parent, index)."""


class Incoming(Struct):
    """A request and its sender.

    Attributes:
        flaws: reasons for the items that are None in the request's batch.
        address: of the sender's machine, for people; empty if unknown.
    """

    peer: Peer
    request: AnyRequest
    flaws: Flaws = {}
    address: str = ""


AnyReply = (
    Welcome | NewTasksReply | DoneReply | TokensReply | StatusReply | FetchersReply | FetcherReply | StatsReply
    | HistoryReply | ProjectReply | WaitReply | WhyReply | TaskReply | TaskWaitReply | TaskParentsReply | TasksReply
    | TaskListReply | FailuresReply | GroupReply | OperationReply | OperationsReply | FlowStaged | FlowReply
    | FlowsReply | FlowTasksReply | SlotListReply | SlotReply | LogReply | VerifyReply | DaemonReply | TaskChildrenReply
    | DaemonHistoryReply | WatchReply | ErrorReply
)  # fmt: skip

AnyOutgoing = AnyReply | Select | HelloWanted


class Outgoing(Struct, gc=False):
    """A message and its destination.

    Attributes:
        after_sync: it acknowledges something that the turn stores, so it must not be sent before that is synced.
        session: the receiving session; empty: unknown.
    """

    peer: Peer
    message: AnyOutgoing | Raw
    after_sync: bool = True
    session: str = ""
