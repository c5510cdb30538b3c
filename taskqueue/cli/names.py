"""Names on the command line, checked before anything is sent."""

from __future__ import annotations

import re
from typing import Final

import click

PROJECT_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def project_name(text: str) -> str:
    """The name, if a project can have it.

    Raises:
        click.BadParameter: it can't.
    """
    if not PROJECT_NAME.fullmatch(text):
        raise click.BadParameter(f'"{text}" is no project name, which is 1 to 64 of letters, digits, "_", "-" and "."')
    return text
