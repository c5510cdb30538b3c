"""All types of requests: one row each, from the modules that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.core.request_rule import RequestRule
from taskqueue.core.requests import (
    daemon,
    fetchers,
    flows,
    imports,
    insight,
    invariants,
    leases,
    projects,
    slots,
    task_list,
    tasks,
    watch,
    why,
)
from taskqueue.core.steps import completion, failures, history, operations, slot_list
from taskqueue.protocol.messages import AnyRequest

_MODULES: Final = (
    tasks, task_list, leases, fetchers, slots, slot_list, projects, imports, completion, flows, operations,
    insight, failures, history, why, watch, daemon, invariants,
)  # fmt: skip

ROWS: Final = tuple(rule for module in _MODULES for rule in module.REQUESTS)
RULES: Final[Mapping[type, RequestRule]] = {rule.kind: rule for rule in ROWS}
"""Rules by type of request."""


def slow_ms(request: AnyRequest) -> float:
    """Return the milliseconds that a request may take beyond the cost of a small one."""
    rule = RULES[type(request)]
    return rule.slow_ms if rule.slow_ms_of is None else rule.slow_ms_of(request)
