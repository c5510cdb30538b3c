"""The scheduler's decisions, and nothing else: given (now, requests, found) it says what to keep and what to say.

Nothing in here reads a clock, a socket, a disk or a random number; see docs/architecture.md.
"""
