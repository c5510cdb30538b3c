"""What the daemon is told at its start: a file, environment variables; and which process it is.

Here may live what reads and checks this.
"""
