"""Build script: what is compiled if TASKQUEUE_COMPILE is 1, and the package's page; everything else is in setup.cfg."""

from __future__ import annotations

import os
import re
import sys
from configparser import ConfigParser
from pathlib import Path

from setuptools import Extension, setup

FOLDERS = ("taskqueue/core", "taskqueue/settings", "taskqueue/store/records")
"""Folders whose modules are all compiled."""
MODULES = (
    "taskqueue/client/connection/session.py",
    "taskqueue/hosts/url_hosts.py",
    "taskqueue/protocol/checks.py",
    "taskqueue/protocol/host_verdicts.py",
    "taskqueue/protocol/message_room.py",
    "taskqueue/server/engine.py",
    "taskqueue/server/loop.py",
    "taskqueue/server/network/connections.py",
    "taskqueue/server/network/receiver.py",
    "taskqueue/server/network/frame_queue.py",
    "taskqueue/server/network/router.py",
    "taskqueue/store/batch.py",
    "taskqueue/store/ledger.py",
    "taskqueue/store/lookup.py",
    "taskqueue/store/rocksdb/engine.py",
    "taskqueue/store/rocksdb/rocks_store.py",
)
COMPILING = frozenset({"bdist_wheel", "build_ext"})
"""Commands of setuptools that need compiled modules."""
BEST = "3"
"""Default of MYPYC_OPT_LEVEL; a quick build sets 1."""
ACROSS_FILES = ["-flto=auto", "-fno-semantic-interposition"]
"""Calls from one module to another are compiled like those within one: 0.94 to 0.98 of the CPU of a lifecycle."""
REPOSITORY = os.environ.get("TASKQUEUE_REPOSITORY", "").rstrip("/")
"""Web address of the repository; only the build of a release knows it."""
HERE = r"(?![a-z]+:|#)[^)\s]+"
"""Path of a file of this repository in a link."""
PICTURE = re.compile(rf"(!\[[^\]]*\]\()({HERE})")
LINK = re.compile(rf"(\]\()({HERE})")
WHOLE_PICTURE = re.compile(rf"!\[[^\]]*\]\({HERE}\)\n*")
LINKED_TEXT = re.compile(rf"\[([^\]]*)\]\({HERE}\)")
HAS_STRUCTS = re.compile(r"^from msgspec import .*\bStruct\b", re.MULTILINE)
"""Structs stay interpreted, and so do the modules that define them."""


def configured() -> ConfigParser:
    """Read setup.cfg."""
    config = ConfigParser()
    config.read("setup.cfg", encoding="utf-8")
    return config


def description() -> str:
    """README.md without relative links: they lead into the repository, or become text if its address is unknown."""
    text = Path("README.md").read_text(encoding="utf-8")
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    # Every second part is a block of code.
    if REPOSITORY:
        lead = rf"\1{REPOSITORY}/blob/main/\2"
        parts[::2] = [LINK.sub(lead, PICTURE.sub(rf"\1{REPOSITORY}/raw/main/\2", part)) for part in parts[::2]]
    else:
        parts[::2] = [re.sub(LINKED_TEXT, r"\1", re.sub(WHOLE_PICTURE, "", part)) for part in parts[::2]]
    return "".join(parts)


def project_urls() -> dict[str, str]:
    """Links of the package's page; none if the address of the repository is unknown."""
    pages = {"Source": "", "Documentation": "/blob/main/docs/index.md", "Changelog": "/blob/main/CHANGELOG.md"}
    return {name: f"{REPOSITORY}{page}" for name, page in pages.items()} if REPOSITORY else {}


def sources() -> list[str]:
    """Return paths of the modules that are compiled."""
    found = [path for folder in FOLDERS for path in sorted(Path(folder).rglob("*.py")) if path.name != "__init__.py"]
    found += map(Path, MODULES)
    return [str(path) for path in found if not HAS_STRUCTS.search(path.read_text(encoding="utf-8"))]


def extensions() -> list[Extension]:
    """Make the compiled core with mypyc; ``make types`` reports type errors of other modules."""
    from mypyc.build import mypycify

    options = [
        "--cache-dir=build/mypy",
        "--follow-imports=silent",
        "--ignore-missing-imports",
        "--explicit-package-bases",
        *sources(),
    ]
    level = os.environ.get("MYPYC_OPT_LEVEL", BEST)
    made: list[Extension] = mypycify(options, opt_level=level, multi_file=True, group_name="taskqueue")
    if level == BEST:
        for extension in made:
            extension.extra_compile_args += ACROSS_FILES
            extension.extra_link_args += [*ACROSS_FILES, f"-O{level}"]
    return made


def needed() -> list[str]:
    """What must be there to compile: the compiler, and what the sources import, for its types."""
    lines = configured()["options"]["install_requires"].splitlines()
    return ["mypy[mypyc] >= 2.4", *(line for line in lines if line and not line.startswith("#"))]


def shared() -> list[tuple[str, list[str]]]:
    """Units of systemd; and manual pages and completions of shells, if ``make manual`` has made them; by folder."""
    units = [str(path) for path in sorted(Path("conf").glob("taskqueue*")) if path.suffix != ".toml"]
    manual = [path for path in sorted(Path("share").rglob("*")) if path.is_file()]
    return [("share/taskqueue", units), *((str(path.parent), [str(path)]) for path in manual)]


ALWAYS = {"long_description": description(), "project_urls": project_urls(), "data_files": shared()}
"""What is not in setup.cfg of every build."""

if os.environ.get("TASKQUEUE_COMPILE") != "1":
    setup(**ALWAYS)
elif COMPILING.isdisjoint(sys.argv):
    # pip asks first what it is to install before it builds, and what the package is called.
    setup(setup_requires=needed(), **ALWAYS)
else:
    setup(ext_modules=extensions(), **ALWAYS)
