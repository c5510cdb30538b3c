"""Values of the core: tasks, slots, projects, sessions, flows, operations, and the needs and records of the store.

Here may live values and data structures with their invariants, tables of decisions and arithmetic, each about one
thing. Nothing here knows the state of the scheduler or a turn. A file has Structs or compiled code, never both.
"""
