"""The demo: a crawl of a small site on loopback, through a real daemon and two real fetchers."""
