"""Identification of visitors by token, cookie and proxy."""

from __future__ import annotations

import time

import pytest

from taskqueue.access.key_file import make_key
from taskqueue.errors import ConfigError
from taskqueue.web.access.access import check_start
from taskqueue.web.access.logins import IDLE_SECONDS, LONGEST_SECONDS, MAX_PER_TOKEN
from taskqueue.web.options import AccessOptions, WebOptions
from tests.unit.web.access.conftest import BROWSER, HOST, MakeSite, Site


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def csrf_of(it: Site) -> str:
    csrf: str = it.get("/who").json()["csrf"]
    return csrf


def test_with_keys_everybody_needs_a_token(site: MakeSite) -> None:
    it = site(keys=True)
    assert it.get("/who").status_code == 401
    secret = it.token()

    assert it.get("/who").status_code == 401
    assert it.get("/who", headers=bearer(secret)).json()["name"] == "anna"


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        ("viewer", [200, 403, 403]), ("producer", [200, 403, 403]), ("fetcher", [200, 403, 403]),
        ("operator", [200, 200, 403]), ("admin", [200, 200, 200]),
    ],
)  # fmt: skip
def test_a_role_has_the_rights_of_the_access_file(site: MakeSite, role: str, statuses: list[int]) -> None:
    it = site(keys=True)
    headers = bearer(it.token("anna", role))

    answers = [it.post(path, headers=headers) for path in ("/who", "/run", "/api/v1/set")]
    assert [answer.status_code for answer in answers] == statuses


def test_the_log_learns_by_what_it_was_and_the_daemon_adds_the_name(site: MakeSite) -> None:
    it = site(keys=True)

    assert it.get("/who", headers=bearer(it.token())).json()["actor"].startswith("web@")


def test_a_token_that_has_expired_is_worth_nothing(site: MakeSite) -> None:
    it = site(keys=True)
    secret = it.token(expires_at=time.time() - 1)

    assert it.get("/who", headers=bearer(secret)).status_code == 401


def test_who_shows_a_token_from_a_page_of_another_site_is_refused(site: MakeSite) -> None:
    it = site(keys=True)
    secret = it.token()

    answers = [
        it.patch("/api/v1/set", json={}, headers=bearer(secret) | {"Origin": origin})
        for origin in ("https://evil.example", f"http://{HOST}")
    ]
    assert [answer.status_code for answer in answers] == [403, 200]


def test_a_person_is_led_to_the_sign_in_page_and_back(site: MakeSite) -> None:
    it = site(keys=True)
    secret = it.token()

    led = it.get("/who?a=1&b=2", headers={"Accept": "text/html"})
    assert (led.status_code, led.headers["Location"]) == (303, "/login?next=%2Fwho%3Fa%3D1%26b%3D2")
    back = it.sign_in(secret, "/who?a=1&b=2")
    assert (back.status_code, back.headers["Location"]) == (303, "/who?a=1&b=2")
    assert it.get("/who").json()["name"] == "anna"


def test_who_follows_a_link_of_another_site_is_still_signed_in(site: MakeSite) -> None:
    it = site(keys=True)
    it.token()
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    answer = it.get("/who", headers=headers | {"Sec-Fetch-Dest": "document"})
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0"' in answer.text


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "\t//evil", "/a\r\nX: y"],
)
def test_nobody_is_led_elsewhere_after_signing_in(site: MakeSite, target: str) -> None:
    it = site(keys=True)

    assert it.sign_in(it.token(), target).headers["Location"] == "/"


def test_the_cookie_is_for_us_alone(site: MakeSite) -> None:
    it = site(keys=True)
    cookie = next(c for c in it.sign_in(it.token()).headers.get_list("set-cookie") if "-login" not in c)

    assert cookie.startswith("taskqueue-7401=")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}


def test_behind_a_proxy_with_https_the_cookie_is_secure_and_of_this_host_alone(site: MakeSite) -> None:
    it = site(keys=True, host="0.0.0.0", hosts=("tasks.example",), proxies=("127.0.0.1",))
    it.call_it("https://tasks.example")
    it.headers["X-Forwarded-Proto"] = "https"
    cookie = next(c for c in it.sign_in(it.token()).headers.get_list("set-cookie") if "-login" not in c)

    assert cookie.startswith("__Host-taskqueue-443=")
    assert "; secure" in cookie.lower()
    assert it.get("/who/").headers["Location"] == "/who"  # of the same host, and over https
    assert it.get("/who").json()["name"] == "anna"


def test_a_change_needs_the_token_of_the_session(site: MakeSite) -> None:
    it, other = site(keys=True), site(keys=True)
    secret = it.token()
    it.sign_in(secret)
    other.sign_in(secret)
    ours, foreign = csrf_of(it), csrf_of(other)

    answers = [it.post("/run", json={}, headers=BROWSER | {"X-CSRF-Token": csrf}) for csrf in (ours, foreign)]
    assert [answer.status_code for answer in answers] == [200, 403]


def test_a_sign_in_that_another_page_sends_is_refused(site: MakeSite) -> None:
    it = site(keys=True)
    secret = it.token()

    answer = it.post("/login", data={"token": secret}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert (
        it.post("/login", data={"token": secret, "csrf": "x"}, headers={"Origin": f"http://{HOST}"}).status_code == 403
    )
    assert it.get("/who").status_code == 401


def test_signing_out_ends_the_session(site: MakeSite) -> None:
    it = site(keys=True)
    it.sign_in(it.token())
    stolen = dict(it.cookies)
    it.post("/logout", data={"csrf": csrf_of(it)}, headers={"Origin": f"http://{HOST}"})

    assert not it.cookies.get("taskqueue-7401")
    it.cookies.update(stolen)
    assert it.get("/who").status_code == 401


def test_nobody_is_signed_out_by_another_page(site: MakeSite) -> None:
    it = site(keys=True)
    it.sign_in(it.token())
    it.post("/logout", data={"csrf": "guessed"}, headers={"Origin": f"http://{HOST}"})

    assert it.get("/who").status_code == 200


def test_a_session_ends_with_its_token(site: MakeSite) -> None:
    it = site(keys=True)
    it.sign_in(it.token())
    it.revoke()
    it.token("anna", "viewer")

    assert it.get("/who").status_code == 401


def test_a_session_ends_when_its_token_expires(site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    it = site(keys=True)
    it.sign_in(it.token(expires_at=time.time() + 60))
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)

    assert it.get("/who").status_code == 401


@pytest.mark.parametrize("seconds", [IDLE_SECONDS + 1, LONGEST_SECONDS + 1])
def test_a_session_ends_when_nobody_uses_it(site: MakeSite, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    it = site(keys=True)
    it.sign_in(it.token())
    later = time.monotonic() + seconds
    monkeypatch.setattr("taskqueue.web.access.logins.time.monotonic", lambda: later)

    assert it.get("/who").status_code == 401


def test_a_token_has_a_bounded_number_of_sessions_and_the_oldest_ends(site: MakeSite) -> None:
    it = site(keys=True)
    secret = it.token()
    it.sign_in(secret)
    first = dict(it.cookies)
    for _ in range(MAX_PER_TOKEN):
        it.cookies.clear()
        it.sign_in(secret)

    assert len(it.served.state.access.sessions) == MAX_PER_TOKEN
    assert it.get("/who").status_code == 200
    it.cookies.clear()
    it.cookies.update(first)
    assert it.get("/who").status_code == 401


def test_a_cookie_that_somebody_put_beside_ours_counts_for_nobody(site: MakeSite) -> None:
    it = site(keys=True)
    it.sign_in(it.token())
    sid = it.cookies["taskqueue-7401"]
    it.cookies.clear()

    once, twice = f"taskqueue-7401={sid}", f"taskqueue-7401={sid}; taskqueue-7401=other"
    assert [it.get("/who", headers={"Cookie": cookie}).status_code for cookie in (once, twice)] == [200, 401]


def test_a_wrong_token_is_told_so_on_the_page(site: MakeSite) -> None:
    it = site(keys=True)
    it.token()
    answer = it.sign_in("tq_wrong")

    assert answer.status_code == 401
    assert "The token is wrong, has expired, or was revoked." in answer.text


def test_a_user_of_the_proxy_comes_in(site: MakeSite) -> None:
    roles = {"": "viewer", "anna": "admin"}
    it = site(host="0.0.0.0", proxies=("127.0.0.0/8",), proxy_header="x-user", proxy_roles=roles)

    found = [it.get("/who", headers={"X-User": name}).json() for name in ("anna", "ben")]
    assert [(each["name"], each["role"]) for each in found] == [("anna", "admin"), ("ben", "viewer")]
    assert found[0]["csrf"] != found[1]["csrf"]
    assert it.get("/who").status_code == 401


def test_a_user_of_the_proxy_changes_something_from_a_page_of_ours_alone(site: MakeSite) -> None:
    it = site(host="0.0.0.0", proxies=("127.0.0.1",), proxy_header="x-user", proxy_roles={"": "operator"})
    it.headers["X-User"] = "anna"

    with_csrf = BROWSER | {"X-CSRF-Token": csrf_of(it)}
    assert [it.post("/run", json={}, headers=headers).status_code for headers in (BROWSER, with_csrf)] == [403, 200]


def test_the_header_of_the_proxy_counts_from_the_proxy_alone(site: MakeSite) -> None:
    it = site(host="0.0.0.0", peer="10.0.0.9", proxies=("10.0.0.2",), proxy_header="x-user", proxy_roles={"": "admin"})

    assert it.get("/who", headers={"X-User": "anna"}).status_code == 403


@pytest.mark.parametrize("value", [b"a\x00b", b"x" * 65, b"\xff\xfe", "an\u202ena".encode()])
def test_a_name_that_is_none_is_refused(site: MakeSite, value: bytes) -> None:
    it = site(host="0.0.0.0", proxies=("127.0.0.1",), proxy_header="x-user")

    assert it.get("/who", headers={b"X-User": value}).status_code == 403


def test_two_names_are_none(site: MakeSite) -> None:
    it = site(host="0.0.0.0", proxies=("127.0.0.1",), proxy_header="x-user")

    assert it.get("/who", headers=[("X-User", "anna"), ("X-User", "root")]).status_code == 403


def test_the_address_that_a_stranger_claims_is_not_his(site: MakeSite) -> None:
    it = site(keys=True, host="0.0.0.0", proxies=("127.0.0.1", "10.0.0.0/8"))
    it.token()
    it.get("/who", headers=bearer("wrong") | {"X-Forwarded-For": "1.1.1.1, 203.0.113.7, 10.0.0.2"})

    assert list(it.served.state.access.failed._failed) == ["203.0.113.7"]


def test_a_user_of_the_proxy_has_the_role_of_the_access_file(site: MakeSite) -> None:
    it = site(keys=True, host="0.0.0.0", proxies=("127.0.0.1",), proxy_header="x-user")
    it.token("anna", "operator")

    found = it.get("/who", headers={"X-User": "anna"}).json()
    assert (found["name"], found["role"], bool(found["csrf"])) == ("anna", "operator", True)
    unknown = it.get("/who", headers={"X-User": "ben"})
    assert (unknown.status_code, 'no token of "ben"' in unknown.text) == (403, True)


def test_a_token_of_no_form_is_wrong_without_a_question(site: MakeSite) -> None:
    it = site(keys=True)

    assert it.get("/who", headers=bearer("tq_short")).status_code == 401
    assert not it.served.state.access.users._answers


def test_elsewhere_than_on_loopback_nothing_starts_without_a_way_to_know_people() -> None:
    for options in (
        WebOptions("", "0.0.0.0"),
        WebOptions("", "127.0.0.1", access=AccessOptions(hosts=("tasks.example",))),
    ):
        with pytest.raises(ConfigError, match=r"taskqueue key authorise NAME --token.*--trust-proxy"):
            check_start(options)
    check_start(WebOptions("", "127.0.0.1"))
    check_start(WebOptions("", "0.0.0.0", key=make_key("web")))
    with pytest.raises(ConfigError, match="--proxy-role"):
        check_start(WebOptions("", access=AccessOptions(proxy_roles={"": "admin"}), key=make_key("web")))
