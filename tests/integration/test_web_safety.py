"""A real web process beside hostile peers: by their bytes, their slowness, their number.

shut    beside a daemon with keys, as `taskqueue web start --key FILE` starts it
open    on loopback beside a daemon without keys, with short timeouts and few connections
full    with keys and a trusted proxy, the usual number of connections, any of which may be closed for another
"""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest

from taskqueue.access import access_file
from taskqueue.protocol.callers import Role
from taskqueue.web.access.admission import LONG_OF_ONE
from taskqueue.web.options import Patience
from tests.attack.page import fuzz
from tests.integration.conftest import ROOT, WAIT_SECONDS, Daemon, Peer
from tests.integration.http_interface import Keyed
from tests.integration.nursery import Forked

CONNECTIONS = 520
"""Connections of the open process."""

STREAMS = 500

ENTRY = """
import sys
from taskqueue.web.main import run
from taskqueue.web.options import Patience, WebOptions
patience = Patience(connections=%d, of_one_address=%d, head_seconds=0.4, idle_seconds=0.4, unread_seconds=0.4,
    look_seconds=0.1)
sys.exit(run(WebOptions(sys.argv[1], port=0, patience=patience), False))
""" % (CONNECTIONS, CONNECTIONS)  # noqa: UP031  braces are Python's here

FULL_ENTRY = """
import sys
from ipaddress import ip_network
from pathlib import Path
from taskqueue.web.main import run
from taskqueue.web.options import AccessOptions, Patience, WebOptions
access = AccessOptions(proxies=(ip_network("127.0.0.9"),))
patience = Patience(head_seconds=1e9, idle_seconds=1e9, look_seconds=1e9, fresh_seconds=0.0)
key = Path(sys.argv[2])
sys.exit(run(WebOptions(sys.argv[1], port=0, access=access, patience=patience, key=key), False))
"""
"""Program in which no connection ends by itself."""

USUAL = Patience()

LONG_FIELD = b"x" * 70_000


class Web:
    """Web process.

    Attributes:
        port: port on loopback.
        host: ``Host`` as browsers send it.
    """

    def __init__(self, folder: Path, keyed: Keyed | None, *command: str) -> None:
        self._keyed = keyed
        self.log_file = folder / "web.log"
        with self.log_file.open("w") as log:
            self.process = Forked[str](command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        line = daemon_line(self.log_file, "shows the daemon at")
        self.port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/", line)[0])
        self.host = f"127.0.0.1:{self.port}"

    def token(self, name: str, role: Role) -> str:
        """Authorise a token."""
        assert self._keyed is not None
        return self._keyed.token(name, role)

    @property
    def path(self) -> Path:
        """Access file of its daemon."""
        assert self._keyed is not None
        return self._keyed.path

    def log(self) -> str:
        """Output of the process so far."""
        return self.log_file.read_text()

    @contextmanager
    def connected(self, host: str = "127.0.0.1") -> Iterator[socket.socket]:
        """Connect, from this address of this machine."""
        there, here = ("127.0.0.1", self.port), (host, 0)
        with socket.create_connection(there, timeout=WAIT_SECONDS, source_address=here) as peer:
            yield peer

    def told(self, request: bytes) -> bytes:
        """Return the answer to these bytes until the server ends the connection; this side leaves it open."""
        with self.connected() as peer:
            peer.sendall(request)
            return read_all(peer)

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
        """Return an answer, with its body in ``body``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request(method, path, body or None, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        answer.body = answer.read()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def status(self, method: str, path: str, body: str = "", **headers: str) -> int:
        """Return the status of an answer."""
        return self.ask(method, path, body, **headers).status


def daemon_line(path: Path, text: str) -> str:
    """Wait for a line of a log with this text; return the first."""
    command = ["timeout", str(WAIT_SECONDS), "tail", "-n", "+1", "-F", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tail:
        assert tail.stdout is not None
        line = next((line for line in tail.stdout if text in line), "")
        tail.kill()
    assert line, path.read_text()
    return line


def read_all(peer: socket.socket) -> bytes:
    """Read until the other side has ended."""
    parts = []
    try:
        while part := peer.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    """Return the status of the first response."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Daemon of this module."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    yield daemon
    daemon.kill()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """Daemon with keys of this module."""
    folder = tmp_path_factory.mktemp("keyed")
    it = Keyed(Daemon(folder), folder)
    it.daemon.start()
    yield it
    it.daemon.kill()


@pytest.fixture(scope="module")
def shut(keyed: Keyed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Web process that demands tokens."""
    folder, url, key = tmp_path_factory.mktemp("shut"), keyed.daemon.url, str(keyed.key_file("web1", "web"))
    command = [sys.executable, "-m", "taskqueue", "web", "start", "--daemon", url, "--bind", "127.0.0.1:0"]
    web = Web(folder, keyed, *command, "--key", key, "--host", "tasks.example")
    yield web
    web.process.kill()
    web.process.communicate()


@pytest.fixture(scope="module")
def opened(running: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Web process without tokens, with short timeouts."""
    folder = tmp_path_factory.mktemp("open")
    web = Web(folder, None, sys.executable, "-c", ENTRY, running.url)
    yield web
    web.process.kill()
    web.process.communicate()


@pytest.fixture(scope="module")
def full(keyed: Keyed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Web process that is going to be full, with room for as many connections in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * USUAL.connections)), hard))
    folder, key = tmp_path_factory.mktemp("full"), str(keyed.key_file("web2", "web"))
    web = Web(folder, keyed, sys.executable, "-c", FULL_ENTRY, keyed.daemon.url, key)
    yield web
    web.process.kill()
    web.process.communicate()


# ------------------------------------------------------------------------------------------------ bytes


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example:80"])
def test_a_name_that_was_rebound_to_this_machine_is_refused(opened: Web, host: str) -> None:
    assert opened.status("GET", "/daemon", Host=host) == 421


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /daemon HTTP/1.1\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /daemon HTTP/1.0\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\n folded: yes\r\nBad Name: x\r\n\r\n",
        b"GET /\x1b[31m HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\nX: " + LONG_FIELD + b"\r\n\r\n",
        b"GET /" + LONG_FIELD + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /daemon HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /daemon HTTP/1.1\nHost: localhost\n\n",
        b"GET http://evil.example/daemon HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 4000 + b"\r\n",
    ],
    ids=range(15),
)
def test_what_is_no_request_is_refused(opened: Web, request_line: bytes) -> None:
    assert status_of(opened.told(request_line)) in (400, 414, 431)


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        b"Content-Length: 6\r\nContent-Length: 7\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: +6\r\n",
        b"Content-Length: 6, 6, 7\r\n",
        b"Content-Length: 6\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n",
    ],
    ids=bytes.decode,
)
def test_a_second_request_is_never_smuggled_in_behind_a_first(opened: Web, lengths: bytes) -> None:
    first = b"POST /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + lengths
    answer = opened.told(first + b"\r\n0\r\n\r\nGET /daemon HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert answer.count(b"HTTP/1.1 ") == 1
    assert status_of(answer) in (400, 501)


PUSHED = (
    b"POST /api/v1/projects/news/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
LINE = b'{"url": "http://site/"}\n'


@pytest.mark.parametrize("before", [b"", b"%x\r\n%b\r\n" % (len(LINE), LINE)], ids=["at once", "after an outcome"])
def test_a_body_that_stops_being_one_ends_the_connection_and_is_no_bug(opened: Web, before: bytes) -> None:
    opened.status("POST", "/api/v1/projects/news/start", "{}", Content_Type="application/json")
    with opened.connected() as peer:
        peer.sendall(PUSHED + before)
        answer = peer.recv(4096) if before else b""
        peer.sendall(b"no size of a chunk\r\n")
        answer += read_all(peer)

    assert status_of(answer) == (200 if before else 400)
    assert opened.status("GET", "/daemon") == 200
    assert "Traceback" not in opened.log()


@pytest.mark.parametrize(
    "chunks",
    [
        b"1000000000000000000\r\n{}",
        b"0\r\n\nGET /daemon HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"0\r\nX: y\r\n\r\nGET /daemon HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"2;" + LONG_FIELD + b"\r\n{}\r\n0\r\n\r\n",
    ],
    ids=range(4),
)
def test_chunks_that_end_elsewhere_for_others_are_refused(opened: Web, chunks: bytes) -> None:
    first = b"POST /api/v1/projects/news/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = opened.told(first + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert status_of(answer) == 400


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_another_protocol_is_not_begun(opened: Web, protocol: bytes) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: " + protocol
    answer = opened.told(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n\r\n")

    assert status_of(answer) == 200


def test_what_comes_behind_a_response_or_never_leaves_no_trace_in_the_log(opened: Web, shut: Web) -> None:
    ended = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n"
    answered = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    begun = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    for web in (opened, shut):
        web.told(ended)
        with web.connected() as peer:
            peer.sendall(answered)
            assert status_of(peer.recv(4096)) == 200
            peer.sendall(b"z\r\n")
            read_all(peer)
        with web.connected() as peer:
            peer.sendall(begun + b"Content-Length: 9\r\n\r\nt")
        assert web.status("GET", "/login") in (200, 303)

        assert "Traceback" not in web.log()


def test_random_bytes_end_nothing_and_leave_no_trace_in_the_log(shut: Web) -> None:
    secret = shut.token("gus", "viewer")

    assert fuzz(shut.port, secret, shut.log_file, attempts=150, seed=1) == 0


def test_a_forwarding_header_of_anybody_does_not_say_where_he_is(opened: Web, shut: Web) -> None:
    assert opened.status("GET", "/daemon", X_Forwarded_For="127.0.0.1") == 403
    assert shut.status("GET", "/daemon", X_Forwarded_For="127.0.0.1", X_Forwarded_User="root") == 401


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1", "file://"])
def test_a_page_of_another_site_changes_nothing(opened: Web, origin: str) -> None:
    kind = "application/json"
    statuses = {
        opened.status("POST", path, "{}", Origin=origin, Content_Type=kind)
        for path in ("/api/v1/projects/news/pause", "/api/v1/projects/news/tasks", "/logout")
    }

    assert statuses <= {403, 415}


def test_a_page_of_ours_that_does_not_show_its_token_changes_nothing(opened: Web) -> None:
    said = {"Origin": f"http://{opened.host}", "Content_Type": "application/json"}

    assert opened.status("POST", "/api/v1/projects/news/pause", "{}", **said) == 403


def test_nothing_is_allowed_to_other_sites(opened: Web) -> None:
    asked = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    answer = opened.ask("OPTIONS", "/api/v1/projects/news/pause", **asked)
    assert not [name for name in answer.headers if name.lower().startswith("access-control-allow")]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../main.py",
        "/static/%2e%2e/main.py",
        "/static/..%2fmain.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\main.py",
        "/static/base.css%00.html",
        "/static/",
        "/static",
        "/static/" + "a" * 5000,
    ],
)
def test_only_the_files_of_the_page_are_sent(opened: Web, path: str) -> None:
    answer = opened.told(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert status_of(answer) in (307, 404, 405)
    assert b"root:" not in answer
    assert b"import" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/projects/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/fetchers/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/projects/a%0d%0aSet-Cookie:%20x=y",
        "/login?next=%0d%0aSet-Cookie:%20x=y",
        "/fetchers?sort=%22%3E%3Cscript%3E&filter=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/flows?project=%3Cscript%3E",
        "/log?project=%3Cscript%3E&before=%3Cscript%3E",
        "/nothing/%3Cscript%3E",
        "/%1b%5b31m",
        "/fetchers/%E2%80%AEevil",
        "/fetchers/%ff%fe",
    ],
)
def test_what_is_in_an_address_puts_nothing_into_a_page(opened: Web, path: str) -> None:
    answer = opened.ask("GET", path, Accept="text/html")
    page: bytes = answer.body  # type: ignore[attr-defined]

    assert answer.status < 500
    assert not re.search(rb"<script(?! (type=\"module\" )?src=\"/static/)|<img|\x1b|\xe2\x80\xae", page)
    assert "x=y" not in str(answer.headers)


def test_a_log_line_of_the_process_is_visible_whatever_was_asked(opened: Web) -> None:
    opened.ask("GET", "/%1b%5b31m%0aweb-bug%20forged")
    opened.told(b"GET / HTTP/1.1\r\nHost: \x1b[31mevil\r\n\r\n")

    assert "\x1b" not in opened.log()
    assert "forged" not in opened.log()


# ------------------------------------------------------------------------------------------------ users


def sign_in(web: Web, secret: str) -> str:
    """Sign in with a token; return the browser's cookie."""
    page = web.ask("GET", "/login")
    csrf = re.findall(rb'name="csrf" value="(\w+)"', page.body)[0].decode()  # type: ignore[attr-defined]
    form = urlencode({"csrf": csrf, "token": secret, "next": "/daemon"})
    nonce = page.headers["Set-Cookie"].split(";")[0]
    said = {"Origin": f"http://{web.host}", "Content_Type": "application/x-www-form-urlencoded", "Cookie": nonce}
    answer = web.ask("POST", "/login", form, **said)
    assert answer.status == 303
    cookie = next(each for each in answer.headers.get_all("Set-Cookie", []) if "-login=" not in each)
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    return cookie.split(";")[0]


def until(web: Web, status: int, **headers: str) -> None:
    """Ask for a page until the answer has this status: the daemon notices a change of its access file by itself."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := web.status("GET", "/daemon", **headers)) != status:
        assert time.monotonic() < deadline, found


def test_nobody_sees_anything_before_he_has_shown_a_token(shut: Web) -> None:
    for path in ("/daemon", "/live/daemon", "/fetchers", "/log", "/flows"):
        assert shut.status("GET", path) == 401
    assert shut.ask("GET", "/daemon", Accept="text/html").headers["Location"] == "/login?next=%2Fdaemon"
    assert shut.status("GET", "/daemon", Authorization="Bearer tq_guessed") == 401
    assert shut.status("GET", "/daemon", Cookie="taskqueue-1=guessed") == 401


def test_a_session_ends_when_its_token_is_removed(shut: Web) -> None:
    cookie = sign_in(shut, shut.token("anna", "admin"))
    assert shut.status("GET", "/daemon", Cookie=cookie) == 200
    access_file.revoke(shut.path, "anna")

    until(shut, 401, Cookie=cookie)


def test_a_stream_of_a_browser_ends_when_its_token_is_removed(shut: Web) -> None:
    cookie = sign_in(shut, shut.token("dora", "viewer"))
    with ExitStack() as stack:
        peer, _ = stream_of(shut, stack, Cookie=cookie)
        begun = b""
        while b"event: change" not in begun:
            begun += peer.recv(65_536)
        access_file.revoke(shut.path, "dora")
        rest = begun
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            part = peer.recv(65_536)
            assert part
            rest += part


def test_a_session_ends_when_its_token_is_over(shut: Web) -> None:
    cookie = sign_in(shut, shut.token("brief", "admin"))
    written = json.loads(shut.path.read_text())
    next(each for each in written["keys"] if each["name"] == "brief")["expires_at"] = 1.0
    shut.path.write_text(json.dumps(written))

    until(shut, 401, Cookie=cookie)


def test_an_access_file_that_others_may_read_lets_no_token_in(shut: Web) -> None:
    secret = shut.token("carl", "admin")
    until(shut, 200, Authorization=f"Bearer {secret}")
    shut.path.chmod(0o644)
    until(shut, 401, Authorization=f"Bearer {secret}")
    shut.path.chmod(0o600)

    until(shut, 200, Authorization=f"Bearer {secret}")


# ------------------------------------------------------------------------------------------------ slowness


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /dae",
        b"GET /daemon HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Content-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "line", "head", "body"],
)
def test_whoever_does_not_go_on_is_cut(opened: Web, begun: bytes) -> None:
    assert status_of(opened.told(begun)) in (0, 404)


def test_whoever_sends_a_head_byte_by_byte_is_cut(opened: Web) -> None:
    with opened.connected() as peer:
        peer.sendall(b"GET /daemon HTTP/1.1\r\nHost: localhost\r\nX: ")
        peer.settimeout(0.05)
        sent = 0
        try:
            while True:
                try:
                    assert peer.recv(1) == b""
                    break
                except TimeoutError:
                    peer.sendall(b"x")
                    sent += 1
        except (ConnectionResetError, BrokenPipeError):
            pass

    assert sent < 200


def unread_by(web: Web, asked: int) -> bool:
    """Whether a client is cut that requests a file ``asked`` times and reads nothing."""
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", web.port))
        peer.settimeout(1.0)
        with suppress(TimeoutError, ConnectionResetError, BrokenPipeError):
            peer.sendall(b"GET /static/base.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * asked)
        ended = select.poll()
        ended.register(peer, 0)
        return bool(ended.poll(WAIT_SECONDS * 1000))


def test_whoever_asks_and_does_not_read_is_cut(opened: Web) -> None:
    assert unread_by(opened, 2000)


def test_whoever_asks_ever_more_before_he_reads_is_cut(opened: Web) -> None:
    assert unread_by(opened, 100_000)


# ------------------------------------------------------------------------------------------------ number


def stream_of(web: Web, stack: ExitStack, **headers: str) -> tuple[socket.socket, bytes]:
    """Open a stream; return its connection, and the beginning of its answer."""
    peer = stack.enter_context(web.connected())
    said = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    peer.sendall(f"GET /live/daemon HTTP/1.1\r\nHost: {web.host}\r\n{said}\r\n".encode())
    return peer, b""


def test_five_hundred_streams_cost_the_daemon_what_one_does_and_there_is_an_end(opened: Web, running: Daemon) -> None:
    peer = Peer(running.url)
    with ExitStack() as stack:
        streams = [stream_of(opened, stack)[0] for _ in range(STREAMS)]
        assert {status_of(each.recv(4096)) for each in streams} == {200}
        before = peer.shell()["frames_in"]
        for each in streams:
            while b"event: change" not in each.recv(65_536):
                pass
        asked = peer.shell()["frames_in"] - before

        assert asked < 50
        full = [status_of(stream_of(opened, stack)[0].recv(4096)) for _ in range(CONNECTIONS - STREAMS + 5)]
        assert full[0] == 200
        assert full[-1] == 503
    peer.close()


def test_a_visitor_has_a_bounded_number_of_streams(shut: Web) -> None:
    secret = shut.token("greedy", "viewer")
    with ExitStack() as stack:
        peers = [stream_of(shut, stack, Authorization=f"Bearer {secret}")[0] for _ in range(LONG_OF_ONE + 1)]
        answers = [peer.recv(4096) for peer in peers]

        assert [status_of(answer) for answer in answers].count(503) == 1
        assert b"\r\nretry-after: " in next(answer for answer in answers if status_of(answer) == 503).lower()


HALF_HEAD = b"GET /daemon HTTP/1.1\r\nHost: localhost\r\n"
HALF_FORM = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 9\r\n\r\nt"
)
ANSWERED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n\r\n"


class Quiet:
    """Peers that take all connections, and reconnect those that they lose."""

    def __init__(self, web: Web, begun: bytes, *hosts: str) -> None:
        self._web = web
        self._begun = begun
        self._peers = {self._connect(host): host for host in hosts}

    def _connect(self, host: str) -> socket.socket:
        there, here = ("127.0.0.1", self._web.port), (host, 0)
        peer = socket.create_connection(there, timeout=WAIT_SECONDS, source_address=here)
        peer.sendall(self._begun)
        return peer

    def renew(self) -> int:
        """Reconnect ended connections; return their number."""
        looking = select.poll()
        found = {peer.fileno(): peer for peer in self._peers}
        for number in found:
            looking.register(number, select.POLLRDHUP)
        ended = [found[number] for number, _ in looking.poll(0)]
        for peer in ended:
            host = self._peers.pop(peer)
            peer.close()
            self._peers[self._connect(host)] = host
        return len(ended)

    def hear(self) -> None:
        """Wait until each has been answered."""
        for peer in self._peers:
            assert status_of(peer.recv(4096)) == 200

    def close(self) -> None:
        """Close all."""
        for peer in self._peers:
            peer.close()


A, B, C, PROXY = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.9"


ONE = [A] * USUAL.of_one_address
TWO = ONE + [B] * (USUAL.connections - USUAL.of_one_address)


@pytest.mark.parametrize(
    ("begun", "quiet", "others"),
    [
        (HALF_HEAD, ONE, [A, B]),
        (HALF_HEAD, TWO, [A, B, C]),
        (HALF_HEAD, [PROXY] * USUAL.connections, [PROXY, A]),
        (b"", ONE, [A]),
        (HALF_FORM, ONE, [A]),
        (ANSWERED, ONE, [A]),
    ],
    ids=["one address", "two addresses", "a proxy", "nothing", "half forms", "answered"],
)
def test_quiet_connections_keep_nobody_out_while_they_are_renewed(
    full: Web, begun: bytes, quiet: list[str], others: list[str]
) -> None:
    secret = full.token("eve", "viewer")
    they = Quiet(full, begun.replace(b"TOKEN", secret.encode()), *quiet)
    if begun == ANSWERED:
        they.hear()
    for path in ("/healthz", "/metrics"):
        for other in others:
            with full.connected(other) as peer:
                peer.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
                    "Connection: close\r\n\r\n".encode()
                )
                assert status_of(read_all(peer)) == 200
            they.renew()
    they.close()
    access_file.revoke(full.path, "eve")


def test_a_stream_never_gives_way(full: Web) -> None:
    secret = full.token("fay", "viewer")
    with ExitStack() as stack:
        peer, _ = stream_of(full, stack, Authorization=f"Bearer {secret}")
        while b"event: change" not in peer.recv(65_536):
            pass
        they = Quiet(full, HALF_HEAD, *TWO, *ONE)
        assert full.status("GET", "/healthz") == 200
        ended = select.poll()
        ended.register(peer, select.POLLRDHUP)

        assert ended.poll(0) == []
        they.close()
    access_file.revoke(full.path, "fay")


def test_a_connection_that_gave_way_is_told_so(full: Web) -> None:
    with full.connected() as first:
        first.sendall(HALF_HEAD)
        they = Quiet(full, HALF_HEAD, *ONE)

        assert status_of(read_all(first)) == 503
        they.close()


def test_it_has_still_the_files_and_the_memory_of_before(opened: Web) -> None:
    opened.status("GET", "/daemon")

    assert len(os.listdir(f"/proc/{opened.process.pid}/fd")) < 100
    assert opened.process.poll() is None
    assert "Traceback" not in opened.log()
