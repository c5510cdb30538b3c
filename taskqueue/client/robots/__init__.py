"""``taskqueue.robots``: what a site asks of crawlers, in robots.txt, and what it offers them, in sitemaps.

Here may live what reads both, and what keeps them. Whatever has to be fetched, a function of the user's fetches.
"""
