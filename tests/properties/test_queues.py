"""Head of an order beside the whole order: a sorted list, and a store that is read when the head runs low."""

from __future__ import annotations

from bisect import bisect_left, insort

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskqueue.core.model.heads import Head
from taskqueue.core.model.task import NO_FLOOR, READY, Task, ready_key

priorities = st.integers(-2, 2)


class HeadBesideList(RuleBasedStateMachine):
    """State machine of rule 1 of ``heads``: the heap has exactly the stored entries below the floor."""

    @initialize(max_tasks=st.sampled_from([1, 2, 3, 8]), max_size=st.sampled_from([30, 10_000]))
    def begin(self, max_tasks: int, max_size: int) -> None:
        self.max_tasks, self.max_size = max_tasks, max_size
        self.queue = Head()
        self.whole: list[int] = []
        self.tasks: dict[int, Task] = {}
        self.seq = 0

    @rule(priority=priorities, size=st.integers(1, 40))
    def add(self, priority: int, size: int) -> None:
        self.seq += 1
        self.insert(Task(1, f"t{self.seq}", READY, ready_key(priority, self.seq), self.seq, priority, size=size))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.take_out(data.draw(st.sampled_from(self.whole)))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), priority=priorities)
    def reprioritise(self, data: st.DataObject, priority: int) -> None:
        """Move a task up or down, and sometimes back to its former place."""
        task = self.take_out(data.draw(st.sampled_from(self.whole)))
        task.priority, task.key = priority, ready_key(priority, task.seq)
        self.insert(task)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), size=st.integers(1, 40))
    def resize(self, data: st.DataObject, size: int) -> None:
        self.queue.resize(self.tasks[data.draw(st.sampled_from(self.whole))], size)

    @rule(count=st.integers(1, 4))
    def pop(self, count: int) -> None:
        for _ in range(count):
            if self.queue.first() is None:
                self.read_on()
            first = self.queue.first()
            assert (first is None) == (not self.whole)
            if first is not None:
                assert first.key == self.whole[0]
                assert self.queue.pop() is first
                del self.tasks[self.whole.pop(0)]

    @rule()
    def trim(self) -> None:
        while dropped := self.queue.trim(self.max_tasks, self.max_size):
            assert min(task.key for task in dropped) == self.queue.floor
        assert len(self.queue) <= self.max_tasks
        assert self.queue.bytes <= self.max_size or len(self.queue) == 1

    @rule()
    def refill(self) -> None:
        if self.queue.is_low(self.max_tasks, self.max_size):
            self.read_on()

    @rule()
    def restart(self) -> None:
        """Start with a new head, which knows only a lower bound of the stored entries."""
        low = self.queue.low_key()
        assert all(key >= low for key in self.whole)
        self.queue = Head(low if self.whole else NO_FLOOR)

    @invariant()
    def it_holds_exactly_what_is_stored_below_the_floor(self) -> None:
        if hasattr(self, "queue"):
            below = self.whole[: bisect_left(self.whole, self.queue.floor)]
            assert sorted(self.queue.entries) == below
            assert self.queue.bytes == sum(self.tasks[key].size for key in below)
            first = self.queue.first()
            assert (first.key if first else None) == (below[0] if below else None)

    def insert(self, task: Task) -> None:
        insort(self.whole, task.key)
        self.tasks[task.key] = task
        assert self.queue.add(task) == (task.key < self.queue.floor)

    def take_out(self, key: int) -> Task:
        self.queue.remove(self.tasks[key])
        self.whole.remove(key)
        return self.tasks.pop(key)

    def read_on(self) -> None:
        """Read the next few stored entries at and above the floor."""
        first = bisect_left(self.whole, self.queue.floor)
        some = self.whole[first : first + 2]
        self.queue.refill([self.tasks[key] for key in some], end=first + 2 >= len(self.whole))


TestHeadBesideList = HeadBesideList.TestCase
TestHeadBesideList.settings = settings(max_examples=150, stateful_step_count=50)
