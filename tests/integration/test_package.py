"""The package that users install: made of this tree, unpacked, and used in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from taskqueue.access.private_file import flaw_of
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
    added = re.compile(r"[^/]*\.egg-info/.*|build/.*|PKG-INFO|setup\.cfg|.*\.pyc")
    return {name: path.read_bytes() for name, path in paths.items() if not added.fullmatch(name)}


def test_the_archive_of_the_sources_has_every_file_and_is_what_a_wheel_is_built_from(tree: Path, sdist: Path) -> None:
    sources, packed = files_of(tree), files_of(sdist)

    assert sources == packed
    assert {name.partition("/")[0] for name in packed} >= {"conf", "docs", "examples", "taskqueue", "tests", "tools"}


def test_the_wheel_has_modules_pages_scripts_the_default_config_units_types_the_manual_and_the_licence(
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
    units = {"taskqueue.service", "taskqueue-worker@.service", "taskqueue.sysusers", "taskqueue.tmpfiles"}
    assert {Path(each).name for each in data if each.startswith("share/taskqueue/")} == units
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


# ---------------------------------------------------------------------------------------- containers

COMPOSE = yaml.safe_load((ROOT / "compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
ALONE = [*ORDINARY, "unshare", "--map-root-user", "--net"]
"""Beginning of a command that runs as an ordinary user in a network of its own."""
UP = "import fcntl,socket,struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))"
"""Program that sets the flag IFF_UP of the loopback interface."""
GET = "import sys,urllib.request as r; print(r.urlopen(r.Request(sys.argv[1], headers={{{0}}})).status)"

INSTALL = "python -m pip install --no-deps --ignore-installed"
"""Beside the packages of the tests, which stand for all wheels but one."""
STEPS = """
exec 2>&1
trap 'kill $site $first $second $daemon 2> /dev/null || :' EXIT
umask 022
python -c "{up}"
{environment}
{install}
cd {data}
{keys}
{keys}
({daemon}) & daemon=$!
until {health} > /dev/null; do kill -0 $daemon; done
{health}
python -c "{get}" http://127.0.0.1:7401/metrics
python -m http.server 8000 --bind 127.0.0.1 --directory {site} & site=$!
taskqueue project start demo > /dev/null
taskqueue push demo http://127.0.0.1:8000/
({worker}) & first=$!
({worker}) & second=$!
until test $(taskqueue fetcher list | grep -c demo) = 2; do kill -0 $first $second; done
taskqueue project wait demo --timeout 200s > /dev/null
taskqueue task list demo
kill $first $second && wait $first $second
kill $daemon && wait $daemon
"""


def instruction(name: str) -> list[str]:
    """Texts of an instruction of the last stage of the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE.rpartition("\nFROM ")[2], re.MULTILINE)


def exported(service: str) -> str:
    """Shell words that set the variables of a service of the compose file."""
    variables = COMPOSE["services"][service]["environment"]
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


@pytest.fixture
def python_of_all() -> str:
    """This Python, or one of the same version that an ordinary user may run, with the packages of this one."""
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    for each in filter(None, (sys.executable, shutil.which(f"/usr/bin/python3.{sys.version_info.minor}"))):
        command = [*ALONE, each, "-c", "import msgspec, venv"]
        if subprocess.run(command, env=packages, check=False, capture_output=True).returncode == 0:
            return each
    pytest.skip("needs a network namespace, and a Python that an ordinary user may run in it")


def test_the_steps_of_dockerfile_and_compose_file_crawl_a_site(wheel: Path, python_of_all: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        folders = {name: root / name for name in ("data", "keys", "tokens", "handlers", "wheels", "site")}
        for folder in folders.values():
            folder.mkdir()
        shutil.copy(wheel, folders["wheels"])
        shutil.copytree(ROOT / "examples", folders["handlers"], dirs_exist_ok=True)
        (folders["site"] / "index.html").write_text('<a href="about.html">About</a>')
        (folders["site"] / "about.html").write_text("About this site")
        venv = root / "venv"
        subprocess.run([python_of_all, "-m", "venv", "--without-pip", venv], check=True)
        (packages,) = venv.glob("lib/*/site-packages")
        (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
        for path in (root, *root.rglob("*")):
            if ORDINARY and not path.is_symlink():
                os.chown(path, 65534, 65534)

        services = COMPOSE["services"]
        (install,) = (run for run in instruction("RUN") if "pip install" in run)
        (entry,), (command,), (health,), (environment,) = map(instruction, ("ENTRYPOINT", "CMD", "HEALTHCHECK", "ENV"))
        said = re.search(r"CMD (\[.*\])", health)
        assert said is not None
        steps = STEPS.format(
            up=UP,
            environment=f"export {shlex.join(shlex.split(environment))}",
            install=install[install.index("pip install") :].replace("pip install", INSTALL),
            data="/data",
            keys=f"sh -ec {shlex.quote(services['keys']['command'][0].replace('$$', '$'))}",
            daemon=f"{exported('daemon')} exec {shlex.join(json.loads(entry) + json.loads(command))}",
            health=shlex.join(json.loads(said[1])),
            get=GET.format("'Host': 'daemon', 'Authorization': 'Bearer ' + open('/tokens/prometheus').read().strip()"),
            site="/site",
            worker=f"cd /handlers && {exported('worker')} "
            f"exec {shlex.join(json.loads(entry) + services['worker']['command'])}",
        )
        steps = steps.replace("tcp://daemon:", "tcp://127.0.0.1:")
        steps = re.sub(rf"(?<![\w./])/({'|'.join(folders)})\b", rf"{root}/\1", steps)

        ran = subprocess.run(
            [*ALONE, "sh", "-ec", steps], capture_output=True, text=True, timeout=280, check=False,
            env={"PATH": f"{venv}/bin:/usr/bin:/bin"},
        )  # fmt: skip

    assert ran.returncode == 0, ran.stdout
    assert "\n200\n" in ran.stdout
    assert "2 succeeded, 0 failed" in ran.stdout
    assert ran.stdout.count("event=stopped") == 2
    assert ran.stdout.count("workers may connect, as fetcher") == 1


def test_the_compose_file_is_as_its_schema_says() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yml"]

    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stdout


def test_what_compose_file_and_manifests_name_is_there() -> None:
    manifests = list(yaml.safe_load_all((ROOT / "conf" / "kubernetes.yaml").read_text()))
    _, daemon, workers = (each["spec"].get("template", {}).get("spec") for each in manifests)
    (served,), (working,) = daemon["containers"], workers["containers"]
    services, configs = COMPOSE["services"], COMPOSE["configs"]
    probes = [served[name]["exec"]["command"] for name in ("startupProbe", "livenessProbe")]
    (health,), (command,) = instruction("HEALTHCHECK"), instruction("CMD")

    assert all((ROOT / config["file"]).is_file() for config in configs.values() if "file" in config)
    assert {each["source"] for name in services for each in services[name].get("configs", ())} == configs.keys()
    mounted = {each.partition(":")[0] for service in services.values() for each in service["volumes"]}
    assert mounted == {"./examples", *COMPOSE["volumes"]}
    assert yaml.safe_load(configs["prometheus"]["content"])["scrape_configs"][0]["job_name"] == "taskqueue"
    assert probes == [json.loads(health.partition("CMD ")[2])] * 2
    assert served["args"] == json.loads(command)
    assert working["args"] == services["worker"]["command"]
    assert workers["terminationGracePeriodSeconds"] > int(working["args"][-1].removesuffix("s"))
    assert services["worker"]["stop_grace_period"] == f"{workers['terminationGracePeriodSeconds']}s"


def test_the_key_of_the_workers_manifest_is_where_they_look_and_private() -> None:
    *_, workers = yaml.safe_load_all((ROOT / "conf" / "kubernetes.yaml").read_text())
    spec = workers["spec"]["template"]["spec"]
    (working,), by = spec["containers"], spec["securityContext"]
    (volume,) = (each for each in spec["volumes"] if "secret" in each)
    (mount,) = (each for each in working["volumeMounts"] if each["name"] == volume["name"])
    variables = {each["name"]: each["value"] for each in working["env"]}

    assert Path(variables["TASKQUEUE_KEY"]).parent == Path(mount["mountPath"])
    # The file is root's, and its group fsGroup, which may read it.
    assert by["fsGroup"] == by["runAsGroup"]
    assert flaw_of(0, volume["secret"]["defaultMode"] | 0o440, by["runAsUser"]) == ""
