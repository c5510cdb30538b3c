"""Documents tell the truth: what they name exists, and what exists is named."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

import taskqueue as package
from taskqueue import http, robots, types
from taskqueue.cli.commands.work import HUNG_STATUS
from taskqueue.cli.main import taskqueue
from taskqueue.core.model.events import EVENT_KINDS
from taskqueue.core.steps.completion import HOLDS_MOST
from taskqueue.server import main
from tools import reference
from tools.reference import commands

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGE = ROOT / "taskqueue"
PATH = re.compile(r"`(\.?[a-z][\w-]*/[\w./-]*|[\w./-]+\.(?:py|md|toml|cfg))`")
NO_PATHS = {"build/docs", "crawler.py", "data/store", "application/json", "application/x-ndjson"}
"""Words with a slash that are no paths here: files that readers make, and media types."""
WRITTEN_FILE = re.compile(r"<!-- file: (\S+) -->")
"""Marker of a block that readers save as a file."""
SHOWN_COMMAND = re.compile(r"`(taskqueue [a-z]+(?: [a-z]+)?)")
NAMED_COMMAND = re.compile(r"taskqueue ([a-z]+)(?: ([a-z-]+))?")
NAMING = ("taskqueue", "conf", "examples", "benchmarks")
TEXTS = {".py", ".html", ".js", ".toml", ".yml"}
"""Folders and kinds of files that name commands."""
GONE = {"reload", "stop", "watch", "fetchers", "wait"}
"""Commands of earlier versions, which have become verbs of nouns."""
PROOF = re.compile(r"\[✓\]\(\.\./\.\./(tests/[\w/]+\.py) \"(test_\w+)\"\)")
RULES = ROOT / "docs" / "reference" / "rules.md"
SECURITY = ROOT / "docs" / "reference" / "security.md"
CODE = re.compile(r"Rejected\(\s*\"([\w-]+)\"|code=\"([\w-]+)\"")

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)")
"""Path and heading of a link within the repository."""

SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN_LINE = re.compile(r"(\$ )?taskqueue [a-z]")


def shown_lines(document: Path) -> set[str]:
    """Return command lines of taskqueue in the shell blocks of a document, and in indented ones."""
    text = document.read_text()
    blocks = [*SHELL_BLOCK.findall(text), *re.findall(r"^    .*$", text, re.MULTILINE)]
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return {line for line in lines if SHOWN_LINE.match(line) and "…" not in line}


def words_of(line: str) -> list[str]:
    """Split a shell line's first command into words, without its name."""
    lexer = shlex.shlex(line.removeprefix("$ ").removesuffix("\\"), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: word not in {"|", "||", "&&", ">"}, lexer))[1:]


def misunderstood(line: str) -> str:
    """Parse a command line without running it; return its error, or an empty text."""
    command: click.Command = taskqueue
    name, words = "taskqueue", words_of(line)
    try:
        while isinstance(command, click.Group) and words:
            name = words.pop(0)
            command = command.get_command(click.Context(command), name) or click.Command("")
        command.make_context(name, words).close()
    except click.UsageError as error:
        message = error.format_message()
        return "" if "does not exist" in message else f"{line}: {message}"  # a folder of the reader's machine
    return "" if command.name else f"{line}: there is no {name}"


def test_the_reference_has_each_setting_with_its_default() -> None:
    made = reference.settings()
    sections = tomllib.loads((ROOT / "conf" / "taskqueue.toml").read_text())
    names = [name for section in sections.values() for name in _flat(section)]

    assert len(names) > 50
    assert [
        name for name in names if not re.search(rf"^\| `{re.escape(name)}` \| `.+` \| \S", made, re.MULTILINE)
    ] == []
    assert [f"## [{name}]" for name in sections if f"## [{name}]\n" not in made] == []


def test_the_reference_has_each_command_with_its_options() -> None:
    made = reference.all_commands()
    shown = [each for _, command in commands(taskqueue) for each in command.params if isinstance(each, click.Option)]
    options = {option for each in shown if not each.hidden for option in each.opts}

    assert [name for name, _ in commands(taskqueue) if f"\n## {name}\n" not in f"\n{made}"] == []
    assert [option for option in options if option not in made] == []


def test_the_reference_has_each_exit_status() -> None:
    command, _, daemon = (ROOT / "docs/reference/errors.md").read_text().partition("## Exit status of the daemon")
    of_daemon = [value for name, value in vars(main).items() if name.startswith("EXIT_")]

    assert [int(status) for status in re.findall(r"^\| (\d) \|", daemon, re.MULTILINE)] == sorted(of_daemon)
    assert f"| {HUNG_STATUS} |" in command


def test_the_reference_has_each_public_name() -> None:
    made = reference.python() + reference.exceptions() + reference.type_names()
    names = [*package.__all__, *http.__all__, *robots.__all__, *types.__all__]

    assert [name for name in names if f"## {name}\n" not in made] == []


def test_each_mark_of_a_document_names_something_that_is_made() -> None:
    texts = [document.read_text() for document in (ROOT / "docs").rglob("*.md")]
    marks = {found[1] for text in texts for found in reference.MARK.finditer(text)}

    assert marks == reference.MADE.keys()


def test_a_folder_begins_with_the_pages_that_its_index_names_and_has_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    (tmp_path / "start").mkdir()
    for name in ("when-not", "a", "tutorial", "z", "install"):
        (tmp_path / "start" / f"{name}.md").touch()
    (tmp_path / "start" / "index.md").write_text("First [install](install.md), then [z](z.md#there).")

    pages = re.findall(r"^start/(.*)$", reference.contents("start"), re.MULTILINE)

    assert pages == ["index", "install", "z", "tutorial", "a", "when-not"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_file_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    named = {found.rstrip("./") for found in PATH.findall(text)} - NO_PATHS - set(WRITTEN_FILE.findall(text))

    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, PACKAGE, ROOT / "conf"))]

    assert not missing


def test_each_document_that_a_file_for_operators_names_exists() -> None:
    files = [*(ROOT / "conf").iterdir(), ROOT / "compose.yml", ROOT / "Dockerfile"]
    named = [name for path in files for name in re.findall(r"\bdocs/[\w/.-]*\w", path.read_text())]

    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_each_link_of_a_document_beside_the_site_leads_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text())
    headings = {path: reference.headings(path.read_text()) for path in DOCUMENTS}

    assert [path for path, _ in links if not (ROOT / path).exists()] == []
    assert [name for path, name in links if name and name not in headings[ROOT / (path or document.name)]] == []


def test_the_picture_of_the_layers_has_each_folder() -> None:
    picture = (ROOT / "docs/why/architecture.md").read_text().partition("## Layers")[2].partition("\n## ")[0]
    folders = [path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]

    assert not [folder for folder in folders if not re.search(rf"\b{folder.name}\b", picture)]


def test_the_table_of_where_things_are_has_what_a_listing_does_not_answer() -> None:
    table = (ROOT / "docs/why/architecture.md").read_text().partition("## Where is")[2].partition("\n## ")[0]

    assert table.count("\n|") - 2 <= 15


def test_each_command_that_the_readme_shows_exists() -> None:
    shown = {" ".join(line.split()[:3]) for line in shown_lines(ROOT / "README.md")}
    known = {name for name, _ in commands(taskqueue)}

    unknown = {name for name in shown if name not in known and name.rsplit(" ", 1)[0] not in known}

    assert shown
    assert not unknown


def test_each_command_that_a_document_names_exists() -> None:
    known = {name for name, _ in commands(taskqueue)} | {"taskqueue scheduler"}
    groups = {name.rsplit(" ", 1)[0] for name in known}
    named = set(SHOWN_COMMAND.findall(_all_documents()))

    # `taskqueue push docs` is a command with its argument; in `taskqueue project docs` there would be no command.
    unknown = [name for name in named if name not in known | groups and " ".join(name.split()[:2]) not in known]

    assert named
    assert not unknown


def test_each_command_line_of_a_document_is_understood() -> None:
    lines = set().union(*map(shown_lines, DOCUMENTS))

    assert len(lines) > 50
    assert not list(filter(None, map(misunderstood, sorted(lines))))


@pytest.mark.parametrize("page", ["backup-and-undo", "night", "troubleshooting", "watch"])
def test_each_command_that_an_operator_copies_from_a_table_is_understood(page: str) -> None:
    text = (ROOT / "docs/howto" / f"{page}.md").read_text()
    names = {name for command, _ in commands(taskqueue) for name in (command, command.rsplit(" ", 1)[0])}
    lines = {" ".join(line.split()) for line in re.findall(r"`(taskqueue [a-z][^`…]*)`", text)} - names

    assert lines
    assert not list(filter(None, map(misunderstood, sorted(lines))))


def test_the_examples_of_each_command_are_understood() -> None:
    helps = [command.help or "" for _, command in commands(taskqueue)]
    lines = [line.strip() for text in helps for line in text.splitlines() if line.strip().startswith("taskqueue ")]

    assert len(lines) > 100
    assert not list(filter(None, map(misunderstood, lines)))


def test_each_command_that_the_program_and_its_files_name_exists() -> None:
    known = {tuple(name.split()[1:3]) for name, _ in commands(taskqueue)}
    nouns = {words[0] for words in known if len(words) == 2}
    paths = [path for folder in NAMING for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS]

    named = [(path, *found) for path in paths for found in NAMED_COMMAND.findall(path.read_text())]
    unknown = [each for each in named if each[1] in GONE or (each[1] in nouns and each[2] and each[1:] not in known)]

    assert named
    assert not unknown


def test_each_target_that_a_document_shows_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {name for names in targets for name in names.split()}
    shown = set(re.findall(r"(?:`|^ *)make ([a-z]+)(?=$|`|  | [A-Z#])", _all_documents(), re.MULTILINE))

    assert {"run", "test"} <= shown
    assert shown <= known


def test_each_benchmark_that_a_document_names_is_run_by_a_target() -> None:
    run = set(re.findall(r"\$\(BENCH\)\.([\w.]+)", (ROOT / "Makefile").read_text()))
    # A decision may rest on a single measurement: it says at which commit.
    lasting = "\n".join(document.read_text() for document in DOCUMENTS if document.parent.name != "decisions")
    named = set(re.findall(r"python -m benchmarks\.([\w.]+)", lasting))

    assert "lifecycle" in named
    assert named <= run


def test_each_error_code_is_in_the_protocol() -> None:
    protocol = (ROOT / "docs" / "reference" / "protocol.md").read_text()
    codes = {
        first or second
        for source in (ROOT / "taskqueue").rglob("*.py")
        for first, second in CODE.findall(source.read_text())
        if source.relative_to(PACKAGE).parts[0] in {"core", "protocol", "server"}
    }

    assert codes
    assert not {code for code in codes if f"`{code}`" not in protocol}


LOGGED = re.compile(r"\blog\.(info|warning|error|exception)\(\s*f?\"([a-z]+(?:-[a-z]+)*)[ \"]")
"""Level and event word of a line of the daemon log."""
LOG_ROW = re.compile(r"^\| (\w+) \| (`.+?`) \|", re.MULTILINE)
"""Level and event words of a row in docs/reference/log.md."""


def test_each_event_of_the_daemon_log_is_in_its_page_with_its_level() -> None:
    page = (ROOT / "docs/reference/log.md").read_text()
    told = {(level, event) for level, events in LOG_ROW.findall(page) for event in re.findall(r"`([\w-]+)`", events)}
    sources = [path.read_text() for folder in ("server", "web") for path in (PACKAGE / folder).rglob("*.py")]

    written = {(level, event) for source in sources for level, event in LOGGED.findall(source)}
    missing = {(level.replace("exception", "error"), event) for level, event in written} - told

    assert len(written) > 20
    assert not missing


def test_each_event_in_the_page_of_the_daemon_log_is_in_the_code() -> None:
    page = (ROOT / "docs/reference/log.md").read_text()
    told = {event for _, events in LOG_ROW.findall(page) for event in re.findall(r"`([\w-]+)`", events)}
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert told
    assert not {event for event in told if not re.search(rf"[\"\s]{event}[\"\s]", code)}


def test_each_setting_in_the_page_of_limits_exists() -> None:
    settings = tomllib.loads((ROOT / "conf/taskqueue.toml").read_text())
    page = (ROOT / "docs/reference/limits.md").read_text()
    named = set(re.findall(r"`(store|daemon|limits|advanced)\.(\w+)`", page))

    assert named
    assert not {(section, key) for section, key in named if key not in settings[section]}


def test_each_alert_has_a_command_to_begin_with() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (ROOT / "conf/prometheus-alerts.yml").read_text()))
    page = (ROOT / "docs/howto/watch.md").read_text()

    assert alerts
    assert set(re.findall(r"`(Taskqueue\w+)`", page)) == alerts


def test_each_event_of_the_webhook_is_in_its_page() -> None:
    page = (ROOT / "docs/howto/webhook.md").read_text()

    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == set(EVENT_KINDS)


def test_the_protocol_and_the_code_agree_on_how_many_sessions_hold_a_project() -> None:
    protocol = (ROOT / "docs/reference/protocol.md").read_text()

    said = re.findall(r"At most ([\d,]+)\s+sessions may keep|([\d,]*\d)\s+sessions that keep a project open", protocol)

    assert ["".join(each) for each in said] == [f"{HOLDS_MOST:,}"] * 2


def test_each_rule_names_a_test_that_exists() -> None:
    rules = [line for line in RULES.read_text().splitlines() if line.startswith("|")]
    bare = [rule for rule in rules if not PROOF.search(rule) and not _is_head(rule, rules)]
    missing = [name for path, name in _proofs() if name not in _tests_of(ROOT / path)]

    assert not bare
    assert not missing


def test_the_page_of_security_names_tests_that_exist() -> None:
    named = PROOF.findall(SECURITY.read_text())

    assert named
    assert not [name for path, name in named if name not in _tests_of(ROOT / path)]


def test_each_test_of_the_rules_is_named_by_a_rule() -> None:
    named = set(_proofs())
    folder = ROOT / "tests" / "unit" / "core" / "rules"
    tests = {(str(path.relative_to(ROOT)), name) for path in folder.glob("test_*.py") for name in _tests_of(path)}

    unnamed = tests - named

    assert tests
    assert not unnamed


def test_each_public_thing_has_a_docstring() -> None:
    bare = [
        f"{source.relative_to(ROOT)}:{node.lineno} {node.name}"
        for source in sorted((ROOT / "taskqueue").rglob("*.py"))
        for node in _public(ast.parse(source.read_text()))
        if ast.get_docstring(node) is None
    ]

    assert not bare


def _public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield public classes and functions of a module; what implements a contract is described there."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def _flat(section: Mapping[str, object]) -> Iterator[str]:
    """Names of a section's settings, such as slot.by."""
    for name, value in section.items():
        yield from (f"{name}.{each}" for each in _flat(value)) if isinstance(value, dict) else (name,)


def _proofs() -> list[tuple[str, str]]:
    """Return file and name of each test that docs/reference/rules.md links to."""
    return PROOF.findall(RULES.read_text())


def _is_head(row: str, rows: list[str]) -> bool:
    """Whether the row is the line under the head of a table, or the head above that line."""
    lines = re.compile(r"\|(?:-+\|)+")
    return bool(lines.fullmatch(row)) or bool(lines.fullmatch(rows[rows.index(row) + 1]))


def _tests_of(path: Path) -> set[str]:
    """Return names of the tests in a file; none if it doesn't exist."""
    return set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)) if path.exists() else set()


def _all_documents() -> str:
    return "\n".join(document.read_text() for document in DOCUMENTS)
