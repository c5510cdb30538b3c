"""HTTP API: everything that the command line can ask a daemon, as JSON at ``/api/v1``.

Here may live what turns HTTP requests into requests of the protocol, and replies into JSON. Each operation is a row in
the module of its noun (tasks, projects, fetchers, slots, flows, operations, insight, daemon); larger parts have modules
of their own.
"""
