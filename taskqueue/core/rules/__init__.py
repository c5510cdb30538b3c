"""What happens: a task is pushed, handed out, done, retried, kept or forgotten; a fetcher speaks or is silent.

Each module is a set of functions over the state. Here may live what producers, fetchers and the clock bring about; what
people ask for is in ``admin``.
"""
