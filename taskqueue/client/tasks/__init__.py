"""Tasks and flows as users see them, and the messages that bring them: pushed and reported, one by one or many at once.

Here may live what producers need. Nothing here runs a task.
"""
