"""All projects that are known: by name, by number, in order, and what was said of them in sum."""

from __future__ import annotations

from bisect import bisect_left, insort

from taskqueue.core.projects.project import Project
from taskqueue.errors import Rejected


class ProjectTable:
    """Projects.

    Attributes:
        by_name, by_number, names: for reading; the latter are in order.
        overrides_bytes: that what was said of their settings takes, of all together.
        next_number: of the project that is made next.
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
            Rejected: it is unknown.
        """
        project = self.by_name.get(name)
        if project is None:
            hint = f"make it with: taskqueue project start {name}"
            raise Rejected("unknown-project", f'project: "{name}" is unknown; {hint}')
        return project

    def in_group(self, group: str) -> list[Project]:
        """The projects of a group, in the order of their names."""
        return [self.by_name[name] for name in self.names if self.by_name[name].settings.group == group]

    def add(self, project: Project) -> None:
        """Know a project."""
        self.by_name[project.name] = project
        self.by_number[project.number] = project
        self.overrides_bytes += project.overrides_bytes
        insort(self.names, project.name)

    def remove(self, project: Project) -> None:
        """Know a project no more."""
        del self.by_name[project.name]
        del self.by_number[project.number]
        self.overrides_bytes -= project.overrides_bytes
        del self.names[bisect_left(self.names, project.name)]

    def note_overrides(self, before: int, project: Project) -> None:
        """Something else is said of a project; what was said before took so many bytes."""
        self.overrides_bytes += project.overrides_bytes - before

    def take_number(self) -> int:
        """The number of a project that is made now."""
        self.next_number += 1
        return self.next_number - 1
