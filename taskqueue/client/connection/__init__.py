"""One client's connection: its session, its socket, what is under way, and whether somebody answers.

Here may live what every request needs, and what keeps asking or saying the same until it ends: waits and holds. Nothing
here knows what a task is.
"""
