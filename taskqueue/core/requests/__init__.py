"""What is asked: a module a noun, each with a row in its REQUESTS for each type of request that it answers.

Here may live what answers a request, at once or by adding a waiter, and what several of these share, such as ``pages``;
what goes on in later turns is in ``steps``.
"""
