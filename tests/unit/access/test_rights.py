"""Rights: each request takes one, and docs/reference/rights.md has them all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from taskqueue.access.checks import check_right
from taskqueue.access.rights import TYPE_RIGHTS, right_of
from taskqueue.core.request_rules import ROWS
from taskqueue.errors import Rejected
from taskqueue.protocol.callers import EVERYBODY, RIGHTS_OF, ROLES, Caller, Right, Role
from taskqueue.protocol.daemon import DaemonHistory, DaemonShow, KeyList, StatusShow, Verify
from taskqueue.protocol.fetchers import FetcherDo, Hello, Note
from taskqueue.protocol.fields import Token
from taskqueue.protocol.insight import StatsHistory
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.projects import GroupDo, ProjectDo
from taskqueue.protocol.tasks import NewTasks

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "rights.md").read_text(encoding="utf-8")

PAUSE = ProjectDo(project="a", action="pause")
DELETE = ProjectDo(project="a", action="delete")


def test_each_request_that_keeps_nothing_looks_and_no_other_does() -> None:
    looking = {row.kind for row in ROWS if not row.keeps} - {Verify, KeyList, Hello, Note}

    assert {kind for kind, right in TYPE_RIGHTS.items() if right == "look"} == looking


@pytest.mark.parametrize(
    ("hello", "right"),
    [
        (Hello(capacity=0), "look"),
        (Hello(capacity=1), "work"),
        (Hello(capacity=0, holds=[Token(1)]), "work"),
        (Hello(capacity=0, running=[Token(1)]), "work"),
    ],
)
def test_a_hello_looks_until_it_speaks_of_tasks(hello: Hello, right: Right) -> None:
    assert right_of(hello) == right


def test_the_page_has_the_rights_of_each_role() -> None:
    rows = re.findall(r"^\| (\w+) \|((?: ?●? ?\|){6})$", PAGE, re.MULTILINE)
    rights = get_args(Right)
    said = {role: {right for right, cell in zip(rights, cells.split("|"), strict=False) if "●" in cell}
            for role, cells in rows}  # fmt: skip

    assert said == dict(RIGHTS_OF)


def test_without_keys_every_peer_may_everything() -> None:
    assert all(EVERYBODY.may(right) for right in RIGHTS_OF["admin"])


@pytest.mark.parametrize(
    ("role", "request_", "said"),
    [
        (
            "fetcher", PAUSE,
            "web1 is a fetcher, and project-do pause takes an operator or admin; "
            "at the daemon: taskqueue key set web1 --role operator$",
        ),
        ("operator", DELETE, "web1 is an operator, and project-do delete takes an admin; .* --role admin$"),
        (
            "viewer", NewTasks(project="a", tasks=[]),
            "web1 is a viewer, and new-task takes a producer, fetcher, operator or admin; .* --role producer$",
        ),
        (
            "producer", Hello(capacity=1),
            "web1 is a producer, and taking tasks takes the role fetcher or admin; .* --role fetcher$",
        ),
        ("web", StatusShow(), "web1 is a web, and status takes a viewer, .*; use a key of such a role"),
        (None, StatusShow(), 'status: the access file has no "web1"'),
    ],
)  # fmt: skip
def test_a_refusal_says_who_asked_for_what_and_which_role_it_takes(
    role: Role | None, request_: ProjectDo | NewTasks | Hello | StatusShow, said: str
) -> None:
    with pytest.raises(Rejected, match=f"^forbidden: {said}") as refused:
        check_right(Caller("web1", role), request_)

    assert refused.value.code == "forbidden"


def test_users_by_ipc_are_told_of_the_setting_with_their_role() -> None:
    with pytest.raises(Rejected, match=r"takes an operator or admin; see daemon\.ipc_role in its config file$"):
        check_right(Caller("user:anna", "viewer"), PAUSE)


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (DaemonShow(), "daemon-show"),
        (DaemonHistory(), "daemon-history"),
        (KeyList(), "key-list"),
        (Verify(), "verify"),
        (FetcherDo(fetcher="web1", action="drain"), "fetcher-do drain"),
        (FetcherDo(fetcher="web1", action="resume"), "fetcher-do resume"),
        (StatsHistory(), "stats-history"),
        (GroupDo(action="pause", all=True), "group-do pause"),
    ],
)
def test_a_request_about_all_projects_takes_a_key_for_all(request_: AnyRequest, what: str) -> None:
    check_right(Caller("anna", "admin"), request_)
    with pytest.raises(
        Rejected, match=f"^forbidden: {what} is about all projects, and web1 reaches news-\\*, blog; use"
    ):
        check_right(Caller("web1", "admin", patterns=("news-*", "blog")), request_)
    assert f"`{what.split()[0]}`" in re.findall(r"^\|(.*)\| `forbidden` \|$", PAGE, re.MULTILINE)[-1]


def test_a_request_about_some_projects_takes_no_key_for_all() -> None:
    for request in (StatsHistory(project="news-a"), GroupDo(action="pause", group="papers"), StatusShow()):
        check_right(Caller("web1", "admin", patterns=("news-*",)), request)


def test_only_admins_make_projects() -> None:
    assert [role for role in ROLES if Caller("web1", role).makes_projects] == ["admin"]
