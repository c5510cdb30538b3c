"""Confirmation of what can't be undone."""

from __future__ import annotations

import click

from taskqueue.cli.input.stdin import stdin_is_terminal
from taskqueue.visible_text import visible


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
