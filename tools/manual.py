"""Make the manual pages and the completions of shells from the commands' own help.

    python -m tools.manual FOLDER       write them below FOLDER, as `make manual` does below share

    man/man1/taskqueue.1                all commands in a line each
    man/man1/taskqueue-NOUN.1           a command, or a noun with all its commands
    bash-completion/completions/taskqueue, zsh/site-functions/_taskqueue, fish/vendor_completions.d/taskqueue.fish

setup.py packs what it finds in share; a checkout has none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from taskqueue.cli.commands.completion import VARIABLE
from taskqueue.cli.main import COMMANDS
from taskqueue.cli.main import taskqueue as program

ROOT: Final = Path(__file__).parent.parent
COMPLETIONS: Final = {
    "bash": "bash-completion/completions/taskqueue",
    "zsh": "zsh/site-functions/_taskqueue",
    "fish": "fish/vendor_completions.d/taskqueue.fish",
}


def version() -> str:
    """Version of setup.cfg."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config["metadata"]["version"]


def escaped(text: str) -> str:
    """The text so that roff prints it as it is: hyphens can be copied, no line is a request, and all is ASCII."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in text)
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.splitlines())


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page's name, without its section, and its text."""
    yield "taskqueue", _page("taskqueue", program, "schedule tasks of web crawlers")
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        yield f"taskqueue-{name}", _page(f"taskqueue {name}", command, command.get_short_help_str(80).rstrip("."))


def _page(name: str, command: click.Command, purpose: str) -> str:
    title = name.replace(" ", "-")
    lines = [
        f'.TH {title.upper()} 1 "" "taskqueue {version()}" "taskqueue"',
        ".SH NAME",
        f"{escaped(title)} \\- {escaped(purpose)}",
        ".SH SYNOPSIS",
        _usage(name, command),
        ".SH DESCRIPTION",
        *_help(command),
        *_options(command, ".SH OPTIONS"),
    ]
    if command is program:
        lines += [".SH COMMANDS", *_list([(f"taskqueue-{each}(1)", told) for each, told in COMMANDS.items()])]
    elif isinstance(command, click.Group):
        lines += [".SH COMMANDS", *_verbs(name, command), ".SH SEE ALSO", "taskqueue(1)"]
    else:
        lines += [".SH SEE ALSO", "taskqueue(1)"]
    return "\n".join(lines) + "\n"


def _verbs(name: str, group: click.Group) -> Iterator[str]:
    """Sections of a group's commands, with those of groups within it."""
    for verb, command in group.commands.items():
        yield f".SS {escaped(f'{name} {verb}')}"
        yield _usage(f"{name} {verb}", command)
        yield from _help(command)
        yield from _options(command)
        if isinstance(command, click.Group):
            yield from _verbs(f"{name} {verb}", command)


def _usage(name: str, command: click.Command) -> str:
    pieces = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
    return f".B {escaped(name)}\n{escaped(pieces)}"


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield ".PP"
        if paragraph.startswith("\b\n"):
            yield f".nf\n{escaped(paragraph.removeprefix(chr(8)).strip())}\n.fi"
        else:
            yield escaped(" ".join(paragraph.split()))


def _options(command: click.Command, *head: str) -> Iterator[str]:
    context = click.Context(command)
    records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    if any(records):
        yield from head
        yield from _list([record for record in records if record])


def _list(rows: list[tuple[str, str]]) -> Iterator[str]:
    for term, told in rows:
        yield f".TP\n.B {escaped(term)}\n{escaped(told)}"


def completion(shell: str) -> str:
    """Script by which a shell completes commands, options and project names."""
    made_by = get_completion_class(shell)
    assert made_by is not None
    return made_by(program, {}, "taskqueue", VARIABLE).source()


def main(folder: Path) -> None:
    """Write all of it below a folder."""
    made = {f"man/man1/{name}.1": text for name, text in pages()}
    made |= {path: completion(shell) for shell, path in COMPLETIONS.items()}
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
