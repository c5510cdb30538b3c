"""``client.groups``: doing something with each project that belongs to a group."""

from __future__ import annotations

from collections.abc import Mapping

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.operations import OperationView
from taskqueue.protocol.projects import GroupDo, GroupReply, GroupSet
from taskqueue.protocol.values import Action


class AsyncGroups:
    """What ``client.projects`` does with one project, done with each of a group, in the order of their names.

    Each but ``set`` waits for the end, and goes on in the daemon whatever becomes of this client. It returns the
    operation: with ``matched`` projects it was done, of ``seen``; for the others it made no sense. RequestRejected is
    raised if no project belongs to the group.
    """

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll

    async def set(self, group: str, settings: Mapping[str, Setting]) -> GroupReply:
        """Change settings of these projects, of all at once; returns how many they are, and the old values.

        Raises:
            RequestRejected: one of the projects can't have one of the settings, or they are more than 1,000; the
                reason names the project, and none is changed.
        """
        request = GroupSet(session="", n=0, group=group, settings=dict(settings))
        return await self._exchange.ask(request, GroupReply)

    async def pause(self, group: str, seconds: float | None = None) -> OperationView:
        """Hand out no more tasks of these projects until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which they go on by themselves. A project that an operator
                has paused until ``resume`` stays so.
        """
        return await self._act(group, "pause", seconds)

    async def resume(self, group: str) -> OperationView:
        """Hand out the tasks of these projects again."""
        return await self._act(group, "resume")

    async def stop(self, group: str) -> OperationView:
        """Stop these projects until ``start``: they keep and take tasks, and hand out none."""
        return await self._act(group, "stop")

    async def start(self, group: str) -> OperationView:
        """Start these projects."""
        return await self._act(group, "start")

    async def clear(self, group: str) -> OperationView:
        """Drop the tasks of these projects that are live; those that are over stay known."""
        return await self._act(group, "clear")

    async def reset(self, group: str) -> OperationView:
        """Forget all that is known of the tasks of these projects; their settings, states and paces stay."""
        return await self._act(group, "reset")

    async def delete(self, group: str) -> OperationView:
        """Delete these projects themselves, with everything that they have."""
        return await self._act(group, "delete")

    async def _act(self, group: str, action: Action, seconds: float | None = None) -> OperationView:
        request = GroupDo(session="", n=0, group=group, action=action, seconds=seconds)
        return await self._long_poll.done(request)
