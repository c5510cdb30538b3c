"""Users of the dashboard and of the HTTP API of a daemon with keys: by a token, through the web process's key."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest
from msgspec.structs import replace

from taskqueue import Client
from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, write_new_key
from taskqueue.access.tokens import digest_of
from taskqueue.protocol.callers import Role
from taskqueue.protocol.codec import encode
from taskqueue.protocol.daemon import StatusShow, WhoIs
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.projects import ProjectDo
from taskqueue.web.api.interface import OPERATIONS
from taskqueue.web.main import ROUTES
from tests.integration.conftest import WAIT_SECONDS, DaemonFactory, Peer
from tests.integration.http_interface import Keyed, Web
from tests.integration.test_rights import dealer

PAUSE = ProjectDo(project="news", action="pause", session="s", n=1)


@pytest.fixture
def it(daemon: DaemonFactory, tmp_path: Path) -> Keyed:
    made = Keyed(daemon(start=False, projects={"news": {}, "blog": {}}), tmp_path)
    made.daemon.start()
    return made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def answer(it: Keyed, key: KeyFile, asked: AnyRequest) -> dict[str, Any]:
    """Return the daemon's answer to a single request."""
    with dealer(it.daemon.url, key) as socket:
        socket.send(encode(asked))
        while (said := msgpack.unpackb(socket.recv())).get("n") != asked.n:
            pass
    return dict(said)


def lines_until_end(stream: httpx.Response) -> int:
    """Read a stream until it ends; return the number of its lines."""
    return sum(1 for _ in stream.iter_lines())


def test_the_key_of_the_web_process_pauses_nothing_with_the_name_of_a_viewer(it: Keyed) -> None:
    key = it.key("web1", "web")
    it.token("anna", "viewer")
    it.token("olga", "operator")
    it.key("ops", "admin")

    names = ("anna", "stranger", "ops", "local", "web1")
    said = {name: answer(it, key, replace(PAUSE, for_name=name)) for name in names}

    assert {each["code"] for each in said.values()} == {"forbidden"}
    assert "anna is a viewer, and project-do pause takes an operator" in said["anna"]["reason"]
    assert 'no token of "ops"' in said["ops"]["reason"]
    assert answer(it, key, PAUSE)["code"] == "forbidden"
    assert answer(it, key, StatusShow(session="s", n=1))["code"] == "forbidden"
    assert answer(it, key, replace(PAUSE, session="t", for_name="olga"))["project"]["state"] == "paused"


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_no_other_key_speaks_for_others(it: Keyed, role: Role) -> None:
    key = it.key("ops", role)
    token = it.token("olga", "admin")

    for asked in (replace(PAUSE, for_name="olga"), WhoIs(digest=digest_of(token), session="s", n=1)):
        assert answer(it, key, asked)["code"] == "forbidden"


def test_the_daemon_says_who_has_a_token(it: Keyed) -> None:
    key, token = it.key("web1", "web"), it.token("anna", "operator")
    it.key("ops", "admin")

    known = answer(it, key, WhoIs(digest=digest_of(token), session="s", n=1))
    assert (known["name"], known["role"], known["projects"]) == ("anna", "operator", ["*"])
    assert answer(it, key, WhoIs(name="anna", session="s", n=2))["name"] == "anna"
    for unknown in (WhoIs(digest="0" * 64), WhoIs(name="ops"), WhoIs(name="local"), WhoIs()):
        assert answer(it, key, replace(unknown, session="s", n=3))["name"] == ""


def test_a_user_does_by_http_what_its_role_allows_and_the_log_has_its_name(it: Keyed) -> None:
    viewer, operator = it.token("anna", "viewer"), it.token("olga", "operator")

    with it.web() as web:
        pause = "/projects/news/pause"
        assert web.ask("POST", pause).status_code == 401
        assert web.ask("POST", pause, **bearer("tq_" + "x" * 43)).status_code == 401
        assert web.ask("POST", pause, **bearer(viewer)).status_code == 403
        assert web.ask("GET", "/projects/news", **bearer(viewer)).status_code == 200
        paused = web.ask("POST", pause, **bearer(operator))
        assert paused.json()["project"]["state"] == "paused"
    it.daemon.wait_for_log("olga")


def test_the_web_process_of_the_daemon_itself_knows_users(daemon: DaemonFactory, tmp_path: Path) -> None:
    it = Keyed(daemon(start=False, projects={"news": {}}, web="127.0.0.1:0"), tmp_path)
    token = it.token()
    it.daemon.start()
    address = it.daemon.wait_for_log("shows the daemon at").split("shows the daemon at")[0].split()[-1]

    assert httpx.get(f"{address}api/v1/projects/news").status_code == 401
    assert httpx.get(f"{address}api/v1/projects/news", headers=bearer(token)).status_code == 200
    assert "news" in httpx.get(f"{address}projects/news", headers=bearer(token)).text
    assert httpx.get(f"{address}metrics", headers=bearer(token)).text.count("taskqueue_up 1.0") == 1
    assert httpx.get(f"{address}readyz").text == "ready\n"


def test_revoking_a_name_ends_its_streams(it: Keyed) -> None:
    revoked, other = it.token("anna"), it.token("ben")

    with it.web() as web, web.api.stream("GET", f"{web.address}/live/", headers=bearer(revoked)) as stream:
        with web.api.stream("GET", f"{web.address}/live/", headers=bearer(other)) as left:
            lines = left.iter_lines()
            next(lines)
            access_file.revoke(it.path, "anna")
            assert lines_until_end(stream) > 0
            with Client(it.daemon.url, key=it.key("ops", "admin")) as client:
                client.projects.pause("news")
            assert any("paused" in line for line in lines)
        assert web.ask("GET", "/projects/news", **bearer(revoked)).status_code == 401


def test_a_user_of_the_web_process_who_may_do_less_gets_no_more_by_what_it_asked_for_before(it: Keyed) -> None:
    key, root = it.key("web1", "web"), it.key("ops", "admin")
    for name in ("anna", "olga"):
        it.token(name, "fetcher")

    with ExitStack() as open_now:
        anna, olga, watcher, admin = (
            open_now.enter_context(closing(Peer(it.daemon.url, key=each))) for each in (key, key, key, root)
        )
        anna.ask("hello", capacity=5, projects=["news"], name="anna's", **{"for": "anna"})
        olga.ask("hello", capacity=5, projects=["news"], name="olga's", **{"for": "olga"})
        since = watcher.ask("watch", **{"for": "anna"})["since"]
        watching = watcher.send("watch", since=since, seconds=60, **{"for": "anna"})
        watcher.ask("project-show", project="blog", **{"for": "anna"})
        access_file.change(it.path, "anna", projects=["blog"])
        access_file.change(it.path, "olga", role="viewer")
        while admin.ask("fetchers")["capacity"]:
            pass
        watcher.ask("project-show", project="blog", **{"for": "anna"})
        admin.push("news", "a")

        said = watcher.receive()
        assert (said["n"], said.get("code")) == (watching, "forbidden")
        assert admin.ask("project-show", project="news")["project"]["counts"]["ready"] == 1


def test_a_user_who_loses_projects_sees_them_on_no_page_and_its_streams_end(it: Keyed) -> None:
    token = bearer(it.token())

    with it.web() as web, web.api.stream("GET", f"{web.address}/live/", headers=token) as stream:
        assert shown(web, "/", token)[1].count("blog")
        access_file.change(it.path, "anna", projects=["news"])
        assert lines_until_end(stream) > 0
        page = shown(web, "/", token)[1]
        assert ("news" in page, "blog" in page) == (True, False)


def test_another_web_process_goes_on_with_the_leases_and_keys_of_a_user(it: Keyed) -> None:
    token = bearer(it.token("anna", "admin"))

    with it.web("web1") as first, it.web("web2") as second:
        for _ in range(2):
            for web in (first, second):
                told = web.ask("POST", "/projects/news/tasks", {"url": "http://s/"}, Idempotency_Key="k", **token)
                assert told.json() == {"outcome": "new"}
        (task,) = first.ask("POST", "/leases", {"seconds": 30}, **token).json()["tasks"]
        report = {"project": "news", "taskid": task["taskid"], "token": task["token"]}
        assert second.ask("POST", "/leases/done", {"tasks": [report]}, **token).json()["outcomes"] == ["done"]


def test_a_key_of_repetition_belongs_to_the_user_who_used_it(it: Keyed) -> None:
    anna, ben = bearer(it.token("anna", "producer")), bearer(it.token("ben", "producer"))

    with it.web() as web:
        said = [
            web.ask("POST", "/projects/news/tasks", {"url": "http://s/"}, Idempotency_Key="k", **token).json()
            for token in (anna, ben, anna)
        ]
    assert said == [{"outcome": "new"}, {"outcome": "ignored"}, {"outcome": "new"}]


OTHERS = 1000


def addresses_of(project: str) -> list[str]:
    """Addresses of all pages, their streams and the HTTP API that only read, for users of some projects."""
    pages = [route.path for route in ROUTES if route.right == "look" and "GET" in route.methods]
    api = [f"/api/v1{each.path}" for each in OPERATIONS if each.right == "look" and each.method == "GET"]
    known = {"{project}": project, "{group}": "", "{flow}": "f", "{taskid:text}": "t", "{taskid}": "t", "{slot}": "s"}
    found = []
    for path in (*pages, *api):
        for name, value in known.items():
            path = path.replace(name, value)
        if "{" not in path:
            found.append(path)
    return found


def shown(web: Web, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return the status and the text of an address; of a stream the text of its first change."""
    with web.api.stream("GET", f"{web.address}{path}", headers=headers) as said:
        if said.headers.get("content-type", "").startswith("text/event-stream"):
            return said.status_code, next(line for line in said.iter_lines() if line.startswith("data: "))
        return said.status_code, said.read().decode()


def test_a_user_of_some_projects_sees_no_others_on_any_page_nor_by_http(daemon: DaemonFactory, tmp_path: Path) -> None:
    projects = {f"other-{number}": {"group": "others"} for number in range(OTHERS)} | {"news-a": {}, "news-b": {}}
    it = Keyed(daemon(start=False, projects=projects), tmp_path)
    token = bearer(access_file.authorise_token(it.path, "anna", "operator", projects=("news-*",)))
    it.daemon.start()
    with Client(it.daemon.url, key=it.key("ops", "admin"), timeout=WAIT_SECONDS) as client:
        for project in ("other-1", "other-2", "news-a"):
            client.push(project, f"http://{project}/", taskid="t")
            (task,) = client.select(projects=[project])
            client.failed(task, f"{project} is down", retry=False)
            client.projects.pause(project)

    with it.web() as web:
        for path in addresses_of("news-a"):
            status, text = shown(web, path, token)
            assert "other-" not in text, path
            assert status in (200, 303, 400, 403, 404), (path, text)
        assert '"news-a"' in web.ask("GET", "/projects", **token).text
        assert web.ask("GET", "/projects/news-a", **token).status_code == 200
        assert web.ask("POST", "/projects/news-b/pause", **token).status_code == 200
        for unseen in ("/projects/other-1", "/daemon"):
            assert web.ask("GET", unseen, **token).status_code == 403
        assert web.ask("POST", "/projects/other-1/pause", **token).status_code == 403
        assert httpx.get(f"{web.address}/metrics", headers=token).status_code == 403
        assert "Daemon</a>" not in httpx.get(f"{web.address}/", headers=token).text
        outside = {"url": "http://x/", "depends_on": [{"project": "other-1", "taskid": "t"}]}
        assert web.ask("POST", "/projects/news-a/tasks", outside, **token).status_code in (400, 403)


def test_a_proxys_user_has_the_role_of_the_access_file(it: Keyed) -> None:
    it.token("anna", "operator")
    proxy = {"TASKQUEUE_WEB_TRUST_PROXY": "127.0.0.1", "TASKQUEUE_WEB_PROXY_HEADER": "X-User"}

    with it.web(**proxy) as web:
        assert web.ask("GET", "/projects/news", X_User="ben").status_code == 403
        assert web.ask("GET", "/projects/news").status_code == 401
        assert web.ask("POST", "/projects/news/pause", X_User="anna").json()["project"]["state"] == "paused"


def test_a_web_process_with_a_users_key_says_that_it_may_not_ask(it: Keyed, tmp_path: Path) -> None:
    write_new_key(tmp_path / "ops.key", it.key("ops", "admin"))
    web = Web(it.daemon.url, {"TASKQUEUE_KEY": str(tmp_path / "ops.key")})
    try:
        refused = web.ask("GET", "/projects/news", **bearer(it.token()))
    finally:
        web.kill()

    assert refused.status_code == 503
    assert "who takes a web" in refused.text
