"""Tasks that the daemon pushes by itself, as settings: ``on_finished``, ``on_failure``, and the entries in ``cron``.

At each of its ticks an entry pushes one task, or submits a graph of tasks as a flow. This module defines these tables
and reports all that can be wrong with them; ``cron_times`` says when an entry runs, ``cron`` runs it.
Complaints of the ``Environment`` are reported under the name of the setting.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from taskqueue.errors import Rejected
from taskqueue.protocol.choices import NAME_CHARS, ParentFailure
from taskqueue.protocol.fields import (
    MAX_KIND_CHARS,
    MAX_PARENTS,
    MAX_TASKID_BYTES,
    MAX_URL_CHARS,
    AgeSeconds,
    Priority,
    Retries,
    Setting,
    TimeoutSeconds,
)
from taskqueue.settings import reader
from taskqueue.settings.description import DURATION, DURATION_SAID
from taskqueue.settings.environment import Environment
from taskqueue.settings.graph_order import Cycle, parents_first
from taskqueue.texts.suggestions import there_are
from taskqueue.texts.units import EXAMPLES, parse_duration

ENTRY_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
ENTRY_NAME_WORDS: Final = '1 to 64 ASCII letters, digits, "_" and "-"'
MAX_ENTRIES: Final = 100
"""Cron entries of one layer of one project, at most."""

EACH_MINUTE: Final = "* * * * *"
MAX_EVERY_SECONDS: Final = 366 * 86_400

TICK: Final = "{tick}"
"""Placeholder in URL, taskid and body of a cron entry's task for the unix seconds of the tick."""
MAX_TICK: Final = "9" * 11

IN_BRACES: Final = re.compile(r"\{(\w+)\}")
"""Text in the form of a placeholder, and its name."""
LONGEST: Final = "\U0010ffff"
"""Character that takes the most bytes in UTF-8."""
MAX_GRAPH_TASKS: Final = 256
MAX_GRAPH_EDGES: Final = 2000
"""Tasks of an entry's graph, and edges between them, at most: a tick makes them all in one turn."""

GRAPH_TASK_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
GRAPH_TASK_NAME_WORDS: Final = '1 to 64 ASCII letters, digits, "_", "-" and "."'
MAX_GRAPH_NAME: Final = NAME_CHARS - len(MAX_TICK) - 1
"""Characters of the name of an entry with a graph, at most: its flows are called ENTRY-TICK."""

MAX_PACKED_BYTES: Final = 64 << 10
"""Longest packed body of a task in the settings, and longest ``fetch``, in bytes: each view of the project and each
dispatch includes them."""

LONG_GAP_AT: Final = 3_981_398_400.0
"""Unix seconds of 2096-03-01 (UTC). The next 29th of February is then eight years away, the maximum: what recurs within
the searched time from here does so from any other time, too."""


class Template(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Task that the daemon pushes by itself, with ``force_update``.

    Attributes:
        url, taskid: if empty, made from the name of the entry or of ``on_finished``; a config file must give the URL of
            ``on_finished``, so that a misspelt one is noticed. In a cron entry, ``{tick}`` in these and in texts of the
            body stands for the unix seconds of the tick; in ``on_failure``, ``{taskid}``, ``{url}`` and, in the body,
            ``{error}`` stand for those of the failed task, whose URL is the default, and ``taskid`` can't be given.
        body: sent with the task, such as ``{process = {callback = "index"}}``.
    """

    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] = ""
    taskid: Annotated[str, Meta(max_length=MAX_TASKID_BYTES)] = ""
    priority: Priority = 0
    retries: Retries | None = None
    age: Annotated[AgeSeconds, Meta(extra=DURATION)] | None = None
    timeout: Annotated[TimeoutSeconds, Meta(extra=DURATION)] | None = None
    body: Any = None


class GraphTask(Template, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Task of a cron entry's graph, which the daemon makes anew at each tick.

    Attributes:
        after: names of the entry's tasks that it waits for.
        on_parent_failure: what it does if one of these fails: fail too, run all the same, or wait for a later success;
            only, with ``after``: it runs if one has failed, and is cancelled if none has.
    """

    after: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_TASKID_BYTES)], ...], Meta(min_length=0, max_length=MAX_PARENTS)
    ] = ()
    on_parent_failure: ParentFailure = "fail"


class CronEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When to push which task, or submit which graph of tasks, repeatedly, by ``cron`` or by ``every``.

    Attributes:
        tasks: tasks of a graph by name, instead of ``task``; each tick submits them as the flow ENTRY-TICK.
        cron: a cron expression, read in ``zone``.
        every: interval such as "90s", "5m", "12h" or "1d", in whole seconds, at most 366 days; ticks come at its
            multiples since 1970 (UTC).
        missed: ticks missed while the daemon was down: skip them, or run once.
        overlap: a tick while an earlier flow of the entry has not ended: skip it, let it wait for that, or have both.
        after_failure: a tick after a flow of the entry that has failed: run it, or skip it until that flow is a
            success, or cancelled.
        keep_flows: ended flows of the entry that are remembered, at most.
    """

    ONE_OF: ClassVar = ("cron", "every")

    task: Template = Template()
    tasks: dict[str, GraphTask] = {}
    cron: str = ""
    every: Annotated[str, Meta(extra=DURATION_SAID)] = ""
    zone: str = "UTC"
    missed: Literal["skip", "once"] = "skip"
    overlap: Literal["skip", "wait", "both"] = "skip"
    after_failure: Literal["run", "skip"] = "run"
    keep_flows: Annotated[int, Meta(ge=1, le=100)] = 10


GRAPH_KEYS: Final = ("overlap", "after_failure", "keep_flows")
"""Settings of an entry that only one with a graph has."""

PLAIN_TEMPLATE: Final = Template()
PLAIN_GRAPH_TASK: Final = GraphTask()
PLAIN_ENTRY: Final = CronEntry()
NO_ENTRIES: Final[Mapping[str, CronEntry]] = {}


def filled(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a value with texts in place of their names in braces, also in maps and lists; other braces stay."""
    if isinstance(value, str):
        return IN_BRACES.sub(lambda found: texts.get(found[1], found[0]), value)
    if isinstance(value, dict):
        return {key: filled(item, texts) for key, item in value.items()}
    return [filled(item, texts) for item in value] if isinstance(value, list) else value


def filled_start(text: str, texts: Mapping[str, str], most: int) -> str:
    """Return the first characters of what ``filled`` makes of a text, ``most`` at most, without making the rest."""
    parts, at, left = [""], 0, most
    for found in IN_BRACES.finditer(text):
        if left <= 0:
            break
        parts += text[at : found.start()], texts.get(found[1], found[0])
        at = found.end()
        left -= len(parts[-2]) + len(parts[-1])
    return "".join([*parts, text[at:]])[:most]


def _bytes_put(value: Any, texts: Mapping[str, int]) -> int:
    """Return how many bytes of these texts, given their lengths, ``filled`` puts into a value."""
    if isinstance(value, str):
        return sum(texts.get(name, 0) for name in IN_BRACES.findall(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(_bytes_put(part, texts) for part in parts)


def at_tick(task: Template, tick: str) -> Template:
    """Return the task of an entry at a tick (unix seconds, in digits)."""
    texts = {"tick": tick}
    url, taskid, body = [filled(part, texts) for part in (task.url, task.taskid, task.body)]
    return replace(task, url=url, taskid=taskid, body=body)


def flow_name(entry: str, tick: str) -> str:
    """Return the name of the flow that an entry submits at a tick (unix seconds, in digits)."""
    return f"{entry}-{tick}"


def graph_taskids(entry: str, tasks: Mapping[str, GraphTask], tick: str) -> dict[str, str]:
    """Map the names of a graph's tasks to their taskids at a tick."""
    flow = flow_name(entry, tick)
    return {name: filled(task.taskid, {"tick": tick}) or f"{flow}.{name}" for name, task in tasks.items()}


# ---------------------------------------------------------------------------------------- what can't be


def wrong_entries(entries: Setting) -> Iterator[str]:
    """Report too many entries, invalid names, and settings of graphs in others; what is not a table is ignored."""
    if not isinstance(entries, dict):
        return
    if len(entries) > MAX_ENTRIES:
        yield f"cron: expected at most {MAX_ENTRIES} entries, not {len(entries)}"
    for name, entry in entries.items():
        if not isinstance(name, str) or not ENTRY_NAME.fullmatch(name):
            yield f"cron.{reader.shown(name)}: an entry's name is {ENTRY_NAME_WORDS}"
        elif isinstance(entry, dict) and not entry.get("tasks"):
            for key in GRAPH_KEYS:
                if key in entry:
                    yield f"cron.{name}.{key}: goes with tasks; give these, too, or leave it out"


def wrong_template(where: str, task: Template, environment: Environment | None) -> Iterator[str]:
    """Report what the type can't check of a pushed task; without an environment, bodies are not packed.

    The daemon obeys the limits of producers: what it pushes fits into a message.
    """
    if len(task.url) > MAX_URL_CHARS:
        yield f"{where}.url: expected at most {MAX_URL_CHARS} characters"
    if len(task.taskid.encode()) > MAX_TASKID_BYTES:
        yield f"{where}.taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8"
    if environment is not None:
        yield from unpackable(f"{where}.body", task.body, environment)


def wrong_on_failure(where: str, task: Template, environment: Environment | None) -> Iterator[str]:
    """Report what the type can't check of ``on_failure``; its placeholders count as the longest texts."""
    if task.taskid:
        yield f"{where}.taskid: leave it out; the daemon makes one for each failed task"
    if unknown := sorted(set(IN_BRACES.findall(task.url)) - {"taskid", "url"}):
        named = ", ".join(f"{{{name}}}" for name in unknown)
        body = "; {error} belongs in the body" if "error" in unknown else f", not {named}"
        yield f"{where}.url: takes {{taskid}} and {{url}}{body}"
    if environment is not None:
        texts = {"taskid": "9" * MAX_TASKID_BYTES, "url": LONGEST * MAX_URL_CHARS, "error": LONGEST * MAX_KIND_CHARS}
        # Not filled before it is known to fit: a template of 100 kB may become gigabytes.
        size = _bytes_put(task.body, {name: len(text.encode()) for name, text in texts.items()})
        if size > MAX_PACKED_BYTES:
            yield _too_large(f"{where}.body", size)
        else:
            yield from unpackable(f"{where}.body", filled(task.body, texts), environment)


def wrong_entry(where: str, name: str, entry: CronEntry, environment: Environment | None) -> Iterator[str]:
    """Report what the type can't check of an entry; without an environment, its times are not read."""
    if entry.tasks:
        yield from _wrong_graph(where, name, entry, environment)
    else:
        yield from wrong_template(f"{where}.task", at_tick(entry.task, MAX_TICK), environment)
    every = parse_duration(entry.every) or 0.0
    if entry.every and (not 0 < every <= MAX_EVERY_SECONDS or every % 1):
        said = reader.shown(entry.every)
        yield f'{where}.every: expected whole seconds, such as {EXAMPLES}, at most "366d", not {said}'
    if entry.every and entry.zone != PLAIN_ENTRY.zone:
        yield f"{where}.zone: goes with cron; every counts from 1970 in UTC"
    if environment is not None:
        yield from _unreadable_times(where, entry, environment)


def _wrong_graph(where: str, name: str, entry: CronEntry, environment: Environment | None) -> Iterator[str]:
    """Report what the types can't check of an entry's graph."""
    if entry.task != PLAIN_TEMPLATE:
        yield f"{where}.task: give one of task and tasks"
    if len(name) > MAX_GRAPH_NAME:
        most = f"at most {MAX_GRAPH_NAME} characters"
        yield f"{where}: the name of an entry with tasks has {most}; its flows are NAME-TICK"
    if len(entry.tasks) > MAX_GRAPH_TASKS:
        yield f"{where}.tasks: expected at most {MAX_GRAPH_TASKS} tasks, not {len(entry.tasks)}"
        return
    taskids = graph_taskids(name, entry.tasks, MAX_TICK)
    counts = Counter(taskids.values())
    for key, task in entry.tasks.items():
        path = reader.path(f"{where}.tasks", key)
        if not GRAPH_TASK_NAME.fullmatch(key):
            yield f"{path}: a task's name is {GRAPH_TASK_NAME_WORDS}"
        yield from wrong_template(path, at_tick(task, MAX_TICK), environment)
        if task.taskid and TICK not in task.taskid:
            yield f"{path}.taskid: expected {TICK} in it, because each tick has tasks of its own"
        elif not task.taskid and len(taskids[key].encode()) > MAX_TASKID_BYTES:
            yield f"{path}: its taskid ENTRY-TICK.NAME takes more than {MAX_TASKID_BYTES} bytes; shorten a name"
        if task.on_parent_failure == "only" and not task.after:
            yield f'{path}.on_parent_failure: "only" goes with parents that may fail; name them in after'
        if counts[taskids[key]] > 1:
            yield f"{path}.taskid: another task of the entry has it, too"
    yield from _wrong_order(where, entry.tasks)


def _wrong_order(where: str, tasks: Mapping[str, GraphTask]) -> Iterator[str]:
    """Report parents that are no tasks of the graph, too many edges, and a cycle."""
    edges = sum(len(task.after) for task in tasks.values())
    if edges > MAX_GRAPH_EDGES:
        yield f"{where}.tasks: expected at most {MAX_GRAPH_EDGES} names in after, not {edges}"
        return
    names = list(tasks)
    unknown = [(key, parent) for key, task in tasks.items() for parent in task.after if parent not in tasks]
    for key, parent in unknown:
        path = reader.path(f"{where}.tasks", key)
        yield f"{path}.after: no task of this entry is called {reader.shown(parent)}; {there_are(parent, names)}"
    if unknown:
        return
    try:
        parents_first({name: task.after for name, task in tasks.items()})
    except Cycle as cycle:
        path = reader.path(f"{where}.tasks", cycle.names[0])
        yield f"{path}.after: a cycle, in which each task waits for the next: {cycle}"


def unpackable(where: str, value: object, environment: Environment) -> Iterator[str]:
    """Report a value that can't be packed, or takes more than MAX_PACKED_BYTES."""
    try:
        size = len(environment.pack(value))
    except Rejected as rejected:
        yield f"{where}: {_without_key(rejected.reason)}"
    else:
        if size > MAX_PACKED_BYTES:
            yield _too_large(where, size)


def _too_large(where: str, size: int) -> str:
    """Return the reason why a value of this size is refused."""
    return f"{where}: {size} bytes, at most {MAX_PACKED_BYTES} are taken in a setting"


def attempt(where: str, ask: Callable[[], object]) -> Iterator[str]:
    """Report the reason for which ``ask`` is rejected, if it is, under the setting's name ``where``."""
    try:
        ask()
    except Rejected as rejected:
        yield f"{where}: {_without_key(rejected.reason)}"


def _unreadable_times(where: str, entry: CronEntry, environment: Environment) -> Iterator[str]:
    """Report a wrong expression and a wrong zone separately, so that neither hides the other."""
    if entry.cron:
        yield from attempt(f"{where}.cron", lambda: _check_comes(entry.cron, environment))
    if not entry.every:
        yield from attempt(f"{where}.zone", lambda: environment.next_tick(EACH_MINUTE, entry.zone, 0.0))


def _check_comes(expression: str, environment: Environment) -> None:
    if environment.next_tick(expression, PLAIN_ENTRY.zone, LONG_GAP_AT) == inf:
        raise Rejected("setting", f"cron: {reader.shown(expression)} never comes")


def _without_key(reason: str) -> str:
    return reason.partition(": ")[2]
