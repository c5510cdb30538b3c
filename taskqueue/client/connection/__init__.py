"""One client's connection: its session, its socket, what is under way, and whether somebody answers.

Here may live what every request needs; nothing here knows what a request is about.
"""
