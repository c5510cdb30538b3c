"""All types of requests: one row each, from the modules that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.core.admin import (
    change_log,
    daemon_figures,
    draining,
    failure_counts,
    flow_requests,
    invariants,
    operations,
    project_requests,
    slot_lists,
    slot_requests,
    task_children,
    task_list,
    task_parents,
    task_requests,
    watch,
    why,
)
from taskqueue.core.request_rule import RequestRule
from taskqueue.core.rules import completion, daemon_history, event_history, fetchers, lease_end, push, task_waits
from taskqueue.protocol.messages import AnyRequest

_MODULES: Final = (
    push, lease_end, fetchers, completion, event_history, daemon_history, project_requests, task_requests, task_parents,
    task_children, task_list, why, operations, failure_counts, flow_requests, slot_lists, slot_requests, change_log,
    draining, daemon_figures, watch, invariants, task_waits,
)  # fmt: skip

ROWS: Final = tuple(rule for module in _MODULES for rule in module.REQUESTS)
RULES: Final[Mapping[type, RequestRule]] = {rule.kind: rule for rule in ROWS}
"""By type."""


def slow_ms(request: AnyRequest) -> float:
    """Milliseconds that a request may take beyond what every small one does."""
    rule = RULES[type(request)]
    return rule.slow_ms if rule.slow_ms_of is None else rule.slow_ms_of(request)
