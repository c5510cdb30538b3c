"""Settings of projects and of the core: types, defaults, ranges, layers, parsing, and words for changes.

Here may live values, their checks, and what the core needs from outside (``environment``); nothing here knows the
daemon's state.
"""
