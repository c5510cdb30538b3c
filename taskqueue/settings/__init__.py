"""Settings of projects and of the core: types, defaults, ranges, layers, parsing, and words for changes.

Here may live values, their checks, and the interface of the outside for the core (``environment``); nothing here knows
the daemon's state.
"""
