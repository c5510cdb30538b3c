"""The systems that are compared, by name."""

from __future__ import annotations

import shutil
from importlib import import_module
from typing import Final, cast

from msgspec import Struct

from benchmarks.dependencies.system import System

OURS: Final = "taskqueue"


class Contender(Struct, frozen=True):
    """A system in one of its settings.

    Attributes:
        module: of benchmarks.dependencies.
        safe: set up to survive, instead of as its manual begins.
        part: of the tasks that ours does; slow ones need fewer for the same precision.
        quiet_seconds: without a further task after which nothing more is expected of it.
        rated: its speed is measured; the other setting of the same would show the same.
    """

    system: str
    module: str
    safe: bool = True
    part: float = 1.0
    quiet_seconds: float = 30.0
    rated: bool = True

    @property
    def label(self) -> str:
        """Of its row; ours has one setting."""
        return f"{self.system}, safe" if self.safe and self.system != OURS else self.system

    def unavailable(self) -> str:
        """Why it can't be measured here; empty: it can."""
        try:
            system = loaded(self.module)
        except ImportError as error:
            return f"the package {error.name} is not installed"
        absent = [command for command in system.NEEDS if not shutil.which(command)]
        return f"the command {absent[0]} is not on PATH" if absent else ""


CONTENDERS: Final = (
    Contender(OURS, "ours"),
    Contender("Celery", "celery", safe=False, part=0.04),
    Contender("Celery", "celery", part=0.04),
    Contender("RQ", "rq", safe=False, part=0.01, quiet_seconds=90.0),
    Contender("RQ", "rq", part=0.01, quiet_seconds=90.0),
    Contender("Luigi", "luigi", safe=False, part=0.01, rated=False),
    Contender("Luigi", "luigi", part=0.01, quiet_seconds=60.0),
    Contender("Airflow", "airflow", safe=False, part=0.001, quiet_seconds=60.0, rated=False),
    Contender("Airflow", "airflow", part=0.001, quiet_seconds=60.0),
)


def loaded(module: str) -> System:
    """The module of a system.

    Raises:
        ImportError: its package is not installed.
    """
    return cast(System, import_module(f"benchmarks.dependencies.{module}"))
