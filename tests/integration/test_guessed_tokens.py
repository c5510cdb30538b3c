"""Any session that knows a lease's token can end the lease, so tokens can't be guessed."""

from __future__ import annotations

import pytest

from tests.integration.conftest import DaemonFactory, Message, PeerFactory

LEASES = 50

EPOCH = 1 << 44
"""Distance between the numbers of one start of the daemon and the next."""


@pytest.mark.parametrize("restart", [False, True])
def test_guesses_around_a_token_from_another_session_end_no_foreign_lease(
    daemon: DaemonFactory, peer: PeerFactory, restart: bool
) -> None:
    it = daemon()
    victim, attacker = peer(it), peer(it)
    taskids = [f"t{n}" for n in range(LEASES)]
    victim.ask("hello", capacity=LEASES)
    victim.push("news", *taskids)
    tasks: list[Message] = []
    while len(tasks) < LEASES:
        tasks += victim.receive()["tasks"]
    if restart:
        it.kill()
        it.start()
        victim, attacker = peer(it), peer(it)
    attacker.ask("hello", capacity=1)
    attacker.push("news", "own")
    (own,) = attacker.receive()["tasks"]

    for taskid in taskids:
        bases = (own["token"], max(0, own["token"] - EPOCH))
        around = [abs(base + n) for base in bases for n in range(-2 * LEASES, 2 * LEASES) if n]
        guesses = [{"project": "news", "taskid": taskid, "token": token} for token in around]
        assert set(attacker.ask("done", tasks=guesses)["outcomes"]) == {"stale"}
        assert attacker.ask("release", leases=guesses)["counted"] == 0
        assert attacker.ask("extend", leases=guesses, seconds=1)["counted"] == 0

    reports = [{key: task[key] for key in ("project", "taskid", "token")} for task in tasks]
    assert victim.ask("done", tasks=reports)["outcomes"] == ["done"] * LEASES
