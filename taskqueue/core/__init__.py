"""The scheduler's decisions, and nothing else: (now, requests, found) in; writes, replies and events out.

Here may live what turns values into values: no clock, I/O, thread, random or global. Its layers, each of which may
import those before it:

    model       values with their invariants
    state, turn_state, request_rule
    moves       verbs that several rules use
    requests    have REQUESTS: rules that answer requests
    steps       have ``need`` and ``step``: work that goes on over several turns
    request_rules, step_rules < timers, lookups < startup, answers, turn_result < turn < scheduler
"""
