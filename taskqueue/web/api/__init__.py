"""The HTTP interface: everything that the command line can ask a daemon, as JSON at ``/api/v1``.

Here may live what makes requests of the protocol of HTTP requests, and JSON of their replies. A row of a table for each
operation; what takes more than a row has a module of its own.
"""
