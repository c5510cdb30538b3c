"""The scheduler's decisions, and nothing else: given (now, requests, found) it says what to keep and what to say.

No clock, I/O, thread, random or global lives below this folder. Its layers, each of which may import those before it:

    settings < parts < tasks < projects < state < rules < admin < timers, lookups < startup < scheduler
"""
