"""``taskqueue completion``: what a shell has to know to complete commands, options and the names of projects."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from taskqueue.terminal.lines import say_lines

SHELLS: Final = ("bash", "zsh", "fish")

VARIABLE: Final = "_TASKQUEUE_COMPLETE"
"""In which a shell says that a line is to be completed, and how it wants the answer."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options and the names of projects. The script belongs into a file that the shell reads: for
    bash ~/.local/share/bash-completion/completions/taskqueue, for zsh _taskqueue in a folder of $fpath, for fish
    ~/.config/fish/completions/taskqueue.fish.

    Names come from the daemon that TASKQUEUE_DAEMON or --daemon names; if it doesn't answer within a second, there are
    none.

    \b
    Example:
      taskqueue completion zsh > ~/.zfunc/_taskqueue
      eval "$(taskqueue completion bash)"
    """
    made_by = get_completion_class(shell)
    assert made_by is not None
    say_lines(made_by(context.find_root().command, {}, "taskqueue", VARIABLE).source())
