"""``client.groups``: doing something with each project that belongs to a group."""

from __future__ import annotations

from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.protocol.requests import Action, GroupDo
from taskqueue.protocol.views import OperationView


class AsyncGroups:
    """What ``client.projects`` does with one project, done with each of a group, in the order of their names.

    Each waits for the end, and goes on in the daemon whatever becomes of this client. It returns the operation: with
    ``matched`` projects it was done, of ``seen``; for the others it made no sense. RequestRejected is raised if no
    project belongs to the group.
    """

    def __init__(self, long_poll: LongPoll) -> None:
        self._long_poll = long_poll

    async def pause(self, group: str, seconds: float | None = None) -> OperationView:
        """Hand out no more tasks of these projects until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which they go on by themselves. A project that somebody has
                paused until ``resume`` stays so.
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
