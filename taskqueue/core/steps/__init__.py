"""What goes on for several turns, a bounded step in each: ``need`` says what to look up, ``step`` takes the step.

Here may live such work, with the requests that begin it and its answers to those that waited for it; so steps are above
requests. What is done in one turn is in ``moves``.
"""
