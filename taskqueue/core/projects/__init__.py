"""What has tasks or wants them: projects, sessions, operations, and the sums and queues over all of them.

Here may live one thing's values and its arithmetic; what one of them does to another is a rule.
"""
