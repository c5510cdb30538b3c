"""The daemon's one socket: connections, what they cost, whose frame is heard next, and what it says.

Here may live what looks at frames and connections. Nothing here knows what a request leads to.
"""
