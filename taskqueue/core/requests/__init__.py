"""Requests: a module per noun, with a row in its REQUESTS for each type of request that it answers.

Here may live code that answers a request, at once or by adding a waiter, and code that several requests share, such as
``pages``. Work that continues in later turns is in ``steps``.
"""
