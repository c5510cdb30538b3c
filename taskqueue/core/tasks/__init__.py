"""Tasks: what one is, the orders that they wait in, what of them is in memory, and what the store is asked and told.

Here may live values, data structures and tables of decisions about tasks alone; nothing here knows of several projects
or of a session.
"""
