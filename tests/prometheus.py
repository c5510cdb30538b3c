"""Real Prometheus: that of Debian's package (apt-get install prometheus)."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.integration.nursery import WAIT_SECONDS


class Prometheus:
    """Process of Prometheus; it scrapes for the first time some seconds after its start.

    Args:
        folder: folder of its files, which may have those that the config names.
        config: text of its config file.
        address: HOST:PORT where it listens.
        enter: command in front of its own.

    Attributes:
        process: its process.
    """

    def __init__(self, folder: Path, config: str, address: str, enter: Sequence[str] = ()) -> None:
        command = shutil.which("prometheus")
        assert command is not None, "prometheus is missing: apt-get install prometheus"
        self._url = f"http://{address}"
        file = folder / "prometheus.yml"
        file.write_text(config)
        options = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'series'}"]
        with (folder / "prometheus.log").open("w") as log:
            self.process = subprocess.Popen(
                [*enter, command, *options, f"--web.listen-address={address}"], stdout=log, stderr=log
            )

    def ask(self, path: str) -> Any:
        """Fetch an answer of its API; None while it does not listen yet."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=WAIT_SECONDS) as reply:
                return json.load(reply)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def values(self, expression: str) -> list[float]:
        """Return the value of each series of an expression."""
        found = self.ask(f"query?query={quote(expression)}")
        return [float(series["value"][1]) for series in found["result"]] if found else []

    def wait_for(self, expression: str, value: float) -> None:
        """Ask until the expression has one series with this value."""
        until = time.monotonic() + WAIT_SECONDS
        while (found := self.values(expression)) != [value]:
            assert time.monotonic() < until, f"{expression} is {found}, not {value}"
            select.select([], [], [], 0.02)

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        found = self.ask("alerts") or {"alerts": []}
        return {alert["labels"]["alertname"] for alert in found["alerts"] if alert["state"] == "firing"}
