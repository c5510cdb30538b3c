"""The screen of ``taskqueue top``: what it shows, at which speeds, and the keys that change it.

Here may live what only this screen needs.
"""
