"""Requests made from the OpenAPI document, valid and invalid: no internal error, and refusals name the field.

``make fuzz`` tries a hundred times as many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from openapi_spec_validator import validate
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from taskqueue import Client
from taskqueue.web.api.interface import OPERATIONS
from taskqueue.web.api.openapi import document
from tests.integration.conftest import Daemon
from tests.integration.http_interface import Web, web_of
from tests.nightly import NIGHTLY, usually

EXAMPLES: Final = usually(2, nightly=200)
"""Valid requests for each operation, and as many invalid ones."""

CHOSEN: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=not NIGHTLY,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

KNOWN: Final = {"project": "news", "taskid": "a", "flow": "nightly", "slot": "news", "entry": "daily", "job": "monday"}
"""Names that exist, put into the path of every other request; otherwise nearly all would be about unknown ones."""

LOST: Final = ("/reset", "/clear")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"), projects={"news": {"slot": {"by": "host"}}}).start()
    try:
        with Client(daemon.url) as client:
            client.push("news", "http://news/a", taskid="a", body={1: b"\xff", "deep": [float("inf")]})
            client.push("news", "http://news/b", taskid="b", depends_on=["a"])
            flow = client.flow("news", "nightly")
            flow.task("http://news/c")
            flow.submit()
        with web_of(daemon) as it:
            yield it
    finally:
        daemon.stop()


def test_the_document_is_one_of_openapi() -> None:
    validate(document(OPERATIONS))


def loses(case: Any) -> bool:
    """Whether the request deletes what others need."""
    return bool(case.path.endswith(LOST) or (case.method == "DELETE" and case.path == "/projects/{project}"))


def without_waiting(case: Any) -> None:
    """Set waiting times to 0; waits for what won't happen would take all the time."""
    if case.path.endswith(("/wait", "/watch")):
        case.query = {**(case.query or {}), "seconds": 0}
    if case.path == "/leases":
        case.body = {**(case.body if isinstance(case.body, dict) else {}), "seconds": 0}
    for part in (case.query, case.body):
        if isinstance(part, dict) and "seconds" in part:
            part["seconds"] = 0


@pytest.mark.timeout(600)
def test_nothing_that_is_sent_meets_a_bug_and_what_is_refused_is_named(web: Web) -> None:
    answers: Counter[int] = Counter()
    wrong: list[str] = []
    number = 0

    def send(case: Any) -> None:
        nonlocal number
        number += 1
        if number % 2 and not loses(case):
            case.path_parameters.update({name: KNOWN[name] for name in case.path_parameters if name in KNOWN})
        without_waiting(case)
        answer = case.call(base_url=f"{web.address}/api/v1", timeout=30)
        answers[answer.status_code] += 1
        problem = answer.json() if "problem" in answer.headers.get("content-type", [""])[0] else {}
        if answer.status_code >= 500:
            wrong.append(f"{case.operation.label}: {answer.text[:300]}")
        elif problem.get("code") == "malformed" and not problem.get("field"):
            wrong.append(f"{case.operation.label}: no field: {problem}")
        elif answer.status_code == 200 and case.method != "HEAD":
            case.operation.validate_response(answer)

    document = schemathesis.openapi.from_url(f"{web.address}/api/v1/openapi.json")
    for operation in [each.ok() for each in document.get_all_operations() if isinstance(each, Ok)]:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            trying = given(case=operation.as_strategy(generation_mode=mode))(send)
            with suppress(Unsatisfiable):  # an operation without input has no invalid one
                CHOSEN(trying)()

    assert wrong == []
    assert answers[200] > 50
    assert web.got("GET", "/daemon/verify")["problems"] == []
