"""Reference pages made of the code, as Markdown: ``python -m tools.reference NAME`` prints one.

A document says ``<!-- made: NAME -->``, and docs/conf.py puts the text of that name in its place:

    settings    conf/taskqueue.toml                     a table per section
    commands    help texts of the commands              a heading per command
    operations  OpenAPI document of the HTTP interface  a heading per operation
    metrics     table of metrics, conf/prometheus-alerts.yml
    namespaces, python, types, exceptions               docstrings of public names
    codes       docs/reference/protocol.md              error codes of the daemon
    contents    files of a folder                       table of contents
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import click

import taskqueue
from taskqueue import Client, errors, http, robots, types
from taskqueue.cli.main import taskqueue as program

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
MARK: Final = re.compile(r"<!-- made: ([\w-]+)(?: ([\w/-]+))? -->")
FIRST: Final = ("index", "install", "tutorial")
"""Pages with which a folder begins, unless its index page links to them in another order."""
LAST: Final = ("when-not",)

SECTION: Final = re.compile(r"\[(\w+)\]\s*(?:# (.*))?")
SETTING: Final = re.compile(r'([\w.]+) = ("[^"]*"|\[[^]]*\]|\S+)\s*# (.*)')
SPECIAL: Final = re.compile(r"([\\*_<>\[\]#~])")
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
ALERT: Final = re.compile(r"- alert: (\w+)\s+expr: (.*?)\s+(?:for|labels):", re.DOTALL)


def fill(text: str) -> str:
    """The document with each mark replaced by the text that it names.

    Raises:
        KeyError: a mark has an unknown name.
    """
    return MARK.sub(lambda mark: MADE[mark[1]](*filter(None, [mark[2]])), text)


def headings(text: str) -> set[str]:
    """Names by which forges and Sphinx link to the headings of a document."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def plain(text: str) -> str:
    """The text with options as code and Markdown's characters escaped, but for code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return OPTION.sub(lambda option: code(option[0]), SPECIAL.sub(r"\\\1", text))


def code(text: str) -> str:
    """The text as code in a line; empty if it is."""
    return f"`{text}`" if text else ""


def fenced(language: str, text: str) -> str:
    """The text as a block of a language."""
    return f"```{language}\n{text}\n```\n\n"


# ---------------------------------------------------------------------------------------- contents


def contents(folder: str) -> str:
    """Table of contents of a folder: pages in the order of its index page, then all others by name."""
    paths = {path.stem: path for path in (DOCS / folder).glob("*.md")}
    index = paths["index"].read_text(encoding="utf-8") if "index" in paths else ""
    order = ["index", *re.findall(r"\]\(([\w-]+)\.md", index), *FIRST, *sorted(paths.keys() - set(LAST)), *LAST]
    names = [f"{folder}/{name}" for name in dict.fromkeys(order) if name in paths]
    return fenced("{toctree}", "\n".join([":hidden:", ":maxdepth: 1", f":caption: {CAPTIONS[folder]}", "", *names]))


CAPTIONS: Final = {
    "start": "Start",
    "howto": "How-to",
    "reference": "Reference",
    "why": "Why",
    "why/decisions": "Decisions",
}

# ---------------------------------------------------------------------------------------- settings


def settings() -> str:
    """A table for each section of the config file, then its commented examples."""
    lines = (ROOT / "conf" / "taskqueue.toml").read_text(encoding="utf-8").splitlines()
    return "\n".join([*_sections(lines), "## Sections of projects and buckets\n", _examples(lines)])


def _sections(lines: Sequence[str]) -> Iterator[str]:
    starts = [number for number, line in enumerate(lines) if SECTION.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, meaning = SECTION.findall(lines[start])[0]
        found = [SETTING.fullmatch(line) for line in lines[start + 1 : end]]
        rows = [(code(row[1]), code(row[2]), plain(row[3])) for row in found if row]
        yield f"## [{name}]\n\n{plain(meaning)}\n\n{table(('setting', 'default', 'meaning'), rows)}"


def _examples(lines: Sequence[str]) -> str:
    last = max(number for number, line in enumerate(lines) if SETTING.fullmatch(line))
    commented = [line.removeprefix("#").removeprefix(" ") for line in lines[last + 1 :]]
    first = next(number for number, line in enumerate(commented) if line.startswith("["))
    return f"{plain(' '.join(commented[:first]).strip())}\n\n{fenced('toml', chr(10).join(commented[first:]).strip())}"


# ---------------------------------------------------------------------------------------- commands


def commands(group: click.Group, prefix: str = "taskqueue") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name; a group is one if it does something by itself."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{prefix} {name}", command


def all_commands() -> str:
    """A heading for each command: its usage, help, options and examples."""
    return "\n".join(_command(name, command) for name, command in commands(program))


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    options = table(("option", "meaning"), [(code(record[0]), plain(record[1])) for record in records if record])
    return f"## {name}\n\n{fenced('text', usage)}{''.join(map(_paragraph, paragraphs))}{options}"


def _paragraph(text: str) -> str:
    if not text.startswith("\b"):
        return f"{plain(' '.join(text.split()))}\n\n"
    lines = text.removeprefix("\b\n").splitlines()
    head, block = (lines[0], lines[1:]) if not lines[0].startswith(" ") else ("", lines)
    shown = fenced("sh" if head.startswith("Example") else "text", inspect.cleandoc("\n" + "\n".join(block)))
    return (f"{plain(head)}\n\n" if head else "") + (shown if block else "")


# ---------------------------------------------------------------------------------------- HTTP


def operations() -> str:
    """A table of all operations of the HTTP interface, then a heading for each."""
    from taskqueue.web.api.interface import OPERATIONS
    from taskqueue.web.api.openapi import document

    described = document(OPERATIONS)
    rows = [(code(each.method), code(each.path), each.right, plain(each.summary)) for each in OPERATIONS]
    parts = [_operation(f"{each.method} {each.path}", described, described["paths"][each.path]) for each in OPERATIONS]
    return "\n".join([table(("method", "below `/api/v1`", "right", "meaning"), rows), *parts])


def _operation(name: str, document: Mapping[str, Any], path: Mapping[str, Any]) -> str:
    it = path[name.partition(" ")[0].lower()]
    said = [(each["name"], each["in"], each) for each in it.get("parameters", ()) if each["in"] != "header"]
    body = it.get("requestBody", {}).get("content", {}).get("application/json", {})
    said += [(field, "body", about) for field, about in _resolved(body, document).get("properties", {}).items()]
    rows = [(code(field), place, plain(about.get("description", ""))) for field, place, about in said]
    fields = table(("field", "in", "meaning"), rows) + "\n" if rows else ""
    shown = "".join(_example(head, content) for head, content in _contents(it))
    return f"## {plain(name)}\n\n{plain(it['summary'])}. Right: {it['x-right']}.\n\n{fields}{shown}"


def _resolved(body: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = body.get("schema", {})
    named: Mapping[str, Any] = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return named


def _contents(operation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "Request", operation.get("requestBody", {}).get("content", {})
    yield "Reply", operation["responses"].get("200", {}).get("content", {})


def _example(head: str, content: Mapping[str, Any]) -> str:
    import json

    example = content.get("application/json", {}).get("example")
    return "" if example is None else f"{head}:\n\n{fenced('json', json.dumps(example, indent=2))}"


# ---------------------------------------------------------------------------------------- metrics


def metrics() -> str:
    """A table of all metrics, with the alerts that ask for each."""
    from taskqueue.web.metrics import DAEMON_METRICS, PROJECT_METRICS, UP

    alerts = ALERT.findall((ROOT / "conf" / "prometheus-alerts.yml").read_text(encoding="utf-8"))
    rows = []
    for metric in (UP, *DAEMON_METRICS, *PROJECT_METRICS):
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        asking = [alert for alert, query in alerts if re.search(rf"\b{name}(_bucket|_sum|_count)?\b", query)]
        labels = ", ".join(map(code, metric.labels))
        rows.append((code(name), metric.kind, labels, plain(metric.meaning), ", ".join(map(code, asking))))
    return table(("metric", "type", "labels", "meaning", "alerts"), rows)


# ---------------------------------------------------------------------------------------- errors


def codes() -> str:
    """The table of error codes of the protocol."""
    protocol = (DOCS / "reference" / "protocol.md").read_text(encoding="utf-8")
    found = re.search(r"^\| code \| meaning \|.*\n(?:\|.*\n)+", protocol, re.MULTILINE)
    assert found is not None, "docs/reference/protocol.md: there is no table of error codes"
    return re.sub(r"\]\(#", "](protocol.md#", found[0])


def exceptions() -> str:
    """A heading for each exception that users may see, with its docstring."""
    public = [name for name in taskqueue.__all__ if issubclass(_class(name), errors.TaskQueueError)]
    return "".join(_documented("taskqueue", name) for name in sorted(public, key=_depth))


def _class(name: str) -> type[Any]:
    value = getattr(taskqueue, name)
    return value if isinstance(value, type) else type(None)


def _depth(name: str) -> tuple[int, str]:
    return len(_class(name).__mro__), name


# ---------------------------------------------------------------------------------------- Python


def namespaces() -> str:
    """A table of the namespaces of a client and their methods."""
    rows = [(code(f"client.{name}"), ", ".join(map(code, methods(kind)))) for name, kind in name_namespaces().items()]
    return table(("namespace", "methods"), rows)


def python() -> str:
    """A heading for each public name and each namespace, with its docstrings."""
    named = [name for name in taskqueue.__all__ if not issubclass(_class(name), errors.TaskQueueError)]
    parts = [_documented("taskqueue", "Client"), *(_namespace(*each) for each in name_namespaces().items())]
    parts += [_documented("taskqueue", name) for name in named if name != "Client"]
    parts += [_documented(module.__name__, name) for module in (http, robots) for name in module.__all__]
    return "".join(parts)


def type_names() -> str:
    """A heading for each public type, with its docstring or its values."""
    return "".join(_documented("taskqueue.types", name) for name in types.__all__)


def name_namespaces() -> dict[str, type[Any]]:
    """Classes of the namespaces of a client, by name; each becomes an attribute of ``Client``, for autodoc."""
    with Client("tcp://127.0.0.1:9") as client:
        found = namespaces_of(client)
    for name, kind in found.items():
        setattr(Client, name, kind)
    return found


def namespaces_of(client: Client) -> dict[str, type[Any]]:
    """Classes of the namespaces of a client, by name."""
    return {name: type(value) for name, value in vars(client).items() if _is_namespace(name, value)}


def _is_namespace(name: str, value: object) -> bool:
    return not name.startswith("_") and type(value).__module__.startswith("taskqueue.client.blocking")


def methods(kind: type[Any]) -> list[str]:
    """Names of its public methods, in the order of the source."""
    return [name for name, value in vars(kind).items() if not name.startswith("_") and inspect.isroutine(value)]


def _namespace(name: str, kind: type[Any]) -> str:
    lines = [f".. automethod:: taskqueue.Client.{name}.{method}" for method in methods(kind)]
    return f"## client.{name}\n\n{fenced('{eval-rst}', chr(10).join(lines))}"


def _documented(module: str, name: str) -> str:
    value = getattr(sys.modules[module], name)
    if get_args(value) and not isinstance(value, type):
        texts = ", ".join(code(str(each)) for each in _values(value))
        return f"## {name}\n\nOne of {texts}.\n\n"
    kind = "function" if inspect.isroutine(value) else "exception" if issubclass(value, Exception) else "class"
    members = "" if kind == "function" or name == "AsyncClient" else "\n   :members:"
    return f"## {name}\n\n{fenced('{eval-rst}', f'.. auto{kind}:: {module}.{name}{members}')}"


def _values(alias: Any) -> Iterator[object]:
    """Texts of a ``Literal``, or types of a union."""
    for each in get_args(alias):
        yield each if isinstance(each, str) else getattr(each, "__name__", str(each))


MADE: Final[dict[str, Callable[..., str]]] = {
    "contents": contents,
    "settings": settings,
    "commands": all_commands,
    "operations": operations,
    "metrics": metrics,
    "codes": codes,
    "exceptions": exceptions,
    "namespaces": namespaces,
    "python": python,
    "types": type_names,
}
"""Texts by the name that a document gives in a mark."""


if __name__ == "__main__":
    print(MADE[sys.argv[1]](*sys.argv[2:]))
