"""Worker: a handler that is run on tasks as they become ready, with its middleware, log and signals.

Here may live what surrounds a handler. It takes and reports tasks by parts of its client that have no public name.
"""
