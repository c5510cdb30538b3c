"""Connection of a client: its session, its socket, requests in flight, and whether the daemon answers.

Here may live what every request needs, and requests that repeat until they end: waits and projects kept open. Nothing
here knows tasks.
"""
