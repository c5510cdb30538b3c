"""Flows on the command line: ``nightly``, or ``shop/nightly`` where several projects have one of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from taskqueue.cli.input.names import PROJECT_NAME

if TYPE_CHECKING:
    from taskqueue import Client


class FlowRef(NamedTuple):
    """A flow that is named; ``project`` is empty if that was not said."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.name}" if self.project else self.name

    def found(self, client: Client) -> FlowRef:
        """The flow with its project, looked for among all flows if that was not said.

        Raises:
            click.ClickException: there is none of that name, or more than one.
        """
        if self.project:
            return self
        found = [FlowRef(view.project, view.flow) for view in client.flows.all() if view.flow == self.name]
        if len(found) > 1:
            raise click.ClickException(f"several projects have a flow {self.name}: say {' or '.join(map(str, found))}")
        if not found:
            raise click.ClickException(f"no project has a flow {self.name}; `taskqueue flow list` lists them")
        return found[0]


def flow_ref(written: str) -> FlowRef:
    """The flow that is meant.

    Raises:
        click.BadParameter: it can't be the name of one.
    """
    project, slash, name = written.rpartition("/")
    if not PROJECT_NAME.fullmatch(name) or (slash and not PROJECT_NAME.fullmatch(project)):
        raise click.BadParameter(f'"{written}" is no flow, which is named NAME or PROJECT/NAME')
    return FlowRef(project, name)
