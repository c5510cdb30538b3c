"""All projects: by name, by number, in order, and the memory of their overrides."""

from __future__ import annotations

from bisect import bisect_left, insort

from taskqueue.core.projects.project import Project
from taskqueue.errors import Rejected


class ProjectTable:
    """All projects.

    Attributes:
        by_name, by_number, names: read-only for others; ``names`` is sorted.
        overrides_bytes: memory of all overrides together.
        next_number: of the next new project.
    """

    __slots__ = ("by_name", "by_number", "names", "next_number", "overrides_bytes")

    def __init__(self, next_number: int) -> None:
        self.by_name: dict[str, Project] = {}
        self.by_number: dict[int, Project] = {}
        self.names: list[str] = []
        self.overrides_bytes = 0
        self.next_number = next_number

    def named(self, name: str) -> Project:
        """The project of that name.

        Raises:
            Rejected: there is none.
        """
        project = self.by_name.get(name)
        if project is None:
            hint = f"make it with: taskqueue project start {name}"
            raise Rejected("unknown-project", f'project: "{name}" is unknown; {hint}')
        return project

    def in_group(self, group: str) -> list[Project]:
        """The projects of a group, sorted by name."""
        return [self.by_name[name] for name in self.names if self.by_name[name].settings.group == group]

    def add(self, project: Project) -> None:
        """Add a project."""
        self.by_name[project.name] = project
        self.by_number[project.number] = project
        self.overrides_bytes += project.overrides_bytes
        insort(self.names, project.name)

    def remove(self, project: Project) -> None:
        """Remove a project."""
        del self.by_name[project.name]
        del self.by_number[project.number]
        self.overrides_bytes -= project.overrides_bytes
        del self.names[bisect_left(self.names, project.name)]

    def note_overrides(self, before: int, project: Project) -> None:
        """A project's overrides have changed; they took ``before`` bytes."""
        self.overrides_bytes += project.overrides_bytes - before

    def take_number(self) -> int:
        """The number of a new project."""
        self.next_number += 1
        return self.next_number - 1
