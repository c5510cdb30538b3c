"""Parts of a scheduler that know nothing of tasks, projects or requests: buckets, heaps of times, windows, globs.

Here may live what another program could use as it is.
"""
