"""``taskqueue key``: key files, and the file of who may connect."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from taskqueue.access.access_file import read_entries
from taskqueue.access.key_file import read_key
from taskqueue.access.tokens import digest_of
from taskqueue.cli.main import main
from taskqueue.errors import ConfigError

PUBLIC = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return main(["key", *arguments])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(*arguments) == 0
    return capsys.readouterr().out.strip()


def test_a_key_file_is_for_its_owner_alone_and_names_its_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    server = printed(capsys, "server")

    public = printed(capsys, "generate", "web1", "--server", server)

    made = read_key(Path("web1.key"))
    assert (made.name, made.public, made.server) == ("web1", public, server)
    assert made.secret not in (public, server)
    assert stat.S_IMODE(Path("web1.key").stat().st_mode) == 0o600
    assert made.secret not in repr(made)


def test_the_daemons_public_key_stays_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    first = printed(capsys, "server")

    assert printed(capsys, "server") == first
    assert stat.S_IMODE(Path("data/server.key").stat().st_mode) == 0o600
    printed(capsys, "generate", "here")  # on the daemon's machine it is known
    assert read_key(Path("here.key")).server == first


def test_a_key_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "generate", "web1", "--server", PUBLIC)
    before = Path("web1.key").read_text()

    assert run("generate", "web1", "--server", PUBLIC) == 1

    assert "exists" in capsys.readouterr().err
    assert Path("web1.key").read_text() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_may_read_is_refused(capsys: pytest.CaptureFixture[str], mode: int) -> None:
    printed(capsys, "generate", "web1", "--server", PUBLIC)
    Path("web1.key").chmod(mode)

    with pytest.raises(ConfigError, match="others may read or write it: chmod 600"):
        read_key(Path("web1.key"))


def test_the_key_of_the_daemon_is_no_key_of_a_client(capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "server")

    with pytest.raises(ConfigError, match="the daemon's own key"):
        read_key(Path("data/server.key"))


SHORT = json.dumps({"name": "a", "public": PUBLIC, "secret": PUBLIC, "server": "ab"}).encode()


@pytest.mark.parametrize("written", [b"", b"\xff", b"{", b"[]", b"{}", b'{"name": "a"}', b"x" * 5000, SHORT])
def test_a_damaged_key_file_says_which(written: bytes) -> None:
    Path("web1.key").write_bytes(written)
    Path("web1.key").chmod(0o600)

    with pytest.raises(ConfigError, match=r"web1\.key"):
        read_key(Path("web1.key"))


def test_what_a_key_file_or_an_access_file_should_have_is_said_in_words() -> None:
    Path("web1.key").write_bytes(SHORT)
    Path("access.json").write_text('{"keys": [{"name": "a/b", "role": "vewer", "keys": [], "created_at": 1}]}')
    for file in ("web1.key", "access.json"):
        Path(file).chmod(0o600)

    with pytest.raises(
        ConfigError, match=r"web1\.key is not a key file: server: expected 64 hex digits, or an empty text$"
    ):
        read_key(Path("web1.key"))
    words = r"keys\[0\]\.name: expected letters, digits and _ \. @ -, at most 64; put a copy back"
    with pytest.raises(ConfigError, match=words):
        read_entries(Path("access.json"))
    Path("access.json").write_text(Path("access.json").read_text().replace("a/b", "ab"))
    with pytest.raises(
        ConfigError, match=r"keys\[0\]\.role: 'vewer' is none of .*; did you mean viewer\?; put a copy back"
    ):
        read_entries(Path("access.json"))


def test_whoever_is_authorised_is_listed_until_it_is_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("authorise", "web1", PUBLIC, "--role", "fetcher", "--expires", "90d") == 0
    assert run("authorise", "ops", OTHER, "--role", "operator") == 0

    first, second = map(json.loads, printed(capsys, "list", "--json").splitlines())
    assert (first["name"], first["role"], first["keys"]) == ("web1", "fetcher", [PUBLIC])
    assert first["expires_at"] - first["created_at"] == pytest.approx(90 * 86_400, abs=5)
    assert second["expires_at"] is None
    table = printed(capsys, "list")
    assert "fetcher" in table
    assert PUBLIC[:8] in table

    assert run("revoke", "web1") == 0
    assert [entry.name for entry in read_entries(Path("data/access.json")) or ()] == ["ops"]


def test_projects_of_a_name_are_listed_and_changed_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    run("authorise", "web1", PUBLIC, "--role", "fetcher", "--projects", "news-*", "--projects", "blog")
    run("authorise", "ops", OTHER, "--role", "operator", "--expires", "1d")
    before, ops = read_entries(Path("data/access.json")) or ()

    first, second = map(json.loads, printed(capsys, "list", "--json").splitlines())
    assert (first["projects"], second["projects"]) == (["news-*", "blog"], ["*"])
    assert "news-*, blog" in printed(capsys, "list")

    assert printed(capsys, "set", "web1", "--projects", "shop-?") == "web1 is now a fetcher of shop-?."
    assert printed(capsys, "set", "web1", "--role", "operator", "--expires", "never")
    told = printed(capsys, "set", "ops", "--projects", "*", "--expires", "2d")
    assert told.startswith("ops is now an operator, and expires ")
    told = printed(capsys, "set", "ops", "--projects", "*", "--expires", "never")
    assert told == "ops is now an operator, and never expires."
    after, ops_after = read_entries(Path("data/access.json")) or ()
    assert after == replace(before, role="operator", projects=("shop-?",))
    assert ops_after == replace(ops, expires_at=None)


def test_a_token_is_on_stdout_alone_and_only_its_digest_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    token = printed(capsys, "authorise", "anna", "--token", "--role", "viewer", "--projects", "news-*")

    (entry,) = read_entries(Path("data/access.json")) or ()
    assert (entry.name, entry.keys, entry.tokens) == ("anna", (), (digest_of(token),))
    assert entry.projects == ("news-*",)
    assert token not in Path("data/access.json").read_text()


def test_a_name_has_two_tokens_until_the_rotation_is_finished(capsys: pytest.CaptureFixture[str]) -> None:
    run("authorise", "web1", PUBLIC, "--role", "fetcher")
    tokens = [printed(capsys, "rotate", "web1", "--token") for _ in range(2)]
    assert run("rotate", "web1", "--token") == 1
    assert "two tokens" in capsys.readouterr().err

    assert run("rotate", "web1", "--finish") == 0
    (entry,) = read_entries(Path("data/access.json")) or ()
    assert (entry.keys, entry.tokens) == ((PUBLIC,), (digest_of(tokens[1]),))


def test_an_entry_has_a_key_or_a_token_and_no_token_belongs_to_two(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("data/access.json")
    printed(capsys, "authorise", "anna", "--token", "--role", "viewer")
    entry = json.loads(path.read_text())["keys"][0]

    for entries, said in (
        ([entry | {"tokens": []}], "neither a key nor a token"),
        ([entry, entry | {"name": "ben"}], "belongs to another name"),
    ):
        path.write_text(json.dumps({"keys": entries}))
        with pytest.raises(ConfigError, match=said):
            read_entries(path)


def test_a_rotated_name_has_two_keys_until_the_rotation_is_finished() -> None:
    path = Path("data/access.json")
    run("authorise", "web1", PUBLIC, "--role", "fetcher")

    assert run("rotate", "web1", OTHER) == 0
    assert [entry.keys for entry in read_entries(path) or ()] == [(PUBLIC, OTHER)]
    assert run("rotate", "web1", "--finish") == 0
    assert [entry.keys for entry in read_entries(path) or ()] == [(OTHER,)]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["authorise", "web1", OTHER, "--role", "admin"], 1, "revoke it first"),
        (["authorise", "ben", PUBLIC, "--role", "admin"], 1, 'the key of "web1"'),
        (["authorise", "local", OTHER, "--role", "admin"], 1, "a name of the daemon's own"),
        (["authorise", "a b", OTHER, "--role", "admin"], 1, "is not a valid name"),
        (["authorise", "ben", "x", "--role", "admin"], 2, "is neither"),
        (["revoke", "ben"], 1, 'no such name: "ben"'),
        (["revoke", "local"], 1, "local.key"),
        (["rotate", "web1", PUBLIC], 1, 'the key of "web1"'),
        (["rotate", "web1", "--finish"], 1, "has no second key or token"),
        (["rotate", "web1"], 2, "--finish"),
        (["rotate", "web1", OTHER, "--token"], 2, "--finish"),
        (["authorise", "ben", "--role", "viewer"], 2, "or --token"),
        (["authorise", "ben", OTHER, "--token", "--role", "viewer"], 2, "or --token"),
        (["authorise", "ben", "--token", "--role", "web"], 2, "needs a key"),
        (["authorise", "ben", OTHER, "--role", "admin", "--projects", "a b"], 1, '"a b" is not a pattern of projects'),
        (["set", "web1", "--projects", ""], 1, '"" is not a pattern of projects'),
        (["set", "web1", *(part for n in range(101) for part in ("--projects", f"p{n}"))], 1, "length <= 100"),
        (["set", "web1", "--role", "king"], 2, "king"),
        (["set", "web1"], 2, "Give --role"),
        (["set", "ben", "--role", "admin"], 1, 'no such name: "ben"'),
        (["generate", "a/b", "--server", PUBLIC], 2, "is not a valid name"),
        (["generate", "ben"], 2, "--server is missing"),
        (["may", "web1", "fly"], 2, "is none of"),
        (["set", "boris", "--role", "web"], 2, "a web process needs a key, and boris has only a token"),
    ],
)
def test_what_can_not_be_says_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    run("authorise", "web1", PUBLIC, "--role", "fetcher")
    run("authorise", "boris", "--token", "--role", "viewer")
    before = Path("data/access.json").read_text()

    assert run(*arguments) == status

    assert said in capsys.readouterr().err
    assert Path("data/access.json").read_text() == before


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("done news-a", "yes: web1 is a fetcher of news-*, and done takes the right work"),
        ("done shop", "no: web1 is a fetcher of news-*, and shop is outside"),
        ("pause shop", "no: web1 is a fetcher, and pause takes an operator or admin"),
        ("done", "yes: web1 is a fetcher of news-*, and done takes the right work"),
    ],
)
def test_may_says_in_which_projects(capsys: pytest.CaptureFixture[str], what: str, said: str) -> None:
    run("authorise", "web1", PUBLIC, "--role", "fetcher", "--projects", "news-*")
    capsys.readouterr()

    assert run("may", "web1", *what.split()) == (0 if said.startswith("yes") else 1)
    assert capsys.readouterr().out.strip() == said


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("verify", "no: ann is an admin of news-*, and verify is about all projects"),
        ("key-list", "no: ann is an admin of news-*, and key-list is about all projects"),
        ("fetcher-do news-a", "no: ann is an admin of news-*, and fetcher-do is about all projects"),
        ("stats-history", "no: ann is an admin of news-*, and stats-history is about all projects"),
        ("stats-history news-a", "yes: ann is an admin of news-*, and stats-history takes the right look"),
        ("stats-history shop", "no: ann is an admin of news-*, and shop is outside"),
        ("group-do", "yes: ann is an admin of news-*, and group-do takes the right rule"),
        ("status", "yes: ann is an admin of news-*, and status takes the right look"),
    ],
)
def test_may_says_what_is_about_all_projects(capsys: pytest.CaptureFixture[str], what: str, said: str) -> None:
    run("authorise", "ann", PUBLIC, "--role", "admin", "--projects", "news-*")
    run("authorise", "root", OTHER, "--role", "admin")
    capsys.readouterr()

    assert run("may", "ann", *what.split()) == (0 if said.startswith("yes") else 1)
    assert capsys.readouterr().out.strip() == said
    assert run("may", "root", *what.split()) == 0


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("done", "yes: web1 is a fetcher, and done takes the right work"),
        ("pause", "no: web1 is a fetcher, and pause takes an operator or admin"),
        ("delete", "no: web1 is a fetcher, and delete takes an admin"),
        ("status", "yes: web1 is a fetcher, and status takes the right look"),
        ("push", "yes: web1 is a fetcher, and push takes the right push"),
        ("hello", "yes: web1 is a fetcher, and taking tasks takes the right work"),
    ],
)
def test_may_says_what_a_name_may_do(capsys: pytest.CaptureFixture[str], what: str, said: str) -> None:
    run("authorise", "web1", PUBLIC, "--role", "fetcher")
    capsys.readouterr()

    assert run("may", "web1", *what.split()) == (0 if said.startswith("yes") else 1)
    assert capsys.readouterr().out.strip() == said


def test_nobody_and_the_expired_may_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run("authorise", "old", PUBLIC, "--role", "admin", "--expires", "1s")
    path = Path("data/access.json")
    written = json.loads(path.read_text())
    written["keys"][0]["expires_at"] = 1.0
    path.write_text(json.dumps(written))
    capsys.readouterr()

    assert run("may", "ben", "status") == 1
    assert run("may", "old", "status") == 1
    assert capsys.readouterr().out.splitlines() == ["no: the access file has no ben", "no: the key of old has expired"]


@pytest.mark.parametrize(
    "written",
    [
        b"", b"{", b"[]", b'{"keys": [{}]}', b'{"keys": 1}', b"[" * 100_000,
        json.dumps({"keys": 2 * [{"name": "a", "role": "admin", "keys": [PUBLIC], "created_at": 1}]}).encode(),
        json.dumps({"keys": [{"name": n, "role": "admin", "keys": [PUBLIC], "created_at": 1} for n in "ab"]}).encode(),
        json.dumps({"keys": [{"name": "local", "role": "admin", "keys": [PUBLIC], "created_at": 1}]}).encode(),
        json.dumps({"keys": [{"name": "a", "role": "king", "keys": [PUBLIC], "created_at": 1}]}).encode(),
    ],
    ids=range(10),
)  # fmt: skip
def test_a_damaged_access_file_is_refused_by_its_name(written: bytes) -> None:
    Path("access.json").write_bytes(written)
    Path("access.json").chmod(0o600)

    with pytest.raises(ConfigError, match=r"access\.json"):
        read_entries(Path("access.json"))


def test_a_public_key_may_be_given_as_its_key_file(capsys: pytest.CaptureFixture[str]) -> None:
    public = printed(capsys, "generate", "web1", "--server", PUBLIC)

    assert run("authorise", "web1", "web1.key", "--role", "viewer") == 0

    assert [entry.keys for entry in read_entries(Path("data/access.json")) or ()] == [(public,)]


NO_DAEMON = (
    ", which no daemon reads yet; a running daemon's is elsewhere: run this in its folder, or set TASKQUEUE_DAEMON_KEYS"
)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["server"], "server.key"),
        (["authorise", "web1", PUBLIC, "--role", "fetcher"], "access.json"),
        (["authorise", "anna", "--token", "--role", "viewer"], "access.json"),
    ],
)
@pytest.mark.parametrize("is_daemons", [False, True])
def test_a_file_that_a_command_makes_is_told_with_its_whole_path_on_stderr_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], file: str, is_daemons: bool
) -> None:
    if is_daemons:
        Path("data").mkdir()
        Path("data/local.key").touch()
    made = f"made {tmp_path}/data/{file}"

    assert run(*arguments) == 0
    told = capsys.readouterr()
    run(*arguments)

    assert f"{made}{'' if is_daemons else NO_DAEMON}" in told.err.splitlines()
    assert len(told.out.splitlines()) == 1
    assert made not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "revoke web1", "set web1 --role admin", "rotate web1 --finish", "rotate web1 --token", "list", "list --json",
        "may web1 done",
    ],
)  # fmt: skip
def test_without_an_access_file_a_command_says_where_it_looked_and_makes_no_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str
) -> None:
    assert run(*words.split()) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert f"{tmp_path}/data/access.json does not exist; run this on the daemon's machine in its folder" in told.err
    assert not Path("data").exists()


def test_the_daemons_own_public_key_is_no_key_of_a_client(capsys: pytest.CaptureFixture[str]) -> None:
    own = printed(capsys, "server")
    run("authorise", "web1", PUBLIC, "--role", "fetcher")
    capsys.readouterr()

    for words in (["authorise", "ben", own, "--role", "fetcher"], ["rotate", "web1", own]):
        assert run(*words) == 1
        assert (
            "this is the daemon's own public key; give the one that taskqueue key generate" in capsys.readouterr().err
        )
    assert [entry.keys for entry in read_entries(Path("data/access.json")) or ()] == [(PUBLIC,)]


def test_a_new_key_comes_with_the_command_that_lets_it_in(capsys: pytest.CaptureFixture[str]) -> None:
    def told(name: str, file: str) -> str:
        assert run("generate", name, "--server", PUBLIC, "--out", file) == 0
        return capsys.readouterr().err

    far = told("web1", "1.key")
    run("authorise", "web1", OTHER, "--role", "fetcher")
    capsys.readouterr()
    known, new = told("web1", "2.key"), told("web2", "3.key")

    assert "key authorise web1 PUBLIC --role ROLE, or if the name is there already: taskqueue key rotate web1" in far
    assert known.endswith("with: taskqueue key rotate web1 PUBLIC\n")
    assert new.endswith("with: taskqueue key authorise web2 PUBLIC --role ROLE\n")
