"""Work that takes several turns, a bounded step in each: ``need`` says what to look up, ``step`` takes the step.

Here may live this work with the requests that begin it and the replies to those that wait for it; so steps are above
requests. Work of a single turn is in ``moves``.
"""
