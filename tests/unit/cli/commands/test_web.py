"""``taskqueue web token``: tokens that let users in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskqueue.cli.main import main
from taskqueue.web.access.tokens import Tokens, read_tokens


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return main(["web", *arguments])


def test_a_token_that_was_made_is_on_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("token", "add", "anna", "--role", "admin") == 0
    said = capsys.readouterr()

    found = Tokens(Path("data/web-tokens.json")).of_secret(said.out.strip())
    assert found is not None
    assert (found.name, found.role) == ("anna", "admin")
    assert said.out.strip() not in said.err


def test_a_token_expires_when_it_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("token", "add", "ci", "--role", "viewer", "--expires", "90d") == 0
    capsys.readouterr()

    assert run("token", "list", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["expires_at"] - told["created_at"] == pytest.approx(90 * 86_400, abs=5)
    assert set(told) == {"name", "role", "created_at", "expires_at"}


def test_a_token_that_was_removed_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("anna", "ben"):
        run("token", "add", name, "--role", "viewer", "--tokens", "mine.json")

    assert run("token", "remove", "anna", "--tokens", "mine.json") == 0
    left = read_tokens(Path("mine.json"))
    assert left is not None
    assert [token.name for token in left.tokens] == ["ben"]
    capsys.readouterr()
    assert run("token", "list", "--tokens", "mine.json") == 0
    assert "anna" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["token", "remove", "ben"], 1, 'there is no token of "ben"'),
        (["token", "add", "a b", "--role", "admin"], 1, "is not a valid name"),
        (["token", "add", "ben", "--role", "root"], 2, "root"),
        (
            ["start", "--bind", "0.0.0.0:0"],
            1,
            "web token add NAME --role admin --tokens data/web-tokens.json",
        ),
        (["start", "--proxy-header", "X-User"], 2, "--proxy-header needs --trust-proxy"),
        (["start", "--trust-proxy", "10.0.0.300"], 2, "such as 10.0.0.2 or 10.0.0.0/8"),
        (["start", "--proxy-role", "anna=root"], 2, '"root" is no role: viewer, operator, admin'),
    ],
    ids=str,
)
def test_what_can_not_be_is_refused_in_one_line(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == status

    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_the_options_stand_in_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKQUEUE_WEB_TRUST_PROXY", "10.0.0.2 10.1.0.0/16")
    monkeypatch.setenv("TASKQUEUE_WEB_PROXY_ROLE", "viewer anna=root")
    monkeypatch.setenv("TASKQUEUE_WEB_PROXY_HEADER", "X-User")

    assert run("start") == 2
    assert '"root" is no role' in capsys.readouterr().err
    monkeypatch.setenv("TASKQUEUE_WEB_PROXY_ROLE", "viewer anna=admin")
    monkeypatch.setenv("TASKQUEUE_WEB_TRUST_PROXY", "10.0.0.2 10.1.0.0/99")

    assert run("start") == 2
    assert "10.1.0.0/99" in capsys.readouterr().err
