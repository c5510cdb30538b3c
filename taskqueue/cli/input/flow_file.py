"""Reader of flows in files, TOML or JSON, for ``taskqueue flow submit`` and ``taskqueue cron set --flow``.

    flow = "nightly"                       # optional; otherwise a random name

    [defaults]                             # for all tasks without a value of their own
    retries = 5

    [tasks.prices]                         # its taskid is "prices", unless it gives another
    URL = "https://shop.example/prices"

    [tasks.report]
    URL = "https://shop.example/report"
    after = ["prices", {taskid = "stock"}, {project = "currencies", taskid = "EUR"}]

``after`` names tasks of the file, in any order; tasks outside of it are tables. All keys of a line of
``taskqueue push --file`` may be used. An error names its file, table and key.

Tasks are staged parents first: see ``graph_order``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import click

from taskqueue.cli.input.names import PROJECT_NAME, RULE
from taskqueue.cli.input.stdin import STDIN, opened
from taskqueue.cli.input.task_lines import TIMES
from taskqueue.client.tasks.new_flow import FlowTask, Parent
from taskqueue.client.tasks.new_task import check_typed
from taskqueue.client.tasks.task_objects import arguments, completed
from taskqueue.protocol.fields import MAX_TASKID_BYTES
from taskqueue.settings.graph_order import Cycle, parents_first
from taskqueue.texts.suggestions import did_you_mean, there_are

KEYS: Final = ("flow", "defaults", "tasks")
OUTSIDE: Final = ("project", "taskid")
MOST_COMPARED: Final = 1000
"""Names of tasks, at most, among which one like an unknown name is searched."""
NOT_FOR_ALL: Final = ("url", "taskid", "after")
OF_CRON: Final = (
    "url", "taskid", "fetch", "process", "save", "body", "priority", "retries", "age", "timeout", "on_parent_failure",
)  # fmt: skip
"""Keys of a task besides ``after`` that one of a cron entry may have."""

Describe = Callable[..., FlowTask]
"""``client.flow(…).task``, or a function with its parameters."""


class FileTask(NamedTuple):
    """Task of the file.

    Attributes:
        inside: names of its parents in the file.
        outside: its other parents: a taskid, or project and taskid.
        options: arguments of a push, its URL included.
    """

    inside: list[str]
    outside: list[Parent]
    options: dict[str, Any]


class FlowFile(NamedTuple):
    """Flow of a file; ``tasks`` are by name, parents first."""

    name: str
    flow: str | None
    tasks: dict[str, FileTask]

    def describe(self, task: Describe) -> None:
        """Describe each task of the flow.

        Raises:
            click.ClickException: a task is invalid; the message has file, table and key.
        """
        made: dict[str, FlowTask] = {}
        for name, each in self.tasks.items():
            after = [*(made[parent] for parent in each.inside), *each.outside]
            try:
                made[name] = task(after=after, **each.options)
            except (ValueError, TypeError) as error:
                _refuse(self.name, f"tasks.{name}.{error}")

    def for_cron(self) -> dict[str, dict[str, Any]]:
        """Return the tasks as those of a cron entry, by name.

        Raises:
            click.ClickException: a task has what a task of an entry can't have.
        """
        return {name: self._task_of_cron(name, each) for name, each in self.tasks.items()}

    def _task_of_cron(self, name: str, each: FileTask) -> dict[str, Any]:
        if each.outside:
            _refuse(self.name, f"tasks.{name}.after: a task of a cron entry waits for tasks of its own file only")
        for key in each.options:
            if key not in OF_CRON:
                _refuse(
                    self.name, f"tasks.{name}.{key}: not for a task of a cron entry, which has {', '.join(OF_CRON)}"
                )
        # The name is not its taskid: each tick has tasks of its own.
        options = {key: value for key, value in each.options.items() if (key, value) != ("taskid", name)}
        return options | {"after": each.inside}


def parse(name: str, text: str, *, any_scheme: bool = False) -> FlowFile:
    """Parse the text of a flow file.

    Args:
        name: file name for messages; .json is read as JSON, .toml as TOML, anything else as what it looks like.
        any_scheme: accept URLs of every scheme.

    Raises:
        click.ClickException: the text is no flow; the message has file, table and key, or line and column.
    """
    said = _decoded(name, text)
    if "project" in said:
        _refuse(name, "project: it is said by the command: taskqueue flow submit PROJECT FILE")
    _know(name, "", said, KEYS)
    defaults, tables = _table(name, "defaults", said.get("defaults", {})), _table(name, "tasks", said.get("tasks", {}))
    if not tables:
        _refuse(name, "tasks: there are none")
    for key in NOT_FOR_ALL:
        if key in defaults:
            _refuse(name, f"defaults.{key}: each task has its own")
    for_all = _arguments(name, "defaults", {"url": "", **defaults})
    del for_all["url"]
    tasks = {key: _task(name, key, table, tables, for_all) for key, table in tables.items()}
    for key, task in tasks.items():
        try:
            check_typed(task.options["url"], any_scheme=any_scheme)
        except ValueError as error:
            _refuse(name, f"tasks.{key}.url: {error}")
    return FlowFile(name, _name(name, "flow", said.get("flow")), _ordered(name, tasks))


def text_of(file: str) -> str:
    """Read a file, or stdin, as UTF-8.

    Raises:
        click.ClickException: it is none.
    """
    try:
        with opened(file) as octets:
            return octets.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{'stdin' if file == STDIN else file}: not utf-8: {error}") from None


def _decoded(name: str, text: str) -> dict[str, Any]:
    as_json = name.endswith(".json") or (not name.endswith(".toml") and text.lstrip().startswith("{"))
    try:
        said = _json(text) if as_json else tomllib.loads(text)
    except UnicodeEncodeError as error:
        _refuse(name, f"half a character, {error.object[error.start : error.end]!a}, which can't be sent as text")
    except ValueError as error:
        _refuse(name, f"not {'JSON' if as_json else 'TOML'}: {error}")
    except RecursionError:
        _refuse(name, "nested too deep")
    return said if isinstance(said, dict) else _refuse(name, "expected an object with tasks")


def _json(text: str) -> Any:
    """Decode JSON, and refuse half of a surrogate pair, which an escape can express and UTF-8 cannot."""
    said = json.loads(text)
    json.dumps(said, ensure_ascii=False).encode()
    return said


def _ordered(name: str, tasks: Mapping[str, FileTask]) -> dict[str, FileTask]:
    try:
        order = parents_first({key: task.inside for key, task in tasks.items()})
    except Cycle as cycle:
        _refuse(name, f"tasks.{cycle.names[0]}.after: a cycle, in which each task waits for the next: {cycle}")
    return {key: tasks[key] for key in order}


def _task(name: str, key: str, table: Any, tables: Mapping[str, Any], for_all: Mapping[str, Any]) -> FileTask:
    where = f"tasks.{key}"
    said = dict(_table(name, where, table))
    if not 0 < len(key.encode()) <= MAX_TASKID_BYTES:
        _refuse(name, f"{where}: a name has 1 to {MAX_TASKID_BYTES} bytes")
    named = said.pop("after", [])
    if not isinstance(named, list):
        _refuse(name, f"{where}.after: expected a list")
    if "depends_on" in said:
        _refuse(name, f"{where}.depends_on: in a flow it is called after")
    after = [_parent(name, f"{where}.after[{place}]", each, tables) for place, each in enumerate(named)]
    inside = [each for each, is_inside in after if is_inside and isinstance(each, str)]
    outside = [each for each, is_inside in after if not is_inside]
    own = _arguments(name, where, said)
    return FileTask(inside, outside, {"taskid": key} | completed(for_all, own))


def _parent(name: str, where: str, said: Any, tables: Mapping[str, Any]) -> tuple[Parent, bool]:
    """Parse an element of ``after``: the parent, and whether it is a task of the file."""
    if isinstance(said, str):
        if said not in tables:
            maybe = did_you_mean(said, list(tables)[:MOST_COMPARED])
            outside = f'one outside of it is {{taskid = "{said}"}}'
            _refuse(name, f'{where}: no task of this file is called "{said}"; {outside}{maybe and "; "}{maybe}')
        return said, True
    if not isinstance(said, dict):
        _refuse(name, f"{where}: expected the name of a task of this file, or a table with taskid and maybe project")
    _know(name, where, said, OUTSIDE)
    for key in said:
        if not isinstance(said[key], str):
            _refuse(name, f"{where}.{key}: expected text")
    if "taskid" not in said:
        _refuse(name, f"{where}.taskid: missing")
    return ((said["project"], said["taskid"]) if "project" in said else said["taskid"]), False


def _arguments(name: str, where: str, said: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return arguments(dict(said), TIMES)
    except ValueError as error:
        return _refuse(name, f"{where}: {error}")


def _name(name: str, key: str, said: Any) -> str | None:
    if said is not None and not (isinstance(said, str) and PROJECT_NAME.fullmatch(said)):
        _refuse(name, f"{key}: expected {RULE}, not {said!r}")
    return said


def _table(name: str, where: str, said: Any) -> dict[str, Any]:
    return said if isinstance(said, dict) else _refuse(name, f"{where}: expected a table")


def _know(name: str, where: str, said: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in said:
        if key not in keys:
            _refuse(name, f"{where}.{key}".lstrip(".") + f": unknown; {there_are(key, keys)}")


def _refuse(name: str, problem: str) -> NoReturn:
    raise click.ClickException(f"{name}: {problem}")
