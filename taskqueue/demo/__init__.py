"""The demo: a crawl of a small site on loopback, through a real daemon and two real fetchers.

Here may live what ``taskqueue demo`` starts and shows. It uses the daemon and the client as any user would.
"""
