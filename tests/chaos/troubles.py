"""Troubles of a daemon under load, again and again: kills, stops, power cuts, a failing disk, damage.

Each is a function of a scene, and leaves a daemon that serves or is about to.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path
from random import Random
from typing import Final

from taskqueue.server.main import EXIT_DAMAGED
from tests.chaos.crew import Crew
from tests.faults.power import Power
from tests.faults.shim import FOR_EVER, SHORT, Call, Shim
from tests.integration.conftest import Daemon, Peer

ASK_AGAIN_MS: Final = 20
STOPPED_ASKS: Final = 20
STORM_RULES: Final = 4
STORM_PER_MILLE: Final = (5, 20, 100, 400)

ERRORS: Final = (EIO, ENOSPC, EDQUOT)
CALLS: Final[tuple[Call, ...]] = ("write", "sync", "rename", "open", "sync-folder", "truncate", "unlink")
PARTS: Final = ("", ".log", ".sst", "MANIFEST", "CURRENT", "dbtmp")
"""Parts of names of the engine's files; the first is in all."""


class Scene:
    """Daemon over a shim, and the crew around it.

    Attributes:
        chance: source of everything random except the machine's timing.
    """

    def __init__(self, library: Path, folder: Path, seed: int, durability: str = "commit") -> None:
        """Start both, with all their files in a folder."""
        self.chance = Random(seed)
        self.shim = Shim(library, folder, folder / "data")
        self.daemon = Daemon(
            folder, environment=self.shim.environment, path=str(self.shim.store), min_free=0, durability=durability
        )
        self.daemon.start()
        self.power = Power(self.shim)
        self.crew = Crew(self.daemon.url, folder, seed)
        self._boots = 1

    def close(self) -> None:
        """Kill all of them."""
        self.shim.heal()
        if self.daemon.process is not None and self.daemon.process.poll() is None:
            self.daemon.kill()
        self.crew.__exit__(None, None, None)

    def cut_the_power(self) -> None:
        """Kill the daemon, and leave what the disk may have kept; the machine boots anew after that."""
        self.daemon.kill()
        self.shim.heal()
        self.power.cut(self.chance)
        self._boots += 1
        self.shim.boot_id.write_text(f"boot {self._boots}\n")

    def failures(self) -> int:
        """Number of times that the daemon has reported a failure of its store."""
        log = self.daemon.log()
        return log.count("store-failed") + log.count("store-still-fails")

    def times_read_again(self) -> int:
        """Number of times that the daemon has recovered."""
        return self.daemon.log().count("store-read-again")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Give the daemon something to write, repeatedly, until the condition holds."""
        peer = Peer(self.daemon.url)
        probe = {"taskid": "probe", "url": "http://site/", "schedule": {"delay": 3600, "force_update": True}}
        try:
            while not condition():
                assert self.daemon.process is not None
                assert self.daemon.process.poll() is None, self.daemon.log()[-2000:]
                peer.send("new-task", project="probe", tasks=[probe])
                while peer.has_message(ASK_AGAIN_MS):
                    peer.receive()
        finally:
            peer.close()


Trouble = Callable[[Scene], None]


def kill(scene: Scene) -> None:
    scene.daemon.kill()
    scene.daemon.start()


def stop(scene: Scene) -> None:
    """Stop the daemon as a debugger does, or cleanly, and start it again."""
    if scene.chance.random() < 0.5:
        assert scene.daemon.stop() == 0
        scene.daemon.start()
        return
    process = scene.daemon.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    peer = Peer(scene.daemon.url)
    for _ in range(STOPPED_ASKS):
        peer.send("status")
        assert not peer.has_message(ASK_AGAIN_MS)
    peer.close()
    process.send_signal(signal.SIGCONT)


def cut(scene: Scene) -> None:
    scene.cut_the_power()
    scene.daemon.start()


def fault(scene: Scene) -> None:
    """Fail one call, once or several times, while the store is used and reopened."""
    _strike(scene)
    scene.shim.heal()


def fault_and_cut(scene: Scene) -> None:
    """Fail one call as ``fault`` does, then cut the power, before or after the daemon has recovered."""
    before = scene.times_read_again()
    _strike(scene)
    if scene.chance.random() < 0.5:
        scene.shim.heal()
        scene.wait_until(lambda: scene.times_read_again() > before)
    scene.cut_the_power()
    scene.daemon.start()


def storm(scene: Scene) -> None:
    """Fail many random calls for a while."""
    _blow(scene)
    scene.shim.heal()


def storm_and_cut(scene: Scene) -> None:
    """Fail many calls as ``storm`` does, and cut the power in the middle."""
    _blow(scene)
    scene.cut_the_power()
    scene.daemon.start()


def _strike(scene: Scene) -> None:
    chance, failures = scene.chance, scene.failures()
    call, part = chance.choice(CALLS), chance.choice(PARTS)
    error = chance.choice((*ERRORS, SHORT)) if call == "write" else chance.choice(ERRORS)
    scene.shim.fail([call], error, part, skip=chance.choice((0, 0, 1, 5)), count=chance.choice((1, 1, 3)))
    # Most other files are written only when the store is opened again.
    scene.shim.fail(["write", "sync"], EIO, ".log", skip=chance.randrange(20))
    scene.wait_until(lambda: scene.failures() > failures)


def _blow(scene: Scene) -> None:
    chance, failures = scene.chance, scene.failures()
    for _ in range(STORM_RULES):
        calls = chance.sample(CALLS, chance.randint(1, 3))
        per_mille = chance.choice(STORM_PER_MILLE)
        error = chance.choice((*ERRORS, SHORT))
        scene.shim.fail(calls, error, chance.choice(PARTS), count=FOR_EVER, per_mille=per_mille)
    scene.shim.fail(["write", "sync"], EIO, ".log", count=FOR_EVER, per_mille=20)
    wanted = chance.randint(1, 4)
    scene.wait_until(lambda: scene.failures() >= failures + wanted)


def damage(scene: Scene) -> None:
    """Kill the daemon, and remove synced bytes of a log, or the log: the next start must refuse it; then put them back.

    Damage of a log that has become useless is harmless; the ledger shows whether it was needed.
    """
    scene.daemon.kill()
    log = max(scene.shim.store.glob("*.log"), key=lambda path: path.stat().st_size)
    whole = log.read_bytes()
    _spoil(log, scene.chance)
    scene.daemon.launch()
    try:
        scene.daemon.serving()
    except AssertionError:
        assert scene.daemon.ended() == EXIT_DAMAGED, scene.daemon.log()[-2000:]
        assert log.name in scene.daemon.log()
        log.write_bytes(whole)
        scene.daemon.start()


def _spoil(log: Path, chance: Random) -> None:
    """Damage the first half of a log, all of which a sync covered long ago, or delete the log."""
    content = bytearray(log.read_bytes())
    at = chance.randrange(max(1, len(content) // 2))
    how = chance.randrange(4)
    if how == 0:
        log.unlink()
        return
    if how == 1:
        content[at : at + 1] = bytes([content[at] ^ 0x10])
    elif how == 2:
        content[at : at + 64] = bytes(64)
    else:
        del content[at:]
    log.write_bytes(content)


TROUBLES: Final[dict[str, Trouble]] = {
    "kill -9": kill,
    "stops": stop,
    "power cuts": cut,
    "faults": fault,
    "faults, power cuts": fault_and_cut,
    "storms of faults": storm,
    "storms, power cuts": storm_and_cut,
    "damage": damage,
}
