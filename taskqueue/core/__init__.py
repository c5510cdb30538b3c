"""The scheduler's decisions, and nothing else: given (now, requests, found) it says what to keep and what to say.

Here may live what turns values into values: no clock, I/O, thread, random or global. Its layers, each of which may
import those before it:

    model       values with their invariants
    state, turn_state, request_rule
    moves       verbs that several rules use
    requests    have REQUESTS: what a request leads to at once
    steps       have ``need`` and ``step``: what a turn goes on with
    request_rules, step_rules < timers, lookups < startup, answers, turn_result < turn < scheduler
"""
