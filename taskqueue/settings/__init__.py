"""Settings of projects and of the core: types, defaults, ranges, layers, how they are read and how changes are worded.

Here may live values, what checks them, and the interface of what the core is given (``environment``); nothing here
knows the state of the scheduler.
"""
