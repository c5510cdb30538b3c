"""Standard input as commands use it: a file of octets, or a terminal at which an operator says yes to a loss.

A process may be started without one (``taskqueue … <&-``, some service managers); Python has None for it then.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from io import BufferedReader
from typing import Final

import click

from taskqueue.visible_text import visible

STDIN: Final = "-"
"""Name of a file that is standard input."""


def stdin_is_terminal() -> bool:
    """Whether an operator can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def stdin_bytes() -> BufferedReader:
    """Standard input, to be read.

    Raises:
        click.UsageError: this process has none.
    """
    if sys.stdin is None:
        raise click.UsageError("stdin is closed, so nothing can be read from -")
    return sys.stdin.buffer  # type: ignore[return-value]  # BinaryIO, as typeshed has it


def opened(file: str) -> AbstractContextManager[BufferedReader]:
    """The file, or standard input, which stays open.

    Raises:
        OSError: the file can't be opened.
        click.UsageError: it is standard input, and this process has none.
    """
    return nullcontext(stdin_bytes()) if file == STDIN else open(file, "rb")


def confirm(question: str, refusal: str) -> None:
    """Go on only if somebody says yes.

    Raises:
        click.UsageError: nobody is there to ask.
        click.ClickException: the answer was no; its message is ``refusal``.
    """
    require_terminal()
    if not click.confirm(visible(question)):
        raise click.ClickException(refusal)


def require_terminal() -> None:
    """Go on only if somebody is there to ask.

    Raises:
        click.UsageError: nobody is.
    """
    if not stdin_is_terminal():
        raise click.UsageError("nobody is here to ask; say --yes to do it")
