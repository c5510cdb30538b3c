"""The package that users install: made of this tree, unpacked, and used in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.manual import COMPLETIONS

ROOT = Path(__file__).parents[2]
NOT_SOURCES = (
    ".git", ".venv*", "build", "dist", "share", "data", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis",
    ".coverage*",
)  # fmt: skip
"""Names of files in a checkout that are no sources."""
SHELL_FILES = {f"share/{path}" for path in COMPLETIONS.values()}
ADDRESS = "https://forge.example/a/b"
DESCRIBE = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
PACK = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"

README = """# A

![a picture](docs/img/a.png)

[a page](docs/a.md#b), [here](#a), [elsewhere](https://example.com/) ![there](https://example.com/c.png)
```python
pages[0](docs)
```
"""
LED_HOME = """# A

![a picture](https://forge.example/a/b/raw/main/docs/img/a.png)

[a page](https://forge.example/a/b/blob/main/docs/a.md#b), [here](#a), [elsewhere](https://example.com/) \
![there](https://example.com/c.png)
```python
pages[0](docs)
```
"""
CUT_LOOSE = """# A

a page, [here](#a), [elsewhere](https://example.com/) ![there](https://example.com/c.png)
```python
pages[0](docs)
```
"""


def build(call: str, tree: Path, target: Path, address: str = "") -> None:
    """Have setuptools make something of a tree."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TASKQUEUE_REPOSITORY": address}
    subprocess.run([sys.executable, "-c", call, target], cwd=tree, env=environment, check=True, capture_output=True)


def described(tree: Path, target: Path, address: str) -> Message:
    """Metadata of a package of the tree, built where its repository has that address."""
    target.mkdir()
    build(DESCRIBE, tree, target, address)
    (made,) = target.glob("*.dist-info/METADATA")
    return message_from_string(made.read_text())


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy of the sources with what ``make manual`` makes; nothing which is made of them lies about here."""
    copy = tmp_path_factory.mktemp("copy") / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    subprocess.run([sys.executable, "-m", "tools.manual", "share"], cwd=copy, check=True)
    return copy


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an unpacked archive of the sources."""
    target = tmp_path_factory.mktemp("sdist")
    build(PACK, tree, target)
    (made,) = target.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        archive.extractall(target, filter="data")
    return target / made.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the archive of the sources."""
    target = tmp_path_factory.mktemp("wheel")
    build(BUILD, sdist, target)
    (made,) = target.glob("*.whl")
    return made


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def files_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files below a folder by their paths there, without what setuptools adds or writes anew."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    added = re.compile(r"[^/]*\.egg-info/.*|build/.*|PKG-INFO|setup\.cfg")
    return {name: path.read_bytes() for name, path in paths.items() if not added.fullmatch(name)}


def test_the_archive_of_the_sources_has_every_file_and_is_what_a_wheel_is_built_from(tree: Path, sdist: Path) -> None:
    sources, packed = files_of(tree), files_of(sdist)

    assert sources == packed
    assert {name.partition("/")[0] for name in packed} >= {"conf", "docs", "examples", "taskqueue", "tests", "tools"}


def test_the_wheel_has_modules_pages_scripts_the_default_config_the_types_the_manual_and_the_licence(
    wheel: Path,
) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        config = archive.read("taskqueue/server/taskqueue.toml")
        (licence,) = (archive.read(name) for name in names if name.endswith("/LICENSE"))

    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "taskqueue").rglob("*.py")}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "taskqueue/web").rglob("*.*") if "__" not in str(path)}
    assert modules | pages | {"taskqueue/py.typed"} <= names
    data = {name.partition(".data/data/")[2] for name in names} - {""}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name and ".data/" not in name} == {"taskqueue"}
    assert data >= {"share/man/man1/taskqueue.1", "share/man/man1/taskqueue-work.1", *SHELL_FILES}
    assert config == (ROOT / "conf" / "taskqueue.toml").read_bytes()
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_package_says_what_it_is_who_makes_it_and_under_which_licence_in_one_place(wheel: Path) -> None:
    told = metadata(wheel)

    assert (told["Name"], told["License-Expression"]) == ("taskqueue-scheduler", "Apache-2.0")
    assert "License" not in told
    assert not [each for each in told.get_all("Classifier", []) if each.startswith("License")]
    assert told["Author"] == "The taskqueue developers"
    assert "crawler" in told["Keywords"]


def test_the_page_of_the_package_has_no_relative_links_with_or_without_an_address(tree: Path, tmp_path: Path) -> None:
    relative = re.compile(r"\]\((?!https://|#)")

    home, alone = described(tree, tmp_path / "home", ADDRESS), described(tree, tmp_path / "alone", "")

    assert relative.search((tree / "README.md").read_text())
    assert not relative.search(str(home.get_payload()))
    assert not relative.search(str(alone.get_payload()))
    assert home.get_all("Project-URL") == [
        f"Source, {ADDRESS}",
        f"Documentation, {ADDRESS}/blob/main/docs/index.md",
        f"Changelog, {ADDRESS}/blob/main/CHANGELOG.md",
    ]
    assert "Project-URL" not in alone


def test_links_of_the_readme_lead_into_the_repository_or_become_text(tree: Path, tmp_path: Path) -> None:
    small = tmp_path / "tree"
    small.mkdir()
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "LICENSE"):
        shutil.copy(tree / name, small)
    (small / "README.md").write_text(README)

    assert described(small, tmp_path / "home", ADDRESS).get_payload() == LED_HOME
    assert described(small, tmp_path / "alone", "").get_payload() == CUT_LOOSE


def test_what_is_installed_from_the_wheel_writes_the_config_files_of_this_tree(wheel: Path, tmp_path: Path) -> None:
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
    assert run("config", "board") == (ROOT / "conf" / "grafana-dashboard.json").read_text()
    assert run("config", "alerts") == (ROOT / "conf" / "prometheus-alerts.yml").read_text()
