"""Lines on stdout and stderr."""

from __future__ import annotations

import click

from taskqueue.texts.visible_text import visible, visible_lines


def say(line: str, *, err: bool = False) -> None:
    """Print a foreign text as one line on stdout or stderr."""
    click.echo(visible(line), err=err)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print a text of our own with several lines on stdout or stderr."""
    click.echo(visible_lines(text), err=err)
