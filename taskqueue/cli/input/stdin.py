"""Standard input as commands use it: a file of bytes, or a terminal at which the operator confirms a loss.

A process may be started without one (``taskqueue … <&-``, some service managers); Python has None for it then.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from io import BufferedReader
from typing import Final

import click

from taskqueue.texts.visible_text import visible

STDIN: Final = "-"
"""File name that means standard input."""


def stdin_is_terminal() -> bool:
    """Whether the operator can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def stdin_bytes() -> BufferedReader:
    """Return standard input for reading.

    Raises:
        click.UsageError: this process has none.
    """
    if sys.stdin is None:
        raise click.UsageError("stdin is closed, so nothing can be read from -")
    return sys.stdin.buffer  # type: ignore[return-value]  # BinaryIO, as typeshed has it


def opened(file: str) -> AbstractContextManager[BufferedReader]:
    """Open a file, or return standard input, which stays open.

    Raises:
        OSError: the file can't be opened.
        click.UsageError: the name means standard input, and this process has none.
    """
    return nullcontext(stdin_bytes()) if file == STDIN else open(file, "rb")


def confirm(question: str, refusal: str) -> None:
    """Ask the operator, and go on only after a yes.

    Raises:
        click.UsageError: there is no terminal at which to ask.
        click.ClickException: the answer was no; its message is ``refusal``.
    """
    require_terminal()
    if not click.confirm(visible(question)):
        raise click.ClickException(refusal)


def require_terminal() -> None:
    """Go on only if the operator can be asked.

    Raises:
        click.UsageError: there is no terminal.
    """
    if not stdin_is_terminal():
        raise click.UsageError("there is no terminal to ask at; confirm with --yes")
