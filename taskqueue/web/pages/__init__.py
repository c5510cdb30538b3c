"""The pages: a module a noun.

Here may live what a page asks the daemon, and what it makes of the answers for its template.
"""
