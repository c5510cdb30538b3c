"""The scheduler's decisions, and nothing else: given (now, requests, found) it says what to keep and what to say.

Here may live what turns values into values: no clock, I/O, thread, random or global. Its layers, each of which may
import those before it:

    settings < parts < tasks < projects < state < turn_state < request_rule < rules < admin < request_rules
        < timers, lookups < startup, answers < turn < scheduler
"""
