"""Texts that several layers write or read: durations, sizes, errors, suggestions, hung places, and foreign text.

Here may live pure functions that make a text or read one; nothing here knows a message, or where a text is shown.
"""
