"""Pages of the dashboard, a module per noun, with sign-in, errors, metrics, and the base of live pages.

Here may live what a page asks the daemon, and the context made of the answers for its template.
"""
