"""Rules about the shape of the code that the import contracts of setup.cfg can't see."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskqueue

PACKAGE = Path(taskqueue.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("test_*.py"))
PURE_FOLDERS = ("core", "settings", "protocol")
CORE = sorted(
    [PACKAGE / "hosts/url_hosts.py", *(path for folder in PURE_FOLDERS for path in (PACKAGE / folder).rglob("*.py"))]
)

MOST_LINES = 800
"""Longest file in lines; beyond it, look for a second noun."""
FOLDERS = sorted({path.parent for path in MODULES})

IMPURE = {"time", "random", "os", "logging", "threading", "asyncio", "socket", "datetime", "uuid", "secrets", "pathlib"}
VAGUE_NAMES = ("util", "manager", "handle_", "process_", "do_")
NAMES_OF_THE_STANDARD_LIBRARY = {"do_GET", "do_HEAD", "handle_error"}
"""Methods that a base class of the standard library calls by these names."""

SETS = {"set", "frozenset"}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def imported(path: Path) -> Iterator[str]:
    """Yield names of the modules that a file imports, wherever in it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def iterated(path: Path) -> Iterator[ast.expr]:
    """Yield every expression that is iterated over: in loops, comprehensions, and by what makes a sequence of it."""
    for node in nodes(path):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Starred):
            yield node.value
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple", "iter")
        ):
            yield from node.args


def makes_a_set(expression: ast.expr, names: set[str]) -> bool:
    """Whether the expression is a set, as far as its own text and the names bound to sets show."""
    if isinstance(expression, ast.Set | ast.SetComp):
        return True
    if isinstance(expression, ast.Call):
        return isinstance(expression.func, ast.Name) and expression.func.id in SETS
    if isinstance(expression, ast.BinOp):
        return makes_a_set(expression.left, names) or makes_a_set(expression.right, names)
    if isinstance(expression, ast.Attribute):
        return expression.attr in names
    return isinstance(expression, ast.Name) and expression.id in names


def is_set_type(annotation: ast.expr | None) -> bool:
    """Whether the annotation is set or frozenset of something, also within a union."""
    if isinstance(annotation, ast.BinOp):
        return is_set_type(annotation.left) or is_set_type(annotation.right)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return isinstance(annotation, ast.Name) and annotation.id in {*SETS, "AbstractSet", "Interest"}


def names_of_sets(path: Path) -> set[str]:
    """Return variables and attributes that a file annotates as, or binds to, a set."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.AnnAssign) and is_set_type(node.annotation):
            found |= target_names(node.target)
        elif isinstance(node, ast.arg) and is_set_type(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.Assign) and makes_a_set(node.value, set()):
            found |= {name for target in node.targets for name in target_names(target)}
    return found


def target_names(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    return {target.attr} if isinstance(target, ast.Attribute) else set()


CONTAINERS = {"dict", "list", "set", "deque", "OrderedDict"}
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft",
    "remove", "reverse", "setdefault", "sort", "update",
}  # fmt: skip
"""Methods that change a container."""

FORMS = {PACKAGE / "core/model/needs.py", PACKAGE / "core/model/records.py"}
"""Files of forms that go to the store and back, which any caller fills in."""

WRITTEN_ELSEWHERE_MOST = 19


def is_own(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Name) and expression.id == "self"


def attributes(made: ast.ClassDef) -> dict[str, bool]:
    """Return attributes that a class creates, and whether they are containers without methods of ours."""
    found: dict[str, bool] = {}
    for node in ast.walk(made):
        if isinstance(node, ast.AnnAssign):
            is_container = ast.unparse(node.annotation).partition("[")[0] in CONTAINERS
            if isinstance(node.target, ast.Attribute) and is_own(node.target.value):
                found[node.target.attr] = is_container
            elif isinstance(node.target, ast.Name) and node in made.body:
                found[node.target.id] = is_container
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            found.setdefault(node.attr, False)
    return found


def written(path: Path) -> tuple[set[str], set[str]]:
    """Return attributes of other objects that a file assigns to, and those whose contents it changes."""
    assigned: set[str] = set()
    changed: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and not is_own(node.value):
            assigned.add(node.attr)
        inside = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            inside = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            inside = node.func.value
        if isinstance(inside, ast.Attribute) and not is_own(inside.value):
            changed.add(inside.attr)
    return assigned, changed


def test_no_class_of_the_core_has_many_attributes_that_others_write() -> None:
    """Counted by name alone, so there may be fewer."""
    by_file = {path: written(path) for path in CORE}

    found: dict[str, list[str]] = {}
    for path in (path for path in CORE if path not in FORMS):
        assigned = {name for other, (names, _) in by_file.items() if other != path for name in names}
        changed = {name for other, (_, names) in by_file.items() if other != path for name in names}
        for made in (node for node in nodes(path) if isinstance(node, ast.ClassDef)):
            found[made.name] = [
                name
                for name, is_container in attributes(made).items()
                if name in assigned or (is_container and name in changed)
            ]
    assert {name: names for name, names in found.items() if len(names) > WRITTEN_ELSEWHERE_MOST} == {}


def test_nothing_that_lives_for_a_turn_is_in_the_state() -> None:
    state, turn = (
        {name for node in nodes(PACKAGE / "core" / file) if isinstance(node, ast.ClassDef) for name in attributes(node)}
        for file in ("state.py", "turn_state.py")
    )

    assert state & turn == set()


def test_the_core_can_be_imported_without_sockets_a_store_or_an_event_loop() -> None:
    script = "import sys, taskqueue.core.scheduler; print(*{'zmq', 'rocksdict', 'asyncio', 'click'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_core_imports_nothing_that_knows_the_time_chance_or_the_world() -> None:
    impure = [(name_of(path), name) for path in CORE for name in imported(path) if name.partition(".")[0] in IMPURE]

    assert impure == []


def test_the_core_iterates_over_no_set() -> None:
    """The order of a set of strings differs from run to run, and equal inputs must lead to equal outputs."""
    names = {name for path in CORE for name in names_of_sets(path)}

    found = [
        f"{name_of(path)}:{expression.lineno}"
        for path in CORE
        for expression in iterated(path)
        if makes_a_set(expression, names)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "for x in {1, 2}: pass",
        "[x for x in set(y)]",
        "seen: set[str] = f()\nlist(seen)",
        "gone = set(a)\nfor x in gone: pass",
        "self.interest: frozenset[str] | None = f()\nfor x in self.interest: pass",
        "def f(names: set[str]): return [*names]",
        "for x in a | set(b): pass",
    ],
)
def test_the_search_for_iterated_sets_finds_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)

    assert any(makes_a_set(expression, names_of_sets(path)) for expression in iterated(path))


def test_no_state_of_a_task_is_compared_by_its_number() -> None:
    ordered = re.compile(r"(<|>)=? *(READY|DELAYED|PROCESSING|SUCCESS|FAILED|CANCELLED)\b|\.state (<|>)")

    found = [f"{path}: {line}" for path in MODULES for line in path.read_text().splitlines() if ordered.search(line)]

    assert not found


def test_no_move_answers_requests_and_no_request_takes_steps() -> None:
    """These marks show the layers of the core."""
    answering = [path.name for path in (PACKAGE / "core/moves").glob("*.py") if "\nREQUESTS" in path.read_text()]
    stepping = [path.name for path in (PACKAGE / "core/requests").glob("*.py") if "\ndef step(" in path.read_text()]

    assert (answering, stepping) == ([], [])


DEFINITION = re.compile(r"^ *(?:async def|def|class) (\w+)", re.MULTILINE)


def test_no_name_is_vague() -> None:
    vague = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for name in DEFINITION.findall(path.read_text())
        if name not in NAMES_OF_THE_STANDARD_LIBRARY
        and (
            any(part in name.lower().lstrip("_") for part in VAGUE_NAMES[:2])
            or name.lstrip("_").startswith(VAGUE_NAMES[2:])
        )
    ]
    assert vague == []


def test_no_two_tests_have_one_name() -> None:
    """With equal names, a rule or a planted bug that names one test may mean the other; often both prove the same."""
    tests = [name for path in TESTS for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.M)]

    assert [name for name, count in Counter(tests).items() if count > 1] == []


SMALL_LINES = 150
ROWS = ("client.blocking", "web.api")
"""Folders in which each module is a row of a table: the twin of an asynchronous one, or the addresses of a noun."""
APART = {
    "client.connection.greeting": "bytes of ZMTP on a plain socket, where all else of a client is libzmq's",
    "client.worker.loop_watch": "a thread, where all else of a worker runs in its event loop",
    "client.worker.tracing": "OpenTelemetry need not be installed",
    "core.steps.flow_check": "where a flow is checked, for who looks for it by name",
    "server.network.file_watch": "what the kernel knows of a file, and nothing of keys",
    "server.web_child": "knows a process, and nothing of the daemon",
    "server.webhook_delivery": "is loaded with the first event, and urllib3 with it",
    "store.records.slot_spellings": "is compiled, and migrations has a Struct",
}
"""Small modules apart from their only importer, each with the reason."""


def importers() -> dict[str, set[str]]:
    """Return the importers of each module, named below the package."""
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in MODULES}
    found: dict[str, set[str]] = {name: set() for name in names if not name.endswith("__init__")}
    for importer, path in names.items():
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                module = (node.module or "").removeprefix("taskqueue").lstrip(".")
                for whole in (module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)):
                    if whole in found:
                        found[whole].add(importer)
    return found


def test_a_small_module_beside_its_only_importer_says_why_it_is_one() -> None:
    apart = []
    for name, who in importers().items():
        folder, lines = (
            name.rpartition(".")[0],
            len((PACKAGE / f"{name.replace('.', '/')}.py").read_text().splitlines()),
        )
        if lines < SMALL_LINES and folder not in ROWS and [each.rpartition(".")[0] for each in who] == [folder]:
            apart.append(name)

    assert sorted(apart) == sorted(APART)


INTERPRETED = {
    "core.model.attempt_records",
    "core.model.edges",
    "core.model.events",
    "core.model.failure_groups",
    "core.model.history",
    "core.model.needs",
    "core.model.records",
    "core.model.rerun_set",
    "core.model.slot_records",
    "core.model.slot_scan",
    "core.model.undo_rows",
    "core.model.waiting_pushes",
    "core.turn_result",
    "settings.description",
    "settings.flat_names",
    "settings.own_tasks",
    "settings.reader",
    "settings.settings",
    "settings.slots",
    "store.records.migrations",
    "store.records.stored_values",
}
"""Modules of compiled folders that define Structs, and are therefore interpreted as a whole."""


def said_in_setup(name: str) -> tuple[str, ...]:
    """Return a tuple of paths in setup.py."""
    tree = ast.parse((PACKAGE.parent / "setup.py").read_text())
    found = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name]
    paths: tuple[str, ...] = ast.literal_eval(found[0])
    return paths


def test_no_compiled_module_becomes_interpreted_unnoticed() -> None:
    folders = [path for folder in said_in_setup("FOLDERS") for path in (PACKAGE.parent / folder).rglob("*.py")]
    modules = [PACKAGE.parent / path for path in said_in_setup("MODULES")]

    with_structs = {
        path for path in (*folders, *modules) if re.search(r"^from msgspec import .*\bStruct\b", path.read_text(), re.M)
    }
    assert {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in with_structs} == INTERPRETED
    assert all(path.is_file() for path in modules)


def test_no_file_is_long() -> None:
    assert [name_of(path) for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES] == []


def test_each_folder_says_what_may_live_there() -> None:
    said = {folder: ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "" for folder in FOLDERS}

    assert [name_of(folder) for folder in FOLDERS if "Here may live" not in said[folder] and folder != PACKAGE] == []


QUOTED = re.compile(r"``([A-Za-z_][\w.]*)(?:\(\))?``")
RAISED = re.compile(r"^ +(\w[\w.]*): ", re.MULTILINE)
ELSEWHERE = {
    "AdaptiveFetchSchedule", "SetAsyncExc", "_total", "array_recv", "co", "cronsim", "example", "finally", "github",
    "inf", "io", "jsonb", "lxml", "nightly", "overdue", "publicsuffixlist", "rat", "uk", "w3lib",
}  # fmt: skip
"""Words in docstrings that come from other programs, keywords and examples."""


def docstrings(path: Path) -> Iterator[ast.Constant]:
    """Yield docstrings of the module and everything in it, constants included."""
    for node in nodes(path):
        for each in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.value


def words_of(path: Path) -> Iterator[str]:
    """Yield all names of a file, and the words of its texts, except its docstrings."""
    told = set(docstrings(path))
    yield from path.with_suffix("").relative_to(PACKAGE.parent).parts
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name", "module", "asname"):
            yield from (
                (getattr(node, field, None) or "").split(".") if isinstance(getattr(node, field, ""), str) else ()
            )
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield from re.findall(r"\w+", node.value)


def test_each_name_that_a_docstring_quotes_or_says_to_be_raised_exists() -> None:
    known = {word for path in MODULES for word in words_of(path)} | ELSEWHERE | set(dir(builtins))

    gone = []
    for path in MODULES:
        for said in docstrings(path):
            text = str(said.value)
            raised = RAISED.findall(text.partition("Raises:\n")[2])
            gone += [
                f"{name_of(path)}:{said.lineno} {name}"
                for name in (*QUOTED.findall(text), *raised)
                if not known.issuperset(part for part in name.split(".") if part)
            ]
    assert gone == []


SHOWING = {"click.echo", "click.secho", "print", "Console", "Text.from_markup"}


def test_nothing_is_shown_but_through_what_makes_it_visible() -> None:
    """A terminal obeys what it is sent, and names, urls and errors come from outside."""
    shown = [path for path in MODULES if path.parent.name != "terminal" and name_of(path) != "server/main.py"]

    calls = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in shown
        if any(name in path.read_text() for name in SHOWING)
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SHOWING
    ]
    cells = [name_of(path) for path in shown if "rich.text" in path.read_text() and "rich.text" in imported(path)]
    assert calls + cells == []
