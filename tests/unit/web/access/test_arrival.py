"""Root path of a proxy: set by an option or a trusted proxy, and by no other client."""

from __future__ import annotations

import pytest
from starlette.routing import Mount, Route

from taskqueue.errors import ConfigError
from taskqueue.web.access.access import check_start
from taskqueue.web.access.arrival import MAX_ROOT_CHARS, OWN_SEGMENTS, below, root_path_of
from taskqueue.web.main import ROUTES
from taskqueue.web.options import AccessOptions, WebOptions
from tests.unit.web.access.conftest import MakeSite

UNSAFE = (
    "//evil", "/a//b", "javascript:alert(1)", "https://evil", "taskqueue", "/a b", "/a\r\nSet-Cookie: b=c", "/a\n",
    '/"onload=alert(1)', "/'", "/<b>", "/a\\b", "/a%2Fb", "/..", "/a/../b", "/a/.", "/ü", "/a?b", "/a#b", "/a;b",
    "/a,b", "/flows", "/api/v1", "/static/", "/" + "a" * MAX_ROOT_CHARS,
)  # fmt: skip


@pytest.mark.parametrize("written", UNSAFE)
def test_what_is_unsafe_or_ambiguous_is_no_root_path(written: str) -> None:
    assert root_path_of(written) is None


@pytest.mark.parametrize(
    ("written", "root"),
    [("", ""), ("/", ""), ("/taskqueue", "/taskqueue"), ("/a/b.c/", "/a/b.c"), ("/...", "/..."), ("/flowsheet",) * 2],
)
def test_a_root_path_is_the_same_with_a_slash_at_its_end(written: str, root: str) -> None:
    assert root_path_of(written) == root


def test_no_address_of_ours_can_be_below_a_root_path(site: MakeSite) -> None:
    served = [route.path for route in site().served.routes if isinstance(route, Route | Mount)]
    first = {path.split("/")[1] for path in (*served, *(route.path for route in ROUTES))}

    assert first - {"", "stream", "silent", "wait", "for-ever", "who", "run", "broken"} == set(OWN_SEGMENTS)


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("/a/flows", "/flows"),
        ("/flows", "/flows"),
        ("/a", "/"),
        ("/a/", "/"),
        ("/ab/c", "/ab/c"),
        ("/a//evil", "//evil"),
    ],
)
def test_a_request_is_the_same_whether_its_proxy_strips_the_path_or_not(sent: str, seen: str) -> None:
    scope = below({"path": sent, "raw_path": sent.encode()}, "/a")

    assert (scope["path"], scope["raw_path"]) == (seen, seen.encode())


@pytest.mark.parametrize("said", ["/tq", "/tq/", "//evil, /tq"])
def test_a_trusted_proxy_says_the_path_of_every_address(site: MakeSite, said: str) -> None:
    it = site(host="0.0.0.0", proxies=("127.0.0.1",))
    page = it.get("/login", headers={"X-Forwarded-Prefix": said}).text

    assert '<form method="post" action="/tq/login">' in page
    assert 'src="/tq/static/main.js"' in page


@pytest.mark.parametrize("said", [each for each in UNSAFE if each.isascii() and each.isprintable() and "," not in each])
def test_an_unsafe_path_of_a_trusted_proxy_is_refused_and_not_repeated(site: MakeSite, said: str) -> None:
    answer = site(host="0.0.0.0", proxies=("127.0.0.1",)).get("/login", headers={"X-Forwarded-Prefix": said})

    assert answer.status_code == 400
    assert answer.text.startswith("X-Forwarded-Prefix must be ")
    assert said not in answer.text.replace("such as /taskqueue", "")


def test_a_path_that_comes_from_anywhere_else_says_nothing(site: MakeSite) -> None:
    it = site(host="0.0.0.0", proxies=("10.0.0.1",))

    assert it.get("/login", headers={"X-Forwarded-Prefix": "/evil"}).text == it.get("/login").text
    assert it.get("/evil/login", headers={"X-Forwarded-Prefix": "/evil"}).status_code == 404


def test_a_path_that_was_chosen_wins_over_what_a_proxy_says(site: MakeSite) -> None:
    it = site(host="0.0.0.0", proxies=("127.0.0.1",), root_path="/tq")

    assert 'action="/tq/login"' in it.get("/login", headers={"X-Forwarded-Prefix": "/evil"}).text


def test_over_https_the_cookie_of_a_path_is_secure_and_of_that_path_alone(site: MakeSite) -> None:
    it = site(keys=True, host="0.0.0.0", hosts=("tasks.example",), proxies=("127.0.0.1",), root_path="/a/tq")
    it.call_it("https://tasks.example/a/tq")
    it.headers["X-Forwarded-Proto"] = "https"
    it.headers["Origin"] = "https://tasks.example"
    secret, page = it.token(), it.get("/login")
    csrf = page.text.split('name="csrf" value="')[-1].split('"')[0]
    answer = it.post("/login", data={"csrf": csrf, "token": secret, "next": "/who"})
    (cookie,) = [each for each in answer.headers.get_list("set-cookie") if "-login" not in each]

    assert answer.headers["Location"] == "/a/tq/who"
    assert cookie.startswith("__Secure-taskqueue-443.a.tq=")
    assert {"path=/a/tq", "secure"} <= {part.strip().lower() for part in cookie.split(";")}
    assert it.get("/who").json()["name"] == "anna"


def test_a_path_says_that_there_is_a_proxy_so_nobody_is_let_in_without_a_token(site: MakeSite) -> None:
    it = site(root_path="/tq")

    assert it.get("/who").status_code == 401
    with pytest.raises(ConfigError, match="no user is known"):
        check_start(WebOptions("tcp://127.0.0.1:1", access=AccessOptions(root_path="/tq")))
