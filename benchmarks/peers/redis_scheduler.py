"""Redis in the contest, with about the work of a scheduler, in three Lua scripts over a pipelined socket.

    push   new ones get a state, a body and a place in ready or delayed      N tasks a script
    take   what is due and what has expired comes back; a bucket is asked;   one script
           the first of ready get a lease and a token
    done   tokens are checked; what is done keeps its state for ever         N tasks a script

    states     taskid → "p:score", "l:token:score" while it is leased, "s:time" for ever    a hash
    ready      by priority, then time; leases: by deadline; delayed: by time                sorted sets
    kept:NAME  number of a request → its outcomes, for a request that comes again           a hash, the last KEPT
    counts     pending, processing, success                                                 a hash
    bucket     what is left of the project's pace, and since when                           a hash

The setting is ``appendfsync``: ``always`` syncs before it answers, ``everysec`` every second. After each round the
server has to prove all this (``prove``).
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

from benchmarks.contest import WINDOW, Load, Made
from benchmarks.peers import redis
from benchmarks.peers.redis import COMMAND, EMPTY_SECONDS, LEASE_SECONDS, Connection, packed
from benchmarks.peers.service import Service, connect

PRODUCER: Final = b"producer"
FETCHER: Final = b"fetcher"
RATE: Final = 1_000_000_000
"""Rate of the bucket in tasks a second, and its burst: it is asked, and never empty."""
KEPT: Final = 1000
"""Requests of a session whose outcomes are stored."""

BEGIN: Final = (
    b"""
local function keep(session, number, outcomes)
  redis.call('HSET', 'kept:' .. session, number, cmsgpack.pack(outcomes))
  redis.call('HDEL', 'kept:' .. session, number - %d)
  return outcomes
end
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
"""
    % KEPT
)

AGAIN: Final = b"""
local kept = redis.call('HGET', 'kept:' .. ARGV[1], ARGV[2])
if kept then return cmsgpack.unpack(kept) end
"""

PUSH: Final = (
    BEGIN
    + AGAIN
    + b"""
local ids = {}
for at = 3, #ARGV, 4 do ids[#ids + 1] = ARGV[at] end
local known = redis.call('HMGET', 'states', unpack(ids))
local outcomes, seen, states, bodies, ready, delayed = {}, {}, {}, {}, {}, {}
for k, id in ipairs(ids) do
  if known[k] or seen[id] then
    outcomes[k] = 0
  else
    outcomes[k] = 1
    seen[id] = true
    local due = tonumber(ARGV[4 * k + 1])
    local score = string.format('%.0f', 1000 * math.max(due, now) - ARGV[4 * k] * 2^40)
    local n = #states
    states[n + 1], states[n + 2] = id, 'p:' .. score
    bodies[n + 1], bodies[n + 2] = id, ARGV[4 * k + 2]
    if due > now then
      delayed[#delayed + 1] = due
      delayed[#delayed + 1] = id
    else
      ready[#ready + 1] = score
      ready[#ready + 1] = id
    end
  end
end
if #states > 0 then
  redis.call('HSET', 'states', unpack(states))
  redis.call('HSET', 'bodies', unpack(bodies))
  redis.call('HINCRBY', 'counts', 'pending', #states / 2)
end
if #ready > 0 then redis.call('ZADD', 'ready', unpack(ready)) end
if #delayed > 0 then redis.call('ZADD', 'delayed', unpack(delayed)) end
return keep(ARGV[1], ARGV[2], outcomes)
"""
)

TAKE: Final = (
    BEGIN
    + b"""
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'delayed', '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZADD', 'ready', string.match(redis.call('HGET', 'states', id), ':([^:]*)$'), id)
  redis.call('ZREM', 'delayed', id)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'leases', '-inf', now, 'LIMIT', 0, 1000)) do
  local score = string.match(redis.call('HGET', 'states', id), ':([^:]*)$')
  redis.call('HSET', 'states', id, 'p:' .. score)
  redis.call('ZADD', 'ready', score, id)
  redis.call('ZREM', 'leases', id)
  redis.call('HINCRBY', 'counts', 'processing', -1)
  redis.call('HINCRBY', 'counts', 'pending', 1)
end
local rate = tonumber(ARGV[2])
local bucket = redis.call('HMGET', 'bucket', 'left', 'at')
local left = math.min(rate, (bucket[1] or rate) + (now - (bucket[2] or now)) * rate)
local got = redis.call('ZPOPMIN', 'ready', math.min(ARGV[1], math.floor(left)))
local n = #got / 2
if n == 0 then return {} end
redis.call('HSET', 'bucket', 'left', left - n, 'at', now)
local last = redis.call('INCRBY', 'token', n)
local ids, tokens, states, leases = {}, {}, {}, {}
for k = 1, n do
  local id, token = got[2 * k - 1], string.format('%d', last - n + k)
  ids[k], tokens[k] = id, token
  states[2 * k - 1], states[2 * k] = id, 'l:' .. token .. ':' .. got[2 * k]
  leases[2 * k - 1], leases[2 * k] = now + ARGV[3], id
end
redis.call('HSET', 'states', unpack(states))
redis.call('ZADD', 'leases', unpack(leases))
redis.call('HINCRBY', 'counts', 'pending', -n)
redis.call('HINCRBY', 'counts', 'processing', n)
return {ids, tokens, redis.call('HMGET', 'bodies', unpack(ids))}
"""
)

DONE: Final = (
    BEGIN
    + AGAIN
    + b"""
local ids = {}
for at = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
local held = redis.call('HMGET', 'states', unpack(ids))
local outcomes, seen, states, over = {}, {}, {}, {}
local state = 's:' .. string.format('%.3f', now)
for k, id in ipairs(ids) do
  local lease = 'l:' .. ARGV[2 * k + 2] .. ':'
  if held[k] and not seen[id] and string.sub(held[k], 1, #lease) == lease then
    outcomes[k] = 1
    seen[id] = true
    over[#over + 1] = id
    states[2 * #over - 1], states[2 * #over] = id, state
  else
    outcomes[k] = 0
  end
end
if #over > 0 then
  redis.call('HSET', 'states', unpack(states))
  redis.call('HDEL', 'bodies', unpack(over))
  redis.call('ZREM', 'leases', unpack(over))
  redis.call('HINCRBY', 'counts', 'processing', -#over)
  redis.call('HINCRBY', 'counts', 'success', #over)
end
return keep(ARGV[1], ARGV[2], outcomes)
"""
)


class RedisScheduler(Service):
    """Server process of Redis with the scheduler's scripts."""

    def check(self, load: Load) -> None:
        with connect(self.address) as sock:
            connection = Connection(sock)
            sizes = [connection.ask(*words.split()) for words in (b"ZCARD ready", b"ZCARD leases", b"HLEN states")]
            counts = connection.ask(b"HMGET", b"counts", b"pending", b"processing", b"success")
            if sizes != [0, 0, load.tasks] or counts != [b"0", b"0", b"%d" % load.tasks]:
                raise SystemExit(f"redis counts {counts}, and has {sizes}")
            prove(connection)


def unavailable() -> str:
    return redis.unavailable()


def serve(setting: str, core: str) -> RedisScheduler:
    return RedisScheduler([*COMMAND, "--appendfsync", setting], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    accepted = ahead = 0
    with connect(address) as sock:
        connection = Connection(sock)
        push = connection.load(PUSH)
        batches = deque(pushing(push, n, batch) for n, batch in enumerate(load.made(), 1))
        began_at = time.time()
        while batches or ahead:
            while batches and ahead < WINDOW:
                connection.send_packed(batches.popleft())
                ahead += 1
            accepted += sum(connection.receive())
            ahead -= 1
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "accepted": accepted}


def pushing(script: bytes, n: int, batch: list[Made]) -> bytes:
    """Make the request that pushes these tasks, due at once."""
    tasks = [part for made in batch for part in (made.taskid.encode(), b"0", b"0", made.url.encode() + made.body)]
    return packed(b"EVALSHA", script, b"0", PRODUCER, b"%d" % n, *tasks)


def fetch(address: str, load: Load) -> dict[str, Any]:
    """Take and finish all, with WINDOW requests for tasks in flight; report each answer as done."""
    taken: list[bytes] = []
    finished = n = 0
    with connect(address) as sock:
        connection = Connection(sock)
        take, done = connection.load(TAKE), connection.load(DONE)
        ask = packed(b"EVALSHA", take, b"0", b"%d" % load.batch, b"%d" % RATE, b"%d" % LEASE_SECONDS)
        asked = deque([True] * WINDOW)
        began_at = time.time()
        connection.send_packed(ask * WINDOW)
        while finished < load.tasks:
            reply = connection.receive()
            if not asked.popleft():
                finished += sum(reply)
                continue
            if reply:
                ids, tokens, bodies = reply
                assert len(ids) == len(bodies)
                taken += ids
                n += 1
                pairs = [part for pair in zip(ids, tokens, strict=True) for part in pair]
                connection.send_packed(packed(b"EVALSHA", done, b"0", FETCHER, b"%d" % n, *pairs) + ask)
                asked += (False, True)
            else:
                time.sleep(EMPTY_SECONDS)
                connection.send_packed(ask)
                asked.append(True)
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "finished": finished, "distinct": len(set(taken))}


# ------------------------------------------------------------------------------------------------ its claims


def prove(connection: Connection) -> None:
    """Check that it does what a scheduler does.

    Raises:
        SystemExit: it does not.
    """
    push, take, done = (Script(connection, source) for source in (PUSH, TAKE, DONE))
    later = b"%d" % (time.time() + LEASE_SECONDS)
    pushed = [b"low", b"0", b"0", b"a", b"high", b"7", b"0", b"b", b"low", b"9", b"0", b"c", b"late", b"9", later, b"d"]
    first = push.run(b"prover", b"1", *pushed)
    again = push.run(b"prover", b"1", *pushed)
    known = push.run(b"prover", b"2", *pushed)
    expect("pushes of new ones, of the same request, of known ones", [first, again, known], [NEW, NEW, [0, 0, 0, 0]])
    none = take.run(b"10", b"0.5", b"600")
    ids, tokens, bodies = take.run(b"10", b"%d" % RATE, b"0")
    expect("taken without pace, and with", [none, ids, bodies], [[], [b"high", b"low"], [b"b", b"a"]])
    ids, (high, low), _ = take.run(b"10", b"%d" % RATE, b"600")
    expect("taken when leases have expired", ids, [b"high", b"low"])
    late = done.run(b"prover", b"3", b"high", tokens[0], b"low", low)
    again = done.run(b"prover", b"3", b"high", tokens[0], b"low", low)
    other = done.run(b"prover", b"4", b"high", high, b"low", low)
    expect("reports with an old token, again, and with the right one", [late, again, other], [[0, 1], [0, 1], [1, 0]])
    known = push.run(b"prover", b"5", *pushed)
    expect("pushes of what is done", known, [0, 0, 0, 0])


NEW: Final = [1, 1, 0, 1]


class Script:
    """Script loaded through a connection."""

    def __init__(self, connection: Connection, source: bytes) -> None:
        self._connection = connection
        self._sha = connection.load(source)

    def run(self, *arguments: bytes) -> Any:
        """Run the script; return its result."""
        return self._connection.ask(b"EVALSHA", self._sha, b"0", *arguments)


def expect(what: str, seen: Any, expected: Any) -> None:
    """Compare a result with the expected one.

    Raises:
        SystemExit: they differ.
    """
    if seen != expected:
        raise SystemExit(f"redis: {what}: {seen} instead of {expected}")
