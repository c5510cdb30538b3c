"""What happens: a task is pushed, handed out, comes back; a project is made, a slot waits, an answer is given.

Here may live verbs over the state that several rules use, or the turn itself. None has REQUESTS: who asked is known in
``requests``.
"""
