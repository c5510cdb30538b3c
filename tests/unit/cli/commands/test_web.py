"""``taskqueue web``: options that can't be."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.cli.main import main


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return main(["web", *arguments])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["start", "--bind", "0.0.0.0:0"], 1, "taskqueue key authorise NAME --token --role viewer"),
        (["start", "--proxy-header", "X-User"], 2, "--proxy-header needs --trust-proxy"),
        (["start", "--trust-proxy", "10.0.0.300"], 2, "such as 10.0.0.2 or 10.0.0.0/8"),
        (["start", "--proxy-role", "anna=root"], 2, '"root" is no role: viewer, producer, fetcher, operator, admin'),
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
