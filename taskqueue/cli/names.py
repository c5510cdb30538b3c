"""Names on the command line, checked before anything is sent: of projects, groups, tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

PROJECT_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def project_name(text: str) -> str:
    """The name, if a project can have it.

    Raises:
        click.BadParameter: it can't.
    """
    return _name("project", text)


def group_name(text: str) -> str:
    """The name, if a group can have it.

    Raises:
        click.BadParameter: it can't.
    """
    return _name("group", text)


def _name(of: str, text: str) -> str:
    if not PROJECT_NAME.fullmatch(text):
        raise click.BadParameter(f'"{text}" is no {of} name, which is 1 to 64 ASCII letters, digits, "_", "-" and "."')
    return text


def takes_group(command: Command) -> Command:
    """Give a command the option --group; None stands for none."""
    return click.option("--group", type=group_name, metavar="GROUP", help="All projects of this group.")(command)


def taskids_of(names: Iterable[str]) -> list[str]:
    """The taskids that names mean: those of urls are made as clients make them."""
    from taskqueue.client.task import default_taskid

    return [default_taskid(name) if "://" in name else name for name in names]
