"""A daemon of this version goes on with a store that the last release left behind when it was killed."""

from __future__ import annotations

import tarfile
from pathlib import Path

from taskqueue import Client
from tests.integration.conftest import ROOT, WAIT_SECONDS, DaemonFactory, PeerFactory

STORE = ROOT / "tests" / "former_stores" / "release_0_1_0" / "store.tar.xz"


def test_a_store_of_the_last_release_goes_on_where_that_was_killed(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path
) -> None:
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path, filter="data")
    it = daemon(path=str(tmp_path / "store"), url="", fetcher_timeout=1)

    with Client(it.url, timeout=WAIT_SECONDS) as client:
        known = client.push("news", "http://a.example/done", taskid="done")
        states = {name: client.tasks.get("news", name).state for name in ("done", "failed", "later")}
        taken: dict[str, object] = {}
        while len(taken) < 4:
            for task in client.select(4, projects=["news", "shop"]):
                taken[task.url] = task.body
                client.done(task)
        settings = client.projects.get("news").overrides

    assert known == "ignored"
    assert states == {"done": "success", "failed": "failed", "later": "delayed"}
    assert taken == {
        "http://a.example/retried": None,
        "http://a.example/leased": None,
        "http://a.example/ready": None,
        "http://b.example/": {"page": 1},
    }
    assert settings == {"rate": float("inf"), "retries": 2, "keep": {"success": "365000d"}}
    assert peer(it).ask("verify")["problems"] == []
