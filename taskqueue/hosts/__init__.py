"""Hosts: the host of a URL, its spelling in ASCII, and its registered domain.

Here may live pure functions from text to text; nothing here asks the DNS, or knows tasks and slots.
"""
