"""What people ask for: lists, numbers and reasons, settings and actions, and operations on many tasks.

Here may live the handlers of such requests. No rule may depend on them.
"""
