"""What there is: tasks, slots, projects, sessions, flows, operations, and what the store is asked and told of them.

Here may live values and data structures with their invariants, tables of decisions and arithmetic; one thing's own, and
nothing that knows the state of the scheduler or a turn. A file has Structs or compiled code, never both.
"""
