"""The pages, a module a noun; beside them signing in, errors, metrics, and what every live page is made of.

Here may live what a page asks the daemon, and what it makes of the answers for its template.
"""
