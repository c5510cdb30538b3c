"""``taskqueue completion``: print scripts by which shells complete commands, options and project names."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from taskqueue.terminal.lines import say_lines

SHELLS: Final = ("bash", "zsh", "fish")

VARIABLE: Final = "_TASKQUEUE_COMPLETE"
"""Environment variable in which a shell asks for completions, and in which form."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options and project names. Save the script where the shell looks for it: for bash
    ~/.local/share/bash-completion/completions/taskqueue, for zsh _taskqueue in a folder of $fpath, for fish
    ~/.config/fish/completions/taskqueue.fish.

    Project names come from the daemon of TASKQUEUE_DAEMON or --daemon, if it answers within a second.

    \b
    Example:
      taskqueue completion zsh > ~/.zfunc/_taskqueue
      eval "$(taskqueue completion bash)"
    """
    made_by = get_completion_class(shell)
    assert made_by is not None
    say_lines(made_by(context.find_root().command, {}, "taskqueue", VARIABLE).source())
