"""The settings of a project and of the core, and how layers of them make one.

A project's settings come in layers, the later wins: the defaults below, ``[defaults]`` of the config, the project's
own section of the config, and what ``project-set`` said. Each layer is a plain map, checked as it is merged; tables
(``cron``, ``fetch``, ``on_finished``) are merged key by key. A cron job is one value: a layer that names it says all of
it, or None for no such job.

What is good in each layer is good in the whole, so that a new config can't spoil what ``project-set`` said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from taskqueue.core import schema
from taskqueue.core.given import Given
from taskqueue.core.messages import (
    MAX_TASKID_BYTES,
    MAX_URL_CHARS,
    AgeSeconds,
    GroupName,
    Priority,
    Retries,
    Setting,
    TimeoutSeconds,
)
from taskqueue.errors import Rejected

Layer = Mapping[str, Setting]
"""Settings by name; only those that it wants to say."""


JOB_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
JOB_NAME_WORDS: Final = '1 to 64 letters, digits, "_" and "-"'
MAX_JOBS: Final = 100
"""Cron jobs of one layer of one project."""

DURATION: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
EACH_MINUTE: Final = "* * * * *"
MAX_EVERY_SECONDS: Final = 366 * 86_400

TICK: Final = "{tick}"
"""In a url or a taskid of a cron job: the unix seconds of the run."""
MAX_TICK: Final = "9" * 11

MAX_PACKED_BYTES: Final = 64 << 10
"""Longest body of a task in the settings, and longest ``fetch``: they are sent with each view of the project, and with
what is handed out."""

WHOLES: Final = ("max_queue", "max_tasks", "max_depth", "max_processing")
"""Settings that count tasks."""

LONG_GAP_AT: Final = 3_981_398_400.0
"""Unix seconds of 2096-03-01 (UTC). From then the next 29th of February is as far as it can be, eight years: what comes
again within the time that is searched does so from any other time, too."""

NAME_WORDS: Final = 'up to 64 letters, digits, "_", "-" and "."'
FromOne = Annotated[float, Meta(ge=1, extra={"words": "a whole number of at least 1 or inf"})]
FromZero = Annotated[float, Meta(ge=0, extra={"words": "a whole number of at least 0 or inf"})]
Name = Annotated[GroupName, Meta(extra={"words": NAME_WORDS})]


class Template(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task that the scheduler pushes by itself, with ``force_update``.

    Attributes:
        url, taskid: empty: made from the name of what pushes it. ``{tick}`` in those of a cron job stands for the
            unix seconds of the run.
        body: sent along as it is, such as ``{process = {callback = "index"}}``.
    """

    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] = ""
    taskid: Annotated[str, Meta(max_length=MAX_TASKID_BYTES)] = ""
    priority: Priority = 0
    retries: Retries | None = None
    age: AgeSeconds | None = None
    timeout: TimeoutSeconds | None = None
    body: Any = None


class CronJob(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When to push which task, again and again. One of ``cron`` and ``every``.

    Attributes:
        cron: a cron expression, read in ``zone``.
        every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC); at most 366 days.
        missed: what to do about runs missed while the daemon was down: skip them, or run once.
    """

    task: Template = Template()
    cron: str = ""
    every: str = ""
    zone: str = "UTC"
    missed: Literal["skip", "once"] = "skip"


class Pace(Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket that several projects share: ``[buckets.NAME]``."""

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the tasks of one project are run.

    Attributes:
        rate: tasks handed out a second, on average; inf is unlimited, 0 hands out nothing.
        burst: tasks that may be handed out at once after a quiet time; at least 1.
        processing_timeout: seconds that a fetcher has for a task that says nothing else.
        retries: further attempts after the first failure, for a task that says nothing else.
        retry_delay: seconds before each further attempt; the last one stands for all that follow.
        max_queue: live tasks at which new ones are rejected; inf is unlimited.
        max_tasks: tasks, live or over, at which new ones are rejected, follow-ups too; inf is unlimited.
        max_depth: follow-ups deeper than that are ignored; a task that was pushed by itself has depth 0.
        max_processing: leases at once, at most; inf is unlimited.
        weight: its share, in proportion to the weights of other projects that have work.
        fail_pause_num: failures in a row after which it pauses itself; 0 switches that off.
        pause_time: seconds until it then hands out a few tasks to see whether they fail, too.
        error_burst: failed attempts within five minutes at which people are told; inf is never.
        group: a name for several projects, by which commands take them together.
        bucket: name of a bucket in the config that it shares. Its own ``rate`` is then unlimited, unless its own
            section or ``project-set`` says one.
        active: hours in which it hands out tasks, such as "22:00-06:00 Europe/Berlin"; empty: always.
        fetch: sent beside its tasks and laid under the ``fetch`` of each by the client.
        on_finished: the task to push when it has finished; None: none.
        cron: its jobs, by name.
    """

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0
    processing_timeout: TimeoutSeconds = 600.0
    retries: Retries = 3
    retry_delay: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e9)], ...], Meta(min_length=1, max_length=100)
    ] = (30.0, 3600.0, 21600.0, 43200.0, 86400.0)  # fmt: skip
    max_queue: FromOne = inf
    max_tasks: FromOne = inf
    max_depth: FromZero = inf
    max_processing: FromOne = inf
    weight: Annotated[float, Meta(ge=0.1, le=1000)] = 1.0
    fail_pause_num: Annotated[int, Meta(ge=0, le=1_000_000)] = 10
    pause_time: Annotated[float, Meta(gt=0, le=1e9)] = 300.0
    error_burst: Annotated[float, Meta(ge=1)] = 100.0
    group: Name = ""
    bucket: Name = ""
    active: str = ""
    fetch: dict[str, Any] = {}
    on_finished: Template | None = None
    cron: dict[str, CronJob] = {}


PLAIN_TEMPLATE: Final = Template()
PLAIN_JOB: Final = CronJob()
NO_JOBS: Final[Mapping[str, CronJob]] = {}


class CoreConfig(Struct, frozen=True):
    """Everything that the core is told from outside.

    Attributes:
        defaults, projects: layers of settings: for all projects, and by name; a project named here is made.
        buckets: shared by several projects, by name.
        auto_create: a new-task for an unknown project makes it.
        fetcher_timeout: seconds of silence after which a fetcher gives back what it holds.
        session_timeout: seconds of silence after which a session's kept outcomes are forgotten.
        max_sessions: kept at once; above it the one silent for longest is forgotten.
        head_tasks, head_bytes: what each order of a project holds in memory, at most.
        turn_tasks: most tasks promoted, expired or handed out in one turn.
        select_bytes: about the size at which a select message is full.
        max_message: bytes of the longest message taken, told to clients.
        version: of the software, told to clients.
    """

    defaults: Layer = field(default_factory=dict)
    projects: dict[str, Layer] = field(default_factory=dict)
    buckets: dict[str, Pace] = field(default_factory=dict)
    auto_create: bool = False
    fetcher_timeout: float = 60.0
    session_timeout: float = 3600.0
    max_sessions: int = 10_000
    head_tasks: int = 4096
    head_bytes: int = 4 << 20
    turn_tasks: int = 2048
    select_bytes: int = 1 << 20
    max_message: int = 8 << 20
    version: str = ""


def merge(*layers: Layer) -> Settings:
    """Lay the layers over each other and check the whole; the first one is that for all projects.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        overlay(merged, layer)
        _refuse(_wrong_jobs(layer.get("cron")))
    if merged.get("bucket") and not any("rate" in layer for layer in layers[1:]):
        merged["rate"] = inf
    merged["cron"] = _without_none(merged.get("cron", {}))
    try:
        settings = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise Rejected("setting", next(schema.problems("", merged, Settings), str(error))) from None
    _refuse(_wrong_wholes(settings))
    return settings


def overlay(merged: dict[str, Setting], layer: Layer) -> None:
    """Lay a layer over those before; tables key by key."""
    for key, value in layer.items():
        under = merged.get(key)
        merged[key] = {**under, **value} if isinstance(under, dict) and isinstance(value, dict) else value


def check(settings: Settings, given: Given, known: Mapping[str, CronJob] = NO_JOBS) -> None:
    """See that what only the outside can read can be read; jobs that are ``known`` have been checked already.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    _refuse(_unreadable(settings, given, known))


def problems(where: str, layer: Layer, given: Given) -> Iterator[str]:
    """Everything that is wrong with a layer of the config file, whose section is ``where``: each setting by its path.

    ``merge`` and ``check`` take a layer without problems; of one with problems they say the first.
    """
    for key, value in layer.items():
        found = _setting_problems(key, value, given)
        yield from (f"{where}.{reason}" for reason in found)


def _setting_problems(key: str, value: Setting, given: Given) -> Iterator[str]:
    """What is wrong with its form, then with the meaning of whatever of it has a good form."""
    table = {key: value}
    yield from schema.problems("", table, Settings)
    if key == "cron" and isinstance(value, dict):
        yield from _wrong_jobs(value)
        yield from _wrong_choices({name: job for name, job in value.items() if isinstance(job, dict)})
    settings = schema.sound(table, Settings)
    yield from _wrong_contents(settings)
    yield from _unreadable(settings, given)


def seconds_of(duration: str) -> int:
    """``"5m"`` as 300; 0: it can't be read."""
    read = DURATION.fullmatch(duration)
    return int(read[1]) * UNIT_SECONDS[read[2]] if read else 0


def as_layer(settings: Settings) -> dict[str, Setting]:
    """All settings as a map, for people: ``merge({}, as_layer(settings))`` is the same again.

    Bodies are in it as they are, so that whatever MessagePack can say stays what it is.
    """
    finished = settings.on_finished
    return msgspec.structs.asdict(settings) | {
        "retry_delay": list(settings.retry_delay),
        "on_finished": None if finished is None else _said(finished, PLAIN_TEMPLATE),
        "cron": {
            name: _said(job, PLAIN_JOB) | {"task": _said(job.task, PLAIN_TEMPLATE)}
            for name, job in settings.cron.items()
        },
    }


def _said(value: Struct, plain: Struct) -> dict[str, Any]:
    """The fields that say something."""
    return {key: field for key, field in msgspec.structs.asdict(value).items() if field != getattr(plain, key)}


def _without_none(table: Setting) -> Setting:
    return {key: value for key, value in table.items() if value is not None} if isinstance(table, dict) else table


# ---------------------------------------------------------------------------------------- what can't be


def _refuse(reasons: Iterator[str]) -> None:
    """Say the first of them."""
    for reason in reasons:
        raise Rejected("setting", reason)


def _wrong_jobs(jobs: Setting) -> Iterator[str]:
    """Too many, or names that no job can have."""
    if not isinstance(jobs, dict):
        return
    if len(jobs) > MAX_JOBS:
        yield f"cron: expected at most {MAX_JOBS} jobs, not {len(jobs)}"
    for name in jobs:
        if not isinstance(name, str) or not JOB_NAME.fullmatch(name):
            yield f"cron.{schema.shown(name)}: a job's name is {JOB_NAME_WORDS}"


def _wrong_wholes(settings: Settings) -> Iterator[str]:
    """What the types can't say."""
    yield from _wrong_choices({name: {"cron": job.cron, "every": job.every} for name, job in settings.cron.items()})
    yield from _wrong_contents(settings)


def _wrong_choices(jobs: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for name, job in jobs.items():
        if bool(job.get("cron")) == bool(job.get("every")):
            yield f"{schema.path('cron', name)}: give one of cron and every"


def _wrong_contents(settings: Settings) -> Iterator[str]:
    for name in WHOLES:
        number = getattr(settings, name)
        if number != inf and number % 1:
            yield schema.wrong("", name, number, Settings)
    if settings.on_finished is not None:
        yield from _wrong_template("on_finished", settings.on_finished)
    for name, job in settings.cron.items():
        where = schema.path("cron", name)
        yield from _wrong_template(f"{where}.task", job.task)
        yield from _wrong_every(where, job)


def _wrong_template(where: str, task: Template) -> Iterator[str]:
    """The daemon is no better than its producers: what it pushes fits into a message."""
    url, taskid = (text.replace(TICK, MAX_TICK) for text in (task.url, task.taskid))
    if len(url) > MAX_URL_CHARS:
        yield f"{where}.url: expected at most {MAX_URL_CHARS} characters"
    if len(taskid.encode()) > MAX_TASKID_BYTES:
        yield f"{where}.taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8"


def _wrong_every(where: str, job: CronJob) -> Iterator[str]:
    if job.every and not 0 < seconds_of(job.every) <= MAX_EVERY_SECONDS:
        said = schema.shown(job.every)
        yield f'{where}.every: expected "90s", "5m", "12h", "1d" or the like, at most "366d", not {said}'
    if job.every and job.zone != PLAIN_JOB.zone:
        yield f"{where}.zone: goes with cron; every counts from 1970 in UTC"


def _unreadable(settings: Settings, given: Given, known: Mapping[str, CronJob] = NO_JOBS) -> Iterator[str]:
    """What only the outside can read, and can't."""
    yield from _attempt("active", lambda: given.hours(settings.active, 0.0))
    yield from _unpackable("fetch", settings.fetch, given)
    if settings.on_finished is not None:
        yield from _unpackable("on_finished.body", settings.on_finished.body, given)
    for name, job in settings.cron.items():
        if known.get(name) != job:
            where = schema.path("cron", name)
            yield from _unpackable(f"{where}.task.body", job.task.body, given)
            yield from _unreadable_times(where, job, given)


def _unreadable_times(where: str, job: CronJob, given: Given) -> Iterator[str]:
    """Each of the two apart, so that neither hides the other."""
    if job.cron:
        yield from _attempt(f"{where}.cron", lambda: _check_comes(job.cron, given))
    if not job.every:
        yield from _attempt(f"{where}.zone", lambda: given.next_run(EACH_MINUTE, job.zone, 0.0))


def _check_comes(expression: str, given: Given) -> None:
    if given.next_run(expression, PLAIN_JOB.zone, LONG_GAP_AT) == inf:
        raise Rejected("setting", f"cron: {schema.shown(expression)} never comes")


def _unpackable(where: str, value: object, given: Given) -> Iterator[str]:
    try:
        size = len(given.pack(value))
    except Rejected as rejected:
        yield f"{where}: {_without_key(rejected.reason)}"
    else:
        if size > MAX_PACKED_BYTES:
            yield f"{where}: {size} bytes, at most {MAX_PACKED_BYTES} are taken in a setting"


def _attempt(where: str, ask: Callable[[], object]) -> Iterator[str]:
    """What whoever is asked can't read, under the name of the setting that it was said in."""
    try:
        ask()
    except Rejected as rejected:
        yield f"{where}: {_without_key(rejected.reason)}"


def _without_key(reason: str) -> str:
    return reason.partition(": ")[2]
