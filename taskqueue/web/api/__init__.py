"""The HTTP interface: everything that the command line can ask a daemon, as JSON at ``/api/v1``.

Here may live what makes requests of the protocol of HTTP requests, and JSON of their replies. A row for each operation,
in a module a noun (tasks, projects, fetchers, slots, flows, operations, insight, daemon); what takes more than a row
has a module of its own.
"""
