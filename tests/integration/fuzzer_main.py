"""Fuzzer process: python -m tests.integration.fuzzer_main URL FRAMES SEED

Throws FRAMES frames at a daemon, most of them mutants of valid messages inside sessions that the daemon has welcomed.
After each chunk it writes a line and waits for one, so that its caller can check that others are served meanwhile.
At the end it writes what it has thrown and heard, by kind, as JSON.

It works on projects named fuzz-…. A hello that wants the tasks of all projects is never thrown, because the daemon
would rightly dispatch other clients' tasks to it, and they would be lost until their leases end.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from typing import Any, Final

import msgpack
import zmq

CHUNK = 2500
SOCKETS = 3
SESSION_FRAMES = 100
"""Frames per session; a mutant may make a session useless, with a request number of 2^62 for instance."""
LEAP = 2**19
"""Distance of a session's last number from its others; twice as much would be too far."""
WELCOME_MS = 2000
"""Silence before a hello is repeated."""
HELLOS_MOST = 15
TASKIDS = [f"task{n}" for n in range(3000)]
ENVELOPE = ("type", "v", "session", "n")
PROJECTS = [f"fuzz-{n}" for n in range(4)]

ODD_VALUES: Final[list[Any]] = [
    None, True, False, 0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, -1.5, 1e300, float("nan"),
    float("inf"), "", "x", "\0", "fuzz-1", "fuzz-é", "x" * 9000, b"", b"\xff\x00", [], [None], [[[[[]]]]], {}, {"": {}},
    {"taskid": "a"}, [1, 2, 3], [2**63 - 1] * 50, msgpack.Timestamp(1, 2), msgpack.ExtType(5, b"\xff"),
]  # fmt: skip

Message = dict[str, Any]


class Session:
    """Session that the daemon has welcomed, on one of the sockets."""

    def __init__(self, name: str, socket: zmq.Socket[bytes]) -> None:
        self.name = name
        self.socket = socket
        self.n = 0
        self.seen = 0
        self.left = SESSION_FRAMES
        self.tasks: list[Message] = []

    def request(self, kind: str, **fields: Any) -> Message:
        """Make a valid message, the next of this session."""
        self.n += 1
        return {"type": kind, "v": 1, "session": self.name, "n": self.n} | fields

    def hello(self) -> Message:
        holds = [task["token"] for task in self.tasks]
        return self.request("hello", capacity=40, projects=PROJECTS, holds=holds, seen=self.seen)

    def bye(self) -> Message:
        """Make a bye for a session in any state: it has seen everything, holds nothing, and wants nothing."""
        return self.request("hello", capacity=0, projects=PROJECTS, seen=2**63 - 1) | {"n": self.n + LEAP}

    def receive(self, milliseconds: int, heard: Counter[str]) -> Iterator[Message]:
        """Receive and count messages until the socket is silent for ``milliseconds``."""
        while self.socket.poll(milliseconds):
            message = _read(self.socket.recv())
            heard[str(message.get("code", message["type"]))] += 1
            if message["type"] == "select" and message["number"] == self.seen + 1:
                self.seen += 1
                self.tasks += message["tasks"]
            yield message


class Fuzzer:
    """Fuzzer whose every step follows from its seed and the daemon's answers.

    Attributes:
        sockets: sockets of its sessions.
        thrown: number of frames by kind.
        heard: number of answers by type or error code.
    """

    def __init__(self, url: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seed = seed
        self.sockets = [self._socket(url) for _ in range(SOCKETS)]
        self._sessions: list[Session] = []
        self._begun = 0
        self._tokens: list[int] = [1]
        self._older: list[bytes] = [b"\xc0"]
        self.thrown: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()

    def throw(self) -> None:
        """Throw one frame."""
        session = self._session()
        kind, frames = self._choose(session)
        if any(_wants_everything(frame) for frame in frames):
            return
        session.socket.send_multipart(frames)
        for _ in session.receive(0, self.heard):
            pass
        session.left -= 1
        self.thrown[kind] += 1

    def settle(self) -> None:
        """Wait until the daemon has read everything that was thrown: it reads a socket's messages in order."""
        for socket in self.sockets:
            self.begin(socket)

    def begin(self, socket: zmq.Socket[bytes]) -> Session:
        """Begin a session, and wait until the daemon welcomes it.

        A mutant in which one bit of the session's name changed may have said hello in this session already, with a
        number
        that makes the next ones too old. The fuzzer then takes another session, as the protocol demands.
        """
        while True:
            self._begun += 1
            session = Session(f"session-{self._seed}-{self._begun}", socket)
            if self._is_welcomed(session, self._begun):
                return session

    def close(self) -> None:
        """Close the sockets without a ``bye``."""
        for socket in self.sockets:
            socket.close()

    def _session(self) -> Session:
        for session in self._sessions:
            if session.left <= 0:
                session.socket.send(msgpack.packb(session.bye()))
                self.thrown["hello"] += 1
        self._sessions = [session for session in self._sessions if session.left > 0]
        while len(self._sessions) < 2 * SOCKETS:
            self._sessions.append(self.begin(self.sockets[self._begun % SOCKETS]))
        return self._chance.choice(self._sessions)

    def _is_welcomed(self, session: Session, mark: int) -> bool:
        """Say hello until it is answered; return False if the daemon has obeyed a later one.

        Welcomes of other sessions of the socket may still arrive. This one is known by its mark, a token that the
        session
        claims to hold, because the daemon lists it among those that have ended.
        """
        hello = session.hello() | {"holds": [mark]}
        for _ in range(HELLOS_MOST):
            session.socket.send(msgpack.packb(hello))
            self.thrown["hello"] += 1
            for message in session.receive(WELCOME_MS, self.heard):
                if message["type"] == "welcome" and message["ended"] == [mark]:
                    return True
                if message.get("code") == "too-old" and message["n"] == hello["n"]:
                    return False
        raise AssertionError(f"{session.name} was not welcomed; heard of all: {self.heard}")

    def _choose(self, session: Session) -> tuple[str, list[bytes]]:
        dice = self._chance.random()
        if dice < 0.72:
            return "mutants", [self._mutant(session)]
        if dice < 0.92:
            return "valid", [self._remember(msgpack.packb(self._valid(session)))]
        return "noise", self._noise()

    # ------------------------------------------------------------------------------------ valid messages

    def _valid(self, session: Session) -> Message:
        project, taskid = self._chance.choice(PROJECTS), self._chance.choice(TASKIDS)
        match self._chance.choices(KINDS, WEIGHTS)[0]:
            case "hello":
                return session.hello()
            case "new-task":
                return session.request("new-task", project=project, tasks=[self._task() for _ in range(3)])
            case "done":
                return session.request("done", tasks=[self._finished(session) for _ in range(2)])
            case "extend" | "release" as kind:
                return session.request(kind, leases=[_lease(self._take(session))])
            case "project-set":
                return session.request("project-set", project=project, settings={"rate": 1e6, "retries": 2})
            case "project-unset":
                return session.request("project-unset", project=project, keys=["rate"])
            case "project-do":
                action = self._chance.choice(["pause", "resume", "stop", "start", "start", "start", "delete"])
                return session.request("project-do", project=project, action=action)
            case "task-show":
                return session.request("task-show", project=project, taskid=taskid)
            case "task-retry" | "task-cancel" as kind:
                return session.request(kind, project=project, taskids=[taskid])
            case "project-show" | "log" | "stats-history" as kind:
                return session.request(kind, project=project)
            case kind:
                return session.request(kind)

    def _task(self) -> Message:
        chance = self._chance
        schedule = {"priority": chance.randrange(9), "retries": 1, "delay": 0.01, "age": 5.0, "itag": "v1"}
        chosen = {key: schedule[key] for key in chance.sample(sorted(schedule), 2)}
        chosen |= {"force_update": True, "cancel": chance.random() < 0.2} if chance.random() < 0.4 else {}
        return {"taskid": chance.choice(TASKIDS), "url": "http://site/", "schedule": chosen, "body": {"save": [1, "x"]}}

    def _finished(self, session: Session) -> Message:
        task = self._take(session)
        item = {"project": task["project"], "taskid": task["taskid"], "token": task["token"]}
        return item | self._chance.choice([{}, {"ok": False, "error": "no"}, {"new": [self._task()]}])

    def _take(self, session: Session) -> Message:
        """Make a message about a task that the session holds, or would like to hold."""
        if session.tasks and self._chance.random() < 0.9:
            task = session.tasks.pop(self._chance.randrange(len(session.tasks)))
            self._tokens = [*self._tokens[-200:], task["token"]]
            return task
        return {"project": "fuzz-0", "taskid": "task0", "token": self._chance.choice(self._tokens)}

    # ------------------------------------------------------------------------------------ mutants

    def _mutant(self, session: Session) -> bytes:
        # A copy: a message shares values with others, which must stay whole.
        message = deepcopy(self._valid(session))
        if self._chance.random() < 0.6:
            for _ in range(self._chance.randint(1, 2)):
                self._chance.choice(FIELD_MUTATIONS)(self, message)
            return self._remember(msgpack.packb(message))
        return self._remember(self._chance.choice(BYTE_MUTATIONS)(self, msgpack.packb(message)))

    def _remember(self, frame: bytes) -> bytes:
        self._older = [*self._older[-100:], frame]
        return frame

    def _odd_field(self, message: Message) -> None:
        place, key = self._place(message)
        place[key] = deepcopy(self._chance.choice(ODD_VALUES))

    def _no_field(self, message: Message) -> None:
        place, key = self._place(message)
        del place[key]

    def _more_fields(self, message: Message) -> None:
        key = self._chance.choice(["project", "tasks", "tokens", "taskids", "x", "capacity", "settings"])
        message[key] = deepcopy(self._chance.choice(ODD_VALUES))

    def _swapped_fields(self, message: Message) -> None:
        first, second = self._chance.choices(sorted(message), k=2)
        message[first], message[second] = message[second], message[first]

    def _other_kind(self, message: Message) -> None:
        message["type"] = self._chance.choice(KINDS)

    def _other_number(self, message: Message) -> None:
        n = message.get("n")
        last = n if isinstance(n, int) and 0 < n < 2**60 else 1
        message["n"] = last + self._chance.choice([0, -1, -63, -64, -65, 1, 2, 63, 64, 2**61])

    def _other_session(self, message: Message) -> None:
        message["session"] = self._chance.choice([*(session.name for session in self._sessions), "ghost"])

    def _other_token(self, message: Message) -> None:
        token = self._chance.choice(self._tokens) + self._chance.choice([0, 0, 1, -1, 1 << 44])
        message["holds"] = [token, token]
        message["tasks"] = [{"project": "fuzz-0", "taskid": self._chance.choice(TASKIDS), "token": token}] * 2

    def _nested(self, message: Message) -> None:
        deep: Any = []
        for _ in range(self._chance.choice([3, 100, 400])):
            deep = [deep] if self._chance.random() < 0.5 else {"body": deep}
        place, key = self._place(message)
        place[key] = deep

    def _place(self, message: Message) -> tuple[Any, Any]:
        """Choose a place in the message, mostly deep: a map or list, with one of its keys or indices."""
        place: Any = message
        keys: list[Any] = [key for key in sorted(message) if key not in ENVELOPE]
        if not keys or self._chance.random() < 0.2:
            keys = sorted(message)
        while True:
            key = self._chance.choice(keys)
            inside = place[key]
            if not isinstance(inside, dict | list) or not inside or self._chance.random() < 0.15:
                return place, key
            place = inside
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))

    def _flipped(self, frame: bytes) -> bytes:
        flipped = bytearray(frame)
        for _ in range(self._chance.randint(1, 4)):
            flipped[self._chance.randrange(len(flipped))] ^= 1 << self._chance.randrange(8)
        return bytes(flipped)

    def _truncated(self, frame: bytes) -> bytes:
        return frame[: self._chance.randrange(len(frame))]

    def _longer(self, frame: bytes) -> bytes:
        return frame + self._chance.randbytes(self._chance.randint(1, 9))

    def _spliced(self, frame: bytes) -> bytes:
        other = self._chance.choice(self._older)
        return frame[: self._chance.randrange(len(frame))] + other[self._chance.randrange(len(other) + 1) :]

    def _repeated(self, frame: bytes) -> bytes:
        return self._chance.choice(self._older)

    # ------------------------------------------------------------------------------------ noise

    def _noise(self) -> list[bytes]:
        chance = self._chance
        match chance.randrange(4):
            case 0:
                return [b""]
            case 1:
                return [chance.randbytes(chance.randrange(200))]
            case 2:
                return [chance.choice(self._older) for _ in range(chance.randint(2, 5))]
            case _:
                # Lengths of arrays, maps and strings without contents.
                return [
                    chance.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc9"]) + b"\xff\xff\xff\xff" * chance.randint(1, 9)
                ]

    def _socket(self, url: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(url)
        return socket


FREQUENCIES: Final = {
    "hello": 10, "new-task": 30, "done": 30, "extend": 5, "release": 5, "project-show": 2, "project-set": 3,
    "project-unset": 2, "project-do": 1, "task-show": 3, "task-retry": 3, "task-cancel": 3, "status": 1, "log": 1,
    "stats-history": 1, "daemon-history": 1, "verify": 0.1,
}  # fmt: skip
KINDS: Final = list(FREQUENCIES)
WEIGHTS: Final = list(FREQUENCIES.values())

FIELD_MUTATIONS: Final[list[Callable[[Fuzzer, Message], None]]] = [
    Fuzzer._odd_field, Fuzzer._odd_field, Fuzzer._odd_field, Fuzzer._no_field, Fuzzer._more_fields,
    Fuzzer._swapped_fields, Fuzzer._other_kind, Fuzzer._other_number, Fuzzer._other_session, Fuzzer._other_token,
    Fuzzer._nested,
]  # fmt: skip
BYTE_MUTATIONS: Final[list[Callable[[Fuzzer, bytes], bytes]]] = [
    Fuzzer._flipped, Fuzzer._flipped, Fuzzer._truncated, Fuzzer._longer, Fuzzer._spliced, Fuzzer._repeated,
]  # fmt: skip


def _lease(task: Message) -> Message:
    return {key: task[key] for key in ("project", "taskid", "token")}


def _read(frame: bytes) -> Message:
    """Decode a message; type ``unreadable`` if a mutant's body, returned unchanged, is too much for this decoder."""
    try:
        return dict(msgpack.unpackb(frame, strict_map_key=False, unicode_errors="surrogateescape"))
    except (ValueError, TypeError):
        return {"type": "unreadable"}


def _wants_everything(frame: bytes) -> bool:
    """Whether the frame is, or may be, a hello without projects."""
    if b"hello" not in frame:
        return False
    try:
        message = msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError):
        return b"fuzz-" not in frame
    return isinstance(message, dict) and not message.get("projects")


def main(url: str, frames: int, seed: int) -> None:
    with closing(Fuzzer(url, seed)) as fuzzer:
        for _ in range(0, frames, CHUNK):
            until = fuzzer.thrown.total() + CHUNK
            while fuzzer.thrown.total() < until:
                fuzzer.throw()
            print("chunk", flush=True)
            sys.stdin.readline()
        fuzzer.settle()
    print(json.dumps({"thrown": fuzzer.thrown, "heard": fuzzer.heard}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
