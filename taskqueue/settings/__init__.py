"""What projects and the daemon can be told to do differently: types, defaults, ranges, layers, and how they are read.

Here may live values and what checks them; nothing here knows of a task or of a turn.
"""
