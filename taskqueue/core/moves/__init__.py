"""Verbs on the state: push, dispatch and end tasks, change projects, slots and flows, answer waiting requests.

Here may live verbs that several rules use, or the turn itself. None has REQUESTS: the author of a request is known in
``requests`` only.
"""
