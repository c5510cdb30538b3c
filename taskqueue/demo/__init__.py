"""Demo: a crawl of a small site on loopback, with a real daemon and two real fetchers.

Here may live what ``taskqueue demo`` starts and shows. It uses daemon and client as any user would.
"""
