"""The blocking twin of ``taskqueue.client.asynchronous.groups``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from taskqueue.client.asynchronous.groups import AsyncGroups
from taskqueue.client.connection.background import Background
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.operations import OperationView
from taskqueue.protocol.projects import GroupReply


class BlockingGroups:
    """What ``client.projects`` does with one project, done with each of a group, in the order of their names.

    Each but ``set`` waits for the end, and goes on in the daemon whatever becomes of this client. It returns the
    operation: with ``matched`` projects it was done, of ``seen``; for the others it made no sense. RequestRejected is
    raised if no project belongs to the group.
    """

    def __init__(self, background: Background, groups: AsyncGroups) -> None:
        self._background = background
        self._client = groups

    def set(self, group: str, settings: Mapping[str, Setting]) -> GroupReply:
        """Change settings of these projects, of all at once; returns how many they are, and the old values.

        Raises:
            RequestRejected: one of the projects can't have one of the settings, or they are more than 1,000; the
                reason names the project, and none is changed.
        """
        return self._background.run(self._client.set(group, settings))

    def pause(self, group: str, seconds: float | None = None) -> OperationView:
        """Hand out no more tasks of these projects until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which they go on by themselves. A project that an operator
                has paused until ``resume`` stays so.
        """
        return self._background.run(self._client.pause(group, seconds))

    def resume(self, group: str) -> OperationView:
        """Hand out the tasks of these projects again."""
        return self._background.run(self._client.resume(group))

    def stop(self, group: str) -> OperationView:
        """Stop these projects until ``start``: they keep and take tasks, and hand out none."""
        return self._background.run(self._client.stop(group))

    def start(self, group: str) -> OperationView:
        """Start these projects."""
        return self._background.run(self._client.start(group))

    def clear(self, group: str) -> OperationView:
        """Drop the tasks of these projects that are live; those that are over stay known."""
        return self._background.run(self._client.clear(group))

    def reset(self, group: str) -> OperationView:
        """Forget all that is known of the tasks of these projects; their settings, states and paces stay."""
        return self._background.run(self._client.reset(group))

    def delete(self, group: str) -> OperationView:
        """Delete these projects themselves, with everything that they have."""
        return self._background.run(self._client.delete(group))
