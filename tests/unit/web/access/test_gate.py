"""Checks that every request passes: names, framing, origin; and headers of responses."""

from __future__ import annotations

import pytest

from tests.unit.web.access.conftest import BROWSER, HOST, MakeSite


@pytest.mark.parametrize("host", ["127.0.0.1:7401", "localhost:8080", "LOCALHOST", "[::1]:7401", "127.0.0.2"])
def test_on_loopback_every_name_of_loopback_is_ours(site: MakeSite, host: str) -> None:
    assert site().get("/who", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.5:7401", "127.0.0.1.evil.example"])
def test_on_loopback_no_other_name_is_ours(site: MakeSite, host: str) -> None:
    answer = site().get("/who", headers={"Host": host})

    assert answer.status_code == 421
    assert "--host" in answer.text


@pytest.mark.parametrize("host", ["a b", "a/b", "a@b", "[::1", "x:y", "a\\b", "a,b", "<script>"])
def test_what_is_no_name_of_a_host_is_refused_and_not_repeated(site: MakeSite, host: str) -> None:
    answer = site().get("/who", headers={"Host": host})

    assert answer.status_code == 400
    assert host not in answer.text


def test_a_name_that_was_allowed_is_ours(site: MakeSite) -> None:
    it = site(host="0.0.0.0", hosts=("tasks.example",))

    allowed, other = (it.get("/login", headers={"Host": host}) for host in ("tasks.example", "evil.example"))
    assert (allowed.status_code, other.status_code) == (200, 421)


def test_a_program_on_this_machine_is_an_admin_as_long_as_there_is_no_token(site: MakeSite) -> None:
    answer = site().patch("/api/v1/set", json={})

    assert answer.json()["role"] == "admin"
    assert answer.json()["actor"].startswith("web@")


def test_a_page_of_ours_may_change_something(site: MakeSite) -> None:
    it = site()
    csrf = it.get("/who").json()["csrf"]

    assert it.patch("/api/v1/set", json={}, headers=BROWSER | {"X-CSRF-Token": csrf}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": f"https://{HOST}"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": f"http://{HOST}/"},
        {"Cookie": "a=b"},
    ],
    ids=str,
)
def test_what_a_browser_sends_for_another_page_changes_nothing(site: MakeSite, headers: dict[str, str]) -> None:
    it = site()
    headers |= {"X-CSRF-Token": it.get("/who").json()["csrf"], "Content-Type": "application/json"}

    assert it.patch("/api/v1/set", content=b"{}", headers=headers).status_code == 403


@pytest.mark.parametrize("csrf", [{}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "guessed"}, {"X-CSRF-Token": "\xff"}])
def test_what_a_browser_sends_without_the_token_of_the_page_changes_nothing(
    site: MakeSite, csrf: dict[str, str]
) -> None:
    headers = {name: value.encode("latin-1") for name, value in (BROWSER | csrf).items()}
    answer = site().patch("/api/v1/set", content=b"{}", headers=headers)

    assert answer.status_code == 403
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "X-CSRF-Token" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_any_page_can_make_a_browser_send_is_not_read(site: MakeSite, kind: str) -> None:
    assert site().post("/api/v1/set", content=b"{}", headers={"Content-Type": kind}).status_code == 415


def test_a_body_says_of_what_type_it_is(site: MakeSite) -> None:
    it = site()

    assert it.post("/run", content=b"{}").status_code == 415
    assert it.post("/run").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
    ],
    ids=str,
)
def test_other_pages_may_link_here_and_fetch_nothing(site: MakeSite, headers: dict[str, str], status: int) -> None:
    assert site().get("/who", headers=headers).status_code == status


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host"])
def test_what_comes_through_a_proxy_that_nobody_has_named_is_no_admin(site: MakeSite, header: str) -> None:
    answer = site().get("/who", headers={header: "127.0.0.1"})

    assert answer.status_code == 403
    assert "--trust-proxy" in answer.text


@pytest.mark.parametrize("path", ["/login", "/who", "/nothing", "/static/base.css", "/api/v1/broken"])
def test_every_response_says_what_a_browser_may_do_with_it(site: MakeSite, path: str) -> None:
    headers = site().get(path).headers

    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "Access-Control-Allow-Origin" not in headers


def test_a_bug_costs_one_request_and_tells_nothing_of_itself(site: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    it = site()

    page, answer = it.get("/broken"), it.get("/api/v1/broken")
    assert (page.status_code, answer.status_code) == (500, 500)
    assert "secret" not in page.text + answer.text
    assert answer.json()["detail"]
    assert "ZeroDivisionError" in caplog.text


def test_a_length_that_is_said_in_two_ways_is_refused(site: MakeSite) -> None:
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}

    assert site().post("/run", content=b"{}", headers=headers).status_code == 400
