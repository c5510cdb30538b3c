"""The wheel that users install: made of this tree, and used in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "conf", "taskqueue")
DESCRIBE = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"

README = """# A
![a picture](docs/img/a.png) [a page](docs/a.md#b), [here](#a), [elsewhere](https://example.com/)
[![badge](docs/b.svg)](CHANGELOG.md) <img alt="x" src="docs/c.png"> <a href="LICENSE">the licence</a>
```python
pages[0](docs)
```
"""
DESCRIPTION = """# A
![a picture](https://forge.example/a/b/raw/main/docs/img/a.png) \
[a page](https://forge.example/a/b/blob/main/docs/a.md#b), [here](#a), [elsewhere](https://example.com/)
[![badge](https://forge.example/a/b/raw/main/docs/b.svg)](https://forge.example/a/b/blob/main/CHANGELOG.md) \
<img alt="x" src="https://forge.example/a/b/raw/main/docs/c.png"> \
<a href="https://forge.example/a/b/blob/main/LICENSE">the licence</a>
```python
pages[0](docs)
```
"""


def copy_tree(tree: Path) -> None:
    """Copy what a wheel is built from, so that nothing of it lies about here; nothing is fetched for it."""
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree)


def build(call: str, tree: Path, target: Path) -> None:
    """Have setuptools make something of a tree."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", call, target], cwd=tree, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    tree, target = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    copy_tree(tree)
    build(BUILD, tree, target)
    (made,) = target.glob("*.whl")
    return made


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_wheel_has_every_module_page_and_script_the_default_config_the_types_and_the_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        config = archive.read("taskqueue/server/taskqueue.toml")
        (licence,) = (archive.read(name) for name in names if name.endswith("/LICENSE"))

    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "taskqueue").rglob("*.py")}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "taskqueue/web").rglob("*.*") if "__" not in str(path)}
    assert modules | pages | {"taskqueue/py.typed"} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"taskqueue"}
    assert config == (ROOT / "conf" / "taskqueue.toml").read_bytes()
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_says_what_it_is_who_makes_it_and_under_which_licence(wheel: Path) -> None:
    told = metadata(wheel)

    assert (told["Name"], told["License"]) == ("taskqueue-scheduler", "Apache-2.0")
    assert told["Author"] == "The taskqueue developers"
    assert "crawler" in told["Keywords"]
    assert told.get_payload() == (ROOT / "README.md").read_text()


def test_the_description_leads_into_the_repository_if_its_address_is_known(tmp_path: Path) -> None:
    tree, target = tmp_path / "tree", tmp_path / "target"
    tree.mkdir()
    target.mkdir()
    copy_tree(tree)
    named = "[metadata]\nproject_urls =\n    Documentation = https://docs.example/\n    Source = https://forge.example/a/b/\n"
    (tree / "setup.cfg").write_text((ROOT / "setup.cfg").read_text().replace("[metadata]\n", named, 1))
    (tree / "README.md").write_text(README)

    build(DESCRIBE, tree, target)
    (made,) = target.glob("*.dist-info/METADATA")

    assert message_from_string(made.read_text()).get_payload() == DESCRIPTION


def test_what_is_installed_from_the_wheel_writes_a_config_file_that_it_calls_good(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with ZipFile(wheel) as archive:
        archive.extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "taskqueue.cli.main", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import taskqueue; print(taskqueue.__file__)"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(installed))
    assert "taskqueue.toml: written" in run("config", "init")
    assert "taskqueue.toml: good" in run("config", "check", "taskqueue.toml")
