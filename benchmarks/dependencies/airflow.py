"""Airflow on one machine: a DAG with an operator for each task, SQLite, and the LocalExecutor.

Its tasks run in processes of the scheduler and die with it: these are its workers. Its servers are the API server, by
which tasks report, and the processor of DAG files. As its manual begins, a task is tried once; set up to survive, four
times.

Its packages are many, so it is best installed apart: ``python3 -m venv DIR && DIR/bin/pip install apache-airflow``, and
DIR/bin at the end of PATH.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import Final

from benchmarks.dependencies.graphs import Kind
from benchmarks.dependencies.system import ADDRESS, FOLDER, SAFE, SILENT_SECONDS
from benchmarks.peers.ordinary import ROOT, SLOTS

NEEDS: Final = ("airflow",)
BRINGS: Final = False
DAG: Final = "bench"
PARSE_SECONDS: Final = 300
LOOK_SECONDS: Final = 0.2
HEARTBEAT_SECONDS: Final = 3 * SILENT_SECONDS
"""Of the default's 300; with 10, tasks that start slowly on a busy machine are run twice."""

HOST, PORT = ADDRESS.split(":")
SETTINGS: Final = {
    "AIRFLOW_HOME": FOLDER,
    "PYTHONPATH": ROOT,
    "AIRFLOW__API__BASE_URL": f"http://{ADDRESS}",
    "AIRFLOW__API__HOST": HOST,
    "AIRFLOW__API__PORT": PORT,
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": PARSE_SECONDS,
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
    "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": 3 * SAFE,
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": 1,
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{ADDRESS}/execution/",
    "AIRFLOW__CORE__LOAD_EXAMPLES": False,
    "AIRFLOW__CORE__PARALLELISM": SLOTS,
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": PARSE_SECONDS,
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": PARSE_SECONDS,
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": SILENT_SECONDS,
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": HEARTBEAT_SECONDS,
}
COMMAND: Final = ["env", *(f"{name}={value}" for name, value in SETTINGS.items()), "airflow"]


def prepare() -> None:
    """See ``System``."""
    (FOLDER / "dags").mkdir()
    shutil.copy(ROOT / "benchmarks/dependencies/airflow_dag.py", FOLDER / "dags")
    subprocess.run([*COMMAND, "db", "migrate"], check=True, capture_output=True)


def servers() -> list[list[str]]:
    """See ``System``."""
    return [[*COMMAND, "api-server"], [*COMMAND, "dag-processor"]]


def workers() -> list[list[str]]:
    """See ``System``."""
    return [[*COMMAND, "scheduler", "--skip-serve-logs"]]


def submit(kind: Kind, count: int) -> str:
    """See ``System``. The graph is in the DAG file, which the processor reads."""
    until = time.monotonic() + PARSE_SECONDS
    while not _number("SELECT count(*) FROM serialized_dag"):
        if errors := _rows("SELECT stacktrace FROM import_error"):
            raise ValueError(str(errors[0][0]).strip().splitlines()[-1])
        if time.monotonic() > until:
            raise TimeoutError(f"the DAG file was not read in {PARSE_SECONDS} s")
        time.sleep(LOOK_SECONDS)
    subprocess.run([*COMMAND, "dags", "trigger", DAG], check=True, capture_output=True)
    return "accepted"


def released() -> int:
    """See ``System``."""
    return _number("SELECT count(*) FROM task_instance WHERE task_id LIKE '%c' AND state IS NOT NULL")


def states() -> str:
    """See ``System``."""
    return json.dumps(_rows("SELECT task_id, state FROM task_instance"))


def _number(query: str) -> int:
    return int(str(_rows(query)[0][0]))


def _rows(query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(FOLDER / "airflow.db", timeout=60)) as database:
        return database.execute(query).fetchall()
