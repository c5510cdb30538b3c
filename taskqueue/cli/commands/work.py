"""``taskqueue work``: run a fetcher that calls the user's handler."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from taskqueue.cli.input.daemon import address_option
from taskqueue.cli.input.names import projects_argument
from taskqueue.cli.input.times import seconds
from taskqueue.defaults import CONCURRENCY
from taskqueue.terminal.log_lines import LogHandler
from taskqueue.texts.suggestions import did_you_mean
from taskqueue.texts.units import parse_size

if TYPE_CHECKING:
    from taskqueue import Hung

HUNG_STATUS: Final = 75
"""Exit status of a worker whose handlers hang: EX_TEMPFAIL of sysexits.h, so a supervisor starts another process."""

LAST_SECONDS = 0.2
"""Seconds that a thread may take to end by itself after the worker has stopped."""


def size(written: str) -> int:
    """Parse a size into bytes.

    Raises:
        click.BadParameter: the text is not a size, or is 0.
    """
    if not (found := parse_size(written)):
        raise click.BadParameter(f'"{written}" is not a size; write it like 512M or "1 GiB"')
    return found


@click.command()
@click.argument("handler", metavar="MODULE:FUNCTION")
@projects_argument
@click.option(
    "-j",
    "--concurrency",
    type=click.IntRange(min=1),
    default=CONCURRENCY,
    show_default=True,
    help="Places: tasks that run at once.",
)
@click.option(
    "--prefetch",
    type=click.IntRange(min=0),
    help="Tasks that wait here for a place.  [default: 0.1s of work]",
)
@click.option(
    "--priority",
    type=click.IntRange(-(2**31), 2**31 - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Rank among fetchers with a free place; highest first.",
)
@click.option(
    "--overtime",
    type=seconds,
    metavar="DURATION",
    help="Time past its lease before a run is ended.  [default: a tenth of the lease, at least 1s]",
)
@click.option("--extend", is_flag=True, help="Longer leases for tasks that take long.")
@click.option(
    "--extend-most",
    type=click.FloatRange(min=1),
    metavar="N",
    default=10,
    show_default=True,
    help="Number of leases of an extended task, in all.",
)
@click.option(
    "--max-hung",
    type=click.IntRange(min=1),
    metavar="N",
    help="Hung places at which the process ends with status 75.",
)
@click.option(
    "--grace",
    type=seconds,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="Time that tasks have to end when the worker stops.",
)
@click.option(
    "--summary",
    type=seconds,
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="Time between two lines of figures in the log.",
)
@click.option("--name", metavar="NAME", help="Name of the fetcher.  [default: host:pid]")
@click.option(
    "--exit-when-drained",
    is_flag=True,
    help="End of the process once the fetcher has been drained.",
)
@click.option(
    "--max-tasks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Runs of the handler after which the process ends.",
)
@click.option(
    "--max-memory",
    type=size,
    metavar="SIZE",
    help="Memory of the process above which it ends, such as 512M.",
)
@click.option("--until-finished", is_flag=True, help="End of the process once all projects have finished.")
@click.option("-q", "--quiet", is_flag=True, help="Same as --log-level warning.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least level of the log on stderr.",
)
@address_option
def work(
    handler: str,
    projects: tuple[str, ...],
    concurrency: int,
    prefetch: int | None,
    priority: int,
    overtime: float | None,
    extend: bool,
    extend_most: float,
    max_hung: int | None,
    grace: float,
    summary: float,
    name: str | None,
    exit_when_drained: bool,
    max_tasks: int | None,
    max_memory: int | None,
    until_finished: bool,
    quiet: bool,
    log_level: str,
    daemon: str,
    key: str | None,
) -> None:
    """Run a handler on tasks: a fetcher.

    Takes ready tasks of the named projects, or of all. The handler is called with a task: what it returns becomes new
    tasks, what it raises decides the outcome. It may be a plain function or `async def`, in a module on the path or in
    the current folder. After Ctrl-C or SIGTERM begun tasks are finished, and the rest is handed back.

    \b
    Example:
      taskqueue work crawler:crawl news -j 20
    """
    if until_finished and not projects:
        raise click.UsageError("--until-finished needs the projects that are to finish, behind the handler.")
    with _plain_interrupt():
        from taskqueue import Hung, Worker

        function = load(handler)
        _log_to_stderr("warning" if quiet else log_level)
    worker = Worker(
        function,
        projects or None,
        client=daemon,
        key=key,
        concurrency=concurrency,
        prefetch=prefetch,
        priority=priority,
        overtime=overtime,
        extend=extend,
        extend_most=extend_most,
        max_hung=max_hung,
        on_blocked=_give_up,
        grace=grace,
        summary_seconds=summary,
        name=name,
        exit_when_drained=exit_when_drained,
        max_tasks=max_tasks,
        max_memory_bytes=max_memory,
        until_finished=until_finished,
    )
    try:
        worker.run()
    except Hung as hung:
        _give_up(hung)
    _end_hanging()


@contextmanager
def _plain_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process as the system does, without a traceback from the middle of the handler's imports.

    If the block fails, Ctrl-C raises KeyboardInterrupt again.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGINT, before)
        raise


def _give_up(hung: Hung) -> NoReturn:
    log = logging.getLogger("taskqueue.worker")
    log.error("event=gave-up reason='%s; a supervisor may start another process'", hung)
    _end_at_once(HUNG_STATUS)


def _end_hanging() -> None:
    """End the process if a handler hangs: its task has been handed back, but Python would wait for its thread."""
    from taskqueue.client.worker.worker import ABANDONED, THREADS

    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREADS)]
    for thread in threads:
        thread.join(LAST_SECONDS)
    if ABANDONED or any(thread.is_alive() for thread in threads):
        _end_at_once(0)


def _end_at_once(status: int) -> NoReturn:
    """End the process without its threads, for which Python would wait."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)


def _log_to_stderr(level: str) -> None:
    """Log the worker and its client to stderr, unless the handler's module has set up logging."""
    log = logging.getLogger("taskqueue")
    log.setLevel(level.upper())
    if not logging.getLogger().handlers:
        log.handlers[:] = [LogHandler()]


def load(name: str) -> Callable[..., Any]:
    """Import the function MODULE:FUNCTION; the current folder comes first, as in ``python -m``.

    Raises:
        click.ClickException: it can't be imported; the message says what is missing, or what is wrong with the module.
    """
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise click.UsageError(f'"{name}" is not of the form module:function.')
    if module_name.endswith(".py"):
        meant = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise click.UsageError(f'"{name}" names a file; name its module: {meant}:{function_name}.')
    sys.path.insert(0, os.getcwd())
    module = _import(module_name)
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        own = _functions_of(module)
        hint = did_you_mean(function_name, own) or f"there are {', '.join(own) or 'none'}"
        raise click.ClickException(f'{module_name} has no function "{function_name}"; {hint}')
    return function


def _functions_of(module: ModuleType) -> list[str]:
    """List what the module itself defines and a worker can call."""
    home = module.__name__
    return [name for name, it in vars(module).items() if callable(it) and getattr(it, "__module__", "") == home]


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        # Anything may be wrong with the user's module.
        raise click.ClickException(f"can't import {name}: {type(error).__name__}: {error}{_where(error)}") from None


def _where(error: Exception) -> str:
    """File and line at which an import went wrong, if it was in a file of the user's."""
    trace, place = error.__traceback__, ""
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and file != __file__ and "importlib" not in file:
            place = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
