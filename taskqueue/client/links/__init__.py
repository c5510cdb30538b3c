"""``taskqueue.links``: which pages a page leads to.

Here may live what reads HTML and urls; nothing here needs a connection.
"""
