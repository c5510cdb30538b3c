"""Tells a url of events, in a helper thread: the loop never waits for it.

Here may live what happens after an event has been put on its queue.
"""
