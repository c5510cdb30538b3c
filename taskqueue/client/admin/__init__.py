"""What a client asks on behalf of people: projects, tasks, operations, history.

Here may live one method a request, and what waits for its answer.
"""
