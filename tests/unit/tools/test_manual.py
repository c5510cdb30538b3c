"""Manual pages are made from the commands' own help, and roff understands them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from taskqueue.cli.main import COMMANDS, taskqueue
from tools.manual import COMPLETIONS, escaped, main, pages
from tools.reference import commands

ROOT = Path(__file__).parents[3]


def test_each_command_has_its_usage_and_each_of_its_options_in_a_page() -> None:
    made = dict(pages())

    assert made.keys() == {"taskqueue", *(f"taskqueue-{name}" for name in COMMANDS)}
    for name, command in commands(taskqueue):
        page = made["-".join(name.split()[:2])]
        shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        assert f".B {escaped(name)}\n" in page
        assert [each.opts for each in shown if escaped(each.opts[-1]) not in page] == []


def test_pages_that_the_units_name_are_made() -> None:
    named = {found for unit in (ROOT / "conf").glob("*.service") for found in _pages_of(unit)}

    assert named
    assert named <= dict(pages()).keys()


def _pages_of(unit: Path) -> list[str]:
    return re.findall(r"man:([\w-]+)\(1\)", unit.read_text())


def test_text_is_printed_as_it_is() -> None:
    assert escaped(".so a\n'b \\ --json …") == "\\&.so a\n\\&'b \\e \\-\\-json \\[u2026]"


def test_pages_and_completions_are_written_where_programs_look_for_them(tmp_path: Path) -> None:
    main(tmp_path)

    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {f"man/man1/{name}.1" for name, _ in pages()} | set(COMPLETIONS.values())
    assert "_TASKQUEUE_COMPLETE=zsh_complete" in (tmp_path / "zsh/site-functions/_taskqueue").read_text()


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff, which prints manual pages")
def test_roff_finds_nothing_wrong_in_a_page() -> None:
    text = "\n".join(page for _, page in pages())

    said = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True, check=True
    )

    assert said.stderr == ""
