"""Flows as producers describe them, and how they get to the daemon.

Here may live what a flow is before it is submitted. What becomes of it then is asked for in ``asynchronous/flows``.
"""
