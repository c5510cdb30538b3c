"""Generate ``Client``, in ``taskqueue/client/blocking/``, from ``AsyncClient``, and ``Robots`` from ``AsyncRobots``.

    python -m tools.blocking_client            write the files
    python -m tools.blocking_client --check    exit status 1 if the files differ from that; part of `make lint`

To add a method, write it in ``taskqueue/client/asynchronous/`` and run this. ``Client`` is made from
``AsyncClient``, ``BlockingTasks`` of ``AsyncTasks``, and so on; each of their public methods becomes:

1. a copy without ``async`` and ``await``, if its body touches nothing of its object but public methods and PARTS that
   have a blocking twin: pages are iterated, and tasks prepared for a push, in the caller's thread;
2. else a call that runs it, whole, in the event loop in the background, and waits;
3. a generator or a context manager is entered there, and iterated here;
4. if it is not ``async``, a call in the caller's thread, whose result gets its twin; except for IN_LOOP.

Signatures and docstrings are copied, without ``await`` in examples and without paragraphs about the event loop. Only
making and closing a client is written here: OPENING.

``Robots`` is made from ``AsyncRobots``, both in ``taskqueue/robots/``: a plain copy, with REWRITTEN. What can't be
copied, one fetch at a time for each site, is in ``fetches.py`` for both: where one has a task that all await, the
other has a lock and an event.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent / "taskqueue" / "client"
SOURCE: Final = PACKAGE / "asynchronous"
TARGET: Final = PACKAGE / "blocking"

PARTS: Final = {
    "_single_pushes": "BlockingSingles",
    "_single_reports": "BlockingSingles",
    "_batch_sender": "BlockingBatchSender",
}
"""Parts of the asynchronous client that have a twin for threads."""

INTERNAL: Final = {"_ask"}
"""Private methods that are copied, because commands call them."""

LEFT_OUT: Final = {"close"}
"""Methods that are not copied: OPENING closes."""

IN_LOOP: Final = {
    "intake": "BlockingIntake(self._background, {call})",
    "push_soon": "self._background.future({call})",
    "report_soon": "self._background.future({call})",
}
"""Methods that are not ``async`` but must run in the loop, and how they are called there."""

ROBOTS: Final = PACKAGE.parent / "robots" / "asynchronous.py", PACKAGE.parent / "robots" / "blocking.py"

REWRITTEN: Final = {
    r"await asyncio\.to_thread\((\w+), (.*)  #.*": r"\1(\2",
    r"\bawait |\basync (?=def\b|for\b|with\b)": "",
    r"\bAsync(?=[A-Z])": "",
    r"\bAwaitable\[(\w+)\]": r"\1",
    r"\basyncio\.sleep\b": "time.sleep",
    r"robots\.txt for asyncio\.": "robots.txt for code that waits.\n\nMade by ``python -m tools.blocking_client`` of "
    "``AsyncRobots``; change that one.\n",
    r"Use it in one event loop\. Tasks that ask for the same site at once share one fetch, even if the first of them "
    r"is\s+cancelled\.": "Methods block while a robots.txt is fetched. Threads that ask for the same site at once "
    "share one fetch.",
    r"a coroutine function of a URL; returns": "called with a URL, returns",
}
"""Replacements in the copy of AsyncRobots, by regular expressions, each of which must match."""

ANNOTATIONS: Final = {
    "AsyncGenerator": "Iterator",
    "AbstractAsyncContextManager": "AbstractContextManager",
}

RETURNED: Final = {"asyncio.Future": "Future", "Intake": "BlockingIntake"}
"""Types that are returned in place of those that belong to a loop."""

IMPORTS: Final = """
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from taskqueue.client.connection.background import Background, BlockingSingles
from taskqueue.client.fetcher.intake import BlockingIntake
from taskqueue.client.tasks.pushes import BlockingBatchSender
"""

FOLDER: Final = '''"""Client and its namespaces, for blocking code.

Here may live only what ``tools/blocking_client.py`` makes from ``asynchronous/``.
"""
'''

NAMESPACE_OPENING: Final = """
def __init__(self, background: Background, {twin}: {original}) -> None:
    self._background = background
    self._client = {twin}
"""

CLIENT_NOTE: Final = """
    It works in a thread of its own, so leases and connection stay alive while the caller computes or sleeps. Any thread
    may call it. Create one in each process: in a forked process its methods raise ClientClosed.
"""

CLIENT_OPENING: Final = """
def __init__({signature}) -> None:
    self._client = AsyncClient({arguments})
    self._background = Background()
    self.daemon_address = self._client.daemon_address
    self.timeout = self._client.timeout

def __enter__(self) -> Self:
    return self

def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
    self.close()

def close(self) -> None:
    '''Give back the tasks of this client, and disconnect. Calls that wait for an answer raise ClientClosed.'''
    self._background.close(self._client.close())
"""


def twins() -> dict[Path, str]:
    """Generate the files of the blocking client: text by path."""
    modules = {path.name: ast.parse(path.read_text()) for path in sorted(SOURCE.glob("*.py"))}
    modules.pop("__init__.py")
    made = {TARGET / name: module_of(name, module) for name, module in modules.items()}
    made[TARGET / "__init__.py"] = FOLDER
    made[ROBOTS[1]] = copied_text(ROBOTS[0].read_text())
    return {path: formatted(text, path) for path, text in made.items()}


def copied_text(text: str) -> str:
    """Copy the text of a module without anything asynchronous, not formatted yet."""
    for pattern, instead in REWRITTEN.items():
        text, found = re.subn(pattern, instead, text)
        assert found, pattern
    return text


def module_of(name: str, module: ast.Module) -> str:
    """Generate the text of one module's twin, not formatted yet."""
    source = f"taskqueue.client.asynchronous.{name.removesuffix('.py')}"
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    originals = ", ".join(node.name for node in classes)
    head = [
        f'"""Blocking twin of ``{source}``.\n\nMade by ``python -m tools.blocking_client``; change the original.\n"""',
        "from __future__ import annotations",
        IMPORTS,
        f"from {source} import {originals}",
        *(ast.unparse(import_of(node)) for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)),
    ]
    return "\n".join([*head, *(ast.unparse(class_of(node)) for node in classes)])


def import_of(node: ast.Import | ast.ImportFrom) -> ast.Import | ast.ImportFrom:
    """Import the blocking twin instead, if the import is of a namespace."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("taskqueue.client.asynchronous"):
        node.module = (node.module or "").replace("asynchronous", "blocking")
        for alias in node.names:
            alias.name = twin_name(alias.name)
    return node


def class_of(node: ast.ClassDef) -> ast.ClassDef:
    """Generate the blocking twin of a class."""
    public = {each.name for each in methods(node) if not each.name.startswith("_") or each.name in INTERNAL}
    twins = [method_of(method, public) for method in methods(node) if method.name in public - LEFT_OUT]
    fields = dict(ast.iter_fields(node)) | {"name": twin_name(node.name)}
    return ast.ClassDef(**fields | {"body": [docstring(node), *opening(node), *twins]})


def twin_name(name: str) -> str:
    """Return the name of a class's twin."""
    return "Client" if name == "AsyncClient" else f"Blocking{name.removeprefix('Async')}"


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the methods of a class, in order."""
    return (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


# ------------------------------------------------------------------------------------------------ how it is made


def opening(node: ast.ClassDef) -> list[ast.stmt]:
    """Generate statements that make and close the twin of a class."""
    init = next(each for each in methods(node) if each.name == "__init__")
    if node.name != "AsyncClient":
        twin = node.name.removeprefix("Async").lower()
        return ast.parse(NAMESPACE_OPENING.format(twin=twin, original=node.name)).body
    keywords = ", ".join(f"{each.arg}={each.arg}" for each in init.args.kwonlyargs)
    text = CLIENT_OPENING.format(signature=ast.unparse(init.args), arguments=f"daemon, {keywords}")
    parsed = ast.parse(text).body
    made = parsed[0]
    assert isinstance(made, ast.FunctionDef)
    made.body += namespaces(init)
    return parsed


def namespaces(init: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    """Yield assignments of the client's components: parts with a twin, and namespaces."""
    for each in init.body:
        match each:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=ast.Name(id=made))):
                twin = PARTS.get(name) or (twin_name(made) if made.startswith("Async") else "")
                if twin:
                    yield from ast.parse(f"self.{name} = {twin}(self._background, self._client.{name})").body


# ------------------------------------------------------------------------------------------------ methods


def method_of(method: ast.FunctionDef | ast.AsyncFunctionDef, public: set[str]) -> ast.FunctionDef:
    """Generate the blocking twin of a method."""
    copied = touched(method) <= public | set(PARTS)
    body = [Blocking().visit(each) for each in method.body[1:]] if copied else [handed_over(method)]
    returns = Blocking().visit(method.returns) if method.returns else None
    if made := made_by(method):
        returns = ast.Name(made)
    if returns is not None and method.name in IN_LOOP:
        returns = of_threads(returns)
    fields = dict(ast.iter_fields(method)) | {"args": Blocking().visit(method.args), "returns": returns}
    return ast.fix_missing_locations(ast.FunctionDef(**fields | {"body": [docstring(method), *body]}))


def of_threads(returns: ast.expr) -> ast.expr:
    """Return the type that a method of IN_LOOP returns to a thread."""
    text = ast.unparse(returns)
    for name, twin in RETURNED.items():
        text = text.replace(name, twin)
    return ast.parse(text, mode="eval").body


def touched(method: ast.AST) -> set[str]:
    """Return the attributes of ``self`` that a body uses."""
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def handed_over(method: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """Generate the statement that runs a method in the event loop."""
    if any(isinstance(each, ast.Name) and each.id == "property" for each in method.decorator_list):
        return ast.parse(f"return self._client.{method.name}").body[0]
    if method.name in IN_LOOP:
        call = f"partial({', '.join([f'self._client.{method.name}', *passed(method.args)])})"
        return ast.parse(f"return {IN_LOOP[method.name].format(call=call)}").body[0]
    call = f"self._client.{method.name}({', '.join(passed(method.args))})"
    if made := made_by(method):
        return ast.parse(f"return {made}(self._background, {call})").body[0]
    returned = ast.unparse(method.returns) if method.returns else ""
    if returned.startswith("AsyncGenerator"):
        return ast.parse(f"return self._background.iterate({call})").body[0]
    if returned.startswith("AbstractAsyncContextManager"):
        return ast.parse(f"return self._background.within({call})").body[0]
    if isinstance(method, ast.FunctionDef):
        return ast.parse(f"return {call}").body[0]
    returns = "" if returned == "None" else "return "
    return ast.parse(f"{returns}self._background.run({call})").body[0]


def made_by(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the name of the twin of a method's result, if it has one."""
    returned = method.returns
    return twin_name(returned.id) if isinstance(returned, ast.Name) and returned.id.startswith("Async") else ""


def passed(arguments: ast.arguments) -> Iterator[str]:
    """Yield the arguments of a method, as they are passed on."""
    yield from (each.arg for each in arguments.args[1:])
    if arguments.vararg:
        yield f"*{arguments.vararg.arg}"
    yield from (f"{each.arg}={each.arg}" for each in arguments.kwonlyargs)
    if arguments.kwarg:
        yield f"**{arguments.kwarg.arg}"


class Blocking(ast.NodeTransformer):
    """Transformer that removes everything asynchronous from code and annotations."""

    def visit_Await(self, node: ast.Await) -> ast.expr:
        """Drop ``await``."""
        return self._seen(node.value)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.For:
        """Make a plain loop."""
        self.generic_visit(node)
        return ast.For(node.target, node.iter, node.body, node.orelse)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.With:
        """Make a plain block."""
        self.generic_visit(node)
        return ast.With(node.items, node.body)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Drop ``_async`` from names of twins' methods."""
        self.generic_visit(node)
        node.attr = node.attr.removesuffix("_async")
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Make ``Iterable[T]`` of ``Iterable[T] | AsyncIterable[T]``."""
        if ast.unparse(node.right).startswith("AsyncIterable["):
            return self._seen(node.left)
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Make ``Iterator[T]`` of ``AsyncGenerator[T, None]``."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in ANNOTATIONS:
            if node.value.id == "AsyncGenerator" and isinstance(node.slice, ast.Tuple):
                node.slice = node.slice.elts[0]
            node.value.id = ANNOTATIONS[node.value.id]
        return node

    def _seen(self, node: ast.expr) -> ast.expr:
        seen = self.visit(node)
        assert isinstance(seen, ast.expr)
        return seen


# ------------------------------------------------------------------------------------------------ texts


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Expr:
    """Copy a docstring, rewritten for the twin."""
    said = ast.get_docstring(node, clean=False) or ""
    said = re.sub(r"\bawait |\basync (?=with\b|for\b|def\b)|\bAsync(?=Client\b)", "", said)
    paragraphs = [each for each in re.split(r"\n\s*\n", said) if "event loop" not in each]
    if node.name == "AsyncClient":
        paragraphs.insert(1, CLIENT_NOTE.strip("\n").rstrip())
    return ast.Expr(ast.Constant("\n\n".join(paragraphs)))


def formatted(text: str, path: Path) -> str:
    """Format a text with ruff, without unused imports."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    ours = 'lint.isort.known-first-party=["taskqueue"]'  # Also if the file doesn't exist yet.
    tidy = ["--quiet", "--fix-only", "--unsafe-fixes", "--select", "F401,I,UP028", "--config", ours]
    name = ["--stdin-filename", str(path), "-"]
    for command in (["check", *tidy, *name], ["format", "--quiet", *name]):
        text = subprocess.run([*ruff, *command], input=text, capture_output=True, text=True, check=True).stdout
    return text


def differing(made: dict[Path, str], folder: Path = TARGET) -> Iterable[Path]:
    """Yield files of the folder that differ from the generated ones, or would not be generated."""
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    return sorted([*stale, *(set(folder.glob("*.py")) - made.keys())])


def main() -> int:
    """Write the files, or report how they differ."""
    made = twins()
    if "--check" in sys.argv[1:]:
        for path in (stale := list(differing(made))):
            print(f"{path}: not what `python -m tools.blocking_client` makes; run it")
        return 1 if stale else 0
    for path in differing(made):
        if path in made:
            path.write_text(made[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
