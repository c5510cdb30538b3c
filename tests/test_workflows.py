"""Workflows build and test what the package says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return read


def said_versions() -> list[str]:
    """Versions of Python in the classifiers of setup.cfg."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    versions = re.findall(r"^Programming Language :: Python :: (.*)$", config["metadata"]["classifiers"], re.MULTILINE)
    assert config["options"]["python_requires"] == f">={versions[0]}"
    return versions


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_as_its_schema_says(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]

    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stdout


def test_wheels_are_built_for_each_python_of_the_classifiers_on_both_processors() -> None:
    compiled = workflow("release.yml")["jobs"]["compiled"]
    (built,) = (step["env"] for step in compiled["steps"] if "cibuildwheel" in step.get("uses", ""))

    assert built["CIBW_BUILD"].split() == [f"cp{each.replace('.', '')}-manylinux_*" for each in said_versions()]
    assert compiled["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]


def test_everything_is_tested_with_each_python_of_the_classifiers() -> None:
    matrix = workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]

    assert matrix["python"] == said_versions()
    assert [each["python"] for each in matrix["include"]] == said_versions()[:1]


def test_a_release_is_checked_and_uploaded_with_attestations_and_without_a_password() -> None:
    jobs = workflow("release.yml")["jobs"]
    upload = jobs["upload"]
    (publish,) = (step for step in upload["steps"] if step["uses"].startswith("pypa/gh-action-pypi-publish@"))

    assert {"run": "make package"} in jobs["package"]["steps"]
    assert upload["needs"] == ["package", "compiled"]
    assert upload["permissions"] == {"id-token": "write"}
    assert publish["with"] == {"attestations": True}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
