"""Tasks and flows as users see them, and the messages that carry them: pushed and reported, singly or many at once.

Here may live what producers need. Nothing here runs a task.
"""
