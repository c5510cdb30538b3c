"""The config file: defaults, messages about bad settings, and changes by a reload."""

from __future__ import annotations

import json
import re
import tomllib
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskqueue.errors import ConfigError
from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.server.config import (
    SECTIONS,
    Config,
    build,
    changed,
    check_together,
    core_config,
    load,
    override,
    reloaded,
    with_absolute_store,
)
from taskqueue.settings.flat_names import flat
from taskqueue.settings.own_tasks import CronEntry, Template
from taskqueue.settings.settings import CoreConfig, KeepSettings, Pace, Settings, merge
from taskqueue.settings.slots import SlotSettings

SHIPPED = Path(__file__).parents[3] / "conf" / "taskqueue.toml"


TABLES = ["fetch", "on_finished", "on_failure", "cron"]
"""Settings of a project that are sections of their own, without a default in TOML."""

EXAMPLE = re.compile(r'# (\[[\w.-]+("[^"]+")?\]|\w+ = .*)(\s+#.*)?')

ALL = ", ".join(Settings.__struct_fields__)
"""Names of the settings of a project."""


def is_example(line: str) -> bool:
    """Whether a line works when its first character is taken away."""
    return EXAMPLE.fullmatch(line) is not None


def refusal(text: str) -> list[str]:
    """Return the messages about a file with this text, line by line."""
    with pytest.raises(ConfigError) as caught:
        build(tomllib.loads(text), "conf/taskqueue.toml")
    return str(caught.value).splitlines()


def loaded(text: str) -> Config:
    return build(tomllib.loads(text), "conf/taskqueue.toml")


# ---------------------------------------------------------------------------------------- the shipped file


def test_the_shipped_file_says_exactly_the_defaults() -> None:
    shipped = load(str(SHIPPED))

    assert msgspec.structs.replace(shipped, defaults={}) == with_absolute_store(Config(), str(SHIPPED.parent))
    assert merge(shipped.defaults) == Settings()


def test_the_shipped_file_has_every_setting() -> None:
    tables = tomllib.loads(SHIPPED.read_text())

    for section, kind in SECTIONS.items():
        assert list(tables[section]) == list(kind.__struct_fields__)
    defaults = tables["defaults"]
    assert [*defaults, *TABLES] == list(Settings.__struct_fields__)
    assert [*defaults["slot"], "patterns"] == list(SlotSettings.__struct_fields__)
    assert list(defaults["keep"]) == list(KeepSettings.__struct_fields__)


def test_the_examples_of_the_shipped_file_are_good_and_have_every_table_that_there_can_be() -> None:
    text = "\n".join(line.removeprefix("#").strip() for line in SHIPPED.read_text().splitlines() if is_example(line))

    config = loaded(text)

    news = merge({}, config.projects["news"])
    assert [key for key in TABLES if not config.projects["news"][key]] == []
    assert list(news.slot.patterns) == ["*.example.org"]
    assert (set(news.cron), set(config.buckets)) == ({"nightly", "often", "graph"}, {"shop"})
    assert merge({}, config.projects["shop-de"]).rate == inf
    assert config.webhook.url


def test_a_section_that_says_both_the_delay_and_the_rate_of_slots_is_refused() -> None:
    text = "[projects.news.slot]\ndelay = 1\nrate = 2\n[projects.news.slot.patterns.a]\ndelay = 1\nrate = 2"

    assert refusal(text) == [
        "conf/taskqueue.toml: projects.news.slot.patterns.a: give one of delay and rate",
        "conf/taskqueue.toml: projects.news.slot: give one of delay and rate",
    ]


def test_every_setting_of_a_project_is_explained_where_it_is_declared() -> None:
    """A new setting is declared and explained there, and shipped with its default: no third place lists them."""
    explained = re.findall(r"^ {8}([\w, ]+):", str(Settings.__doc__), re.MULTILINE)

    assert {name for names in explained for name in names.split(", ")} - {"ValueError"} == set(
        Settings.__struct_fields__
    )


def test_every_setting_of_the_shipped_file_has_a_comment() -> None:
    settings = [line for line in SHIPPED.read_text().splitlines() if "=" in line and line[0] not in "#["]

    assert [line for line in settings if "  # " not in line] == []


def test_the_core_is_told_its_own_defaults_if_the_file_says_nothing() -> None:
    assert core_config(Config(), "1.0") == CoreConfig(version="1.0")


# ---------------------------------------------------------------------------------------- valid files


@pytest.mark.parametrize(
    ("file", "said", "path"),
    [
        ("conf/a.toml", "near", "conf/near"),
        ("conf/a.toml", "../near", "near"),
        ("a.toml", "near", "near"),
        ("conf/a.toml", None, "conf/data/store"),
        (None, None, "data/store"),
    ],
)
def test_a_relative_path_of_the_store_is_taken_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str | None, said: str | None, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    if file is not None:
        Path(file).write_text(f'[store]\npath = "{said}"' if said else "")

    assert load(file).store.path == str(tmp_path / path)


def test_an_absolute_path_of_the_store_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[store]\npath = "/srv/taskqueue/store"')

    assert load(str(tmp_path / "a.toml")).store.path == "/srv/taskqueue/store"


@pytest.mark.parametrize(
    ("text", "size"),
    [("8388608", 8 << 20), ('"8 MiB"', 8 << 20), ('"4096"', None), ('"512KiB"', 512 << 10), ('"8 MB"', None)],
)
def test_a_size_is_a_number_of_bytes_or_a_text_with_a_unit(text: str, size: int | None) -> None:
    if size is None:
        assert "daemon.max_message must be a size" in refusal(f"[daemon]\nmax_message = {text}")[0]
    else:
        assert loaded(f"[daemon]\nmax_message = {text}").daemon.max_message == size


def test_a_project_lies_over_the_defaults() -> None:
    config = loaded("[defaults]\nrate = 5\nburst = 2\n[projects.news]\nrate = inf")

    assert merge(config.defaults, config.projects["news"]) == Settings(rate=inf, burst=2.0)


def test_the_core_is_told_of_buckets_and_entries() -> None:
    core = core_config(
        loaded(
            "[buckets.shop]\nrate = 7\n[projects.news]\nbucket = 'shop'\n"
            "[projects.news.cron.often]\nevery = '5m'\ntask.body = {a = [1]}\n"
            "[projects.news.on_finished]\nurl = 'data:,end'"
        ),
        "",
    )

    settings = merge(core.defaults, core.projects["news"])
    assert core.buckets == {"shop": Pace(rate=7)}
    assert settings.cron == {"often": CronEntry(Template(body={"a": [1]}), every="5m")}
    assert (settings.on_finished, settings.bucket, settings.rate) == (Template("data:,end"), "shop", inf)


def test_a_select_message_is_never_longer_than_what_the_daemon_would_take() -> None:
    config = loaded('[daemon]\nmax_message = "512 KiB"')

    assert core_config(config, "").select_bytes == 512 << 10


# ---------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[projects.news]\nburst = "many"', 'projects.news.burst must be a number of at least 1 or inf, not "many"'),
        (
            "[projects.news]\nburts = 5",
            "projects.news.burts is not a setting; did you mean burst?",
        ),
        (
            "[projects.news.on_finished]\ntaskid = 'end'",
            'projects.news.on_finished.url must be given: what to push, such as "data:,on_finished"',
        ),
        ("[buckets.shop]\nburst = 5", "buckets.shop.rate must be given: a number of at least 0 or inf"),
        ("[defaults]\nrate = nan", "defaults.rate must be a number of at least 0 or inf, not nan"),
        (
            "[defaults]\nretries = true",
            "defaults.retries must be a whole number of at least 0 and at most 1_000_000, not true",
        ),
        (
            "[defaults]\nretry_delay = []",
            "defaults.retry_delay must be a list of 1 to 100 items, "
            'each a duration such as "90s" or "12h", '
            "or a number of seconds of at least 0 and at most 1_000_000_000, not []",
        ),
        (
            "[daemon]\nfetcher_timeout = 0",
            'daemon.fetcher_timeout must be a duration such as "90s" or "12h", '
            "or a number of seconds of more than 0 and at most 1_000_000, not 0",
        ),
        ("[daemon]\nauto_create = 1", "daemon.auto_create must be true or false, not 1"),
        (
            '[daemon]\nbind = "7400"',
            'daemon.bind must be an address such as "tcp://127.0.0.1:7400", or a list of 1 to 16 of them, not "7400"',
        ),
        (
            '[daemon]\nbind = ["ipc:///a", "7400"]',
            'daemon.bind must be an address such as "tcp://127.0.0.1:7400", or a list of 1 to 16 of them, '
            'not ["ipc:///a", "7400"]',
        ),
        (
            '[daemon]\nipc_role = "root"',
            'daemon.ipc_role must be one of "admin", "fetcher", "operator", "producer", "viewer", not "root"',
        ),
        (
            "[daemon]\nmax_message = 5",
            'daemon.max_message must be a size such as "8 MiB" of at least 512 KiB and at most 1 GiB, not 5',
        ),
        ('[store]\ndurability = "yes"', 'store.durability must be one of "commit", "interval", "none", not "yes"'),
        (
            "[store]\npath = 'mysql://db/crawl'",
            'store.path must be a folder (store.url names a database), not "mysql://db/crawl"',
        ),
        ("[store]\npath = 7", "store.path must be a folder (store.url names a database), not 7"),
        (
            '[webhook]\nevents = ["paused", "late"]',
            "webhook.events must be a list of 1 to 9 items, each one of "
            '"damaged", "error-burst", "finished", "growing", "paused", "resumed", "slot-full", "slow", '
            '"tick-skipped", not ["paused", "late"]',
        ),
        (
            "[webhook]\ntimeout = 0",
            'webhook.timeout must be a duration such as "90s" or "12h", '
            "or a number of seconds of more than 0 and at most 600, not 0",
        ),
        (
            "[webhook]\nattempts = 0",
            "webhook.attempts must be a whole number of at least 1 and at most 100, not 0",
        ),
        (
            "[store]\nengine = 7",
            "store.engine is not a setting; there are path, url, schema, timeout, durability, handout, cache, min_free",
        ),
        (
            "[projects.news]\nspeed = 7",
            f"projects.news.speed is not a setting; there are {ALL}",
        ),
        (
            "[project]\nrate = 7",
            "project is not a section; did you mean projects? "
            "There are daemon, store, limits, advanced, webhook, defaults, projects, buckets",
        ),
        ("[limits]\nhead_tasks = 7", "limits.head_tasks is not a setting; did you mean advanced.head_tasks?"),
        ("[limits]\ntimeout = 7", "limits.timeout is not a setting; did you mean store.timeout or webhook.timeout?"),
        ("[projects.news]\nrat = 7", "projects.news.rat is not a setting; did you mean rate?"),
        ("[projects.news]\nslot_delay = 7", "projects.news.slot_delay is not a setting; did you mean slot.delay?"),
        (
            "[projects.news]\nkeep.thn = 7",
            "projects.news.keep.thn is not a setting; did you mean then? There are success, failed, cancelled, then",
        ),
        ("[projects.news.slots.a]\ndelay = 7", "projects.news.slots is not a setting; did you mean slot?"),
        ("projects = 7", "projects must be a section, not 7"),
        ("[projects]\nnews = 7", "projects.news must be a section, not 7"),
        ("[projects.a.b]\nrate = 7", 'projects.a.b is not a setting; a name with a dot needs quotes: [projects."a.b"]'),
        (
            '[projects."a b"]',
            f'projects."a b": a project name is 1 to 64 {NAME_WORDS}',
        ),
        (
            '[buckets."a b"]\nrate = 1',
            f'buckets."a b": a bucket name is 1 to 64 {NAME_WORDS}',
        ),
        ("[buckets.shop]\nrate = -1", "buckets.shop.rate must be a number of at least 0 or inf, not -1"),
        ("[buckets.shop]\nspeed = 1", "buckets.shop.speed is not a setting; there are rate, burst"),
        ("[buckets]\nshop = 1", "buckets.shop must be a section, not 1"),
        ('[projects.news]\nbucket = "shop"', "projects.news.bucket: there is no section [buckets.shop]"),
        (
            '[defaults]\nbucket = "a b"',
            f'defaults.bucket must be up to 64 {NAME_WORDS}, not "a b"',
        ),
        (
            '[projects.news]\nactive = "at night"',
            'projects.news.active: expected hours such as "22:00-06:00 Europe/Berlin", not "at night"',
        ),
        (
            '[projects.news]\nactive = "22:00-06:00 Mars/X"',
            'projects.news.active: "Mars/X" is not a known time zone such as "Europe/Berlin"',
        ),
        ("[projects.news]\nactive = 5", "projects.news.active must be a text, not 5"),
        ("[projects.news]\nfetch = 5", "projects.news.fetch must be a section, not 5"),
        (
            '[projects.news.fetch]\nkey = "' + "x" * 70_000 + '"',
            "projects.news.fetch: 70010 bytes, at most 65536 are taken in a setting",
        ),
        ("[defaults]\non_finished = true", "defaults.on_finished must be a section, not true"),
        (
            "[projects.news.on_finished]\nuri = 5",
            "projects.news.on_finished.uri is not a setting; did you mean url? "
            "There are url, taskid, priority, retries, age, timeout, body",
        ),
        (
            "[projects.news.on_finished]\nage = 0",
            'projects.news.on_finished.age must be a duration such as "90s" or "12h", '
            "or a number of seconds of at least 1 and at most 1_000_000_000, not 0",
        ),
        (
            "[projects.news.on_finished]\ntaskid = 5",
            "projects.news.on_finished.taskid must be a text of at most 128 characters, not 5",
        ),
    ],
)
def test_what_cant_be_used_is_refused_with_file_key_and_reason(text: str, reason: str) -> None:
    assert refusal(text) == [f"conf/taskqueue.toml: {reason}"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", ": give one of cron and every"),
        ('cron = "0 3 * * *"\nevery = "5m"', ": give one of cron and every"),
        ('cron = "0 25 * * *"', '.cron: "0 25 * * *" can\'t be read: Bad hour'),
        ("cron = 5", ".cron must be a text, not 5"),
        (
            'every = "5x"',
            '.every: expected whole seconds, such as "90s", "5m", "12h" or "30d", at most "366d", not "5x"',
        ),
        (
            'cron = "0 3 * * *"\nzone = "Europe/Berln"',
            '.zone: "Europe/Berln" is not a known time zone such as "Europe/Berlin"',
        ),
        ('every = "5m"\nzone = "Europe/Berlin"', ".zone: goes with cron; every counts from 1970 in UTC"),
        ('every = "5m"\nmissed = "twice"', '.missed must be one of "once", "skip", not "twice"'),
        (
            'every = "5m"\nonce = 1',
            ".once is not a setting; did you mean zone?",
        ),
        ('every = "5m"\noverlap = "skip"', ".overlap: goes with tasks; give these, too, or leave it out"),
        ('every = "5m"\ntask = 7', ".task must be a section, not 7"),
        (
            'every = "5m"\ntask.priority = "high"',
            '.task.priority must be a whole number of at least -2_147_483_648 and at most 2_147_483_647, not "high"',
        ),
        (
            f'every = "5m"\ntask.taskid = "{"x" * 120}{{tick}}"',
            ".task.taskid: expected at most 128 bytes of utf-8",
        ),
        (
            f'every = "5m"\ntask.body = "{"x" * 70_000}"',
            ".task.body: 70005 bytes, at most 65536 are taken in a setting",
        ),
    ],
)
def test_an_entry_that_cant_be_is_refused_with_its_name(said: str, reason: str) -> None:
    lines = refusal(f"[projects.news.cron.nightly]\n{said}\n[projects.news.cron.good]\nevery = '5m'")

    assert lines == [f"conf/taskqueue.toml: projects.news.cron.nightly{reason}"]


def test_a_project_may_say_a_part_of_the_task_that_the_defaults_push_in_the_end() -> None:
    config = loaded("[defaults.on_finished]\nurl = 'data:,end'\n[projects.news.on_finished]\npriority = 3")

    assert merge(config.defaults, config.projects["news"]).on_finished == Template("data:,end", priority=3)


def test_durations_of_the_daemon_may_be_said_as_texts() -> None:
    config = loaded("[daemon]\nfetcher_timeout = '2m'\nsession_timeout = '1h'\n[webhook]\ntimeout = '5s'")

    assert (config.daemon.fetcher_timeout, config.daemon.session_timeout, config.webhook.timeout) == (120, 3600, 5)


def test_an_entry_that_is_no_section_or_has_no_good_name_is_refused() -> None:
    assert refusal("[projects.news.cron]\nnightly = '0 3 * * *'") == [
        'conf/taskqueue.toml: projects.news.cron.nightly must be a section, not "0 3 * * *"'
    ]
    assert refusal("[projects.news.cron.'a b']\nevery = '5m'") == [
        'conf/taskqueue.toml: projects.news.cron."a b": an entry\'s name is 1 to 64 ASCII letters, digits, "_" and "-"'
    ]


def test_a_project_has_a_hundred_entries_at_most() -> None:
    entries = {f"entry-{number}": {"every": "5m"} for number in range(101)}

    with pytest.raises(ConfigError, match=r"^conf: projects\.news\.cron: expected at most 100 entries, not 101$"):
        build({"projects": {"news": {"cron": entries}}}, "conf")


@pytest.mark.parametrize(
    "url",
    ["example.org", "ftp://ann:secret@host/", "http://", "https://:7", "http://a:99999", "http://[::", "http://ä"],
)
def test_a_webhook_that_cant_be_called_is_refused_without_telling_its_secrets(url: str) -> None:
    assert refusal(f'[webhook]\nurl = "{url}"') == [
        'conf/taskqueue.toml: webhook.url must be empty or an address such as "https://example.org/hook"'
    ]


@pytest.mark.parametrize(
    "url", ["", "http://host", "https://ann:secret@host:8443/hook?token=1", "http://127.0.0.1:80", "https://[::1]/hook"]
)
def test_a_webhook_is_a_web_address_or_none(url: str) -> None:
    assert loaded(f'[webhook]\nurl = "{url}"').webhook.url == url


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    lines = refusal(
        "[daemon]\nbnd = 1\nmax_sessions = 0\n[projects.news]\nburst = 0\nactive = 'x'\nbucket = 'x'\n"
        "[projects.news.cron.a]\ncron = 'x'\n[projects.news.cron.b]\nzone = 'x'\n[buckets]\ny = 1"
    )

    assert places(lines) == [
        "daemon.bnd", "daemon.max_sessions", "projects.news.burst", "projects.news.active", "projects.news.bucket",
        "projects.news.cron.b", "projects.news.cron.a.cron", "projects.news.cron.b.zone", "buckets.y",
    ]  # fmt: skip


def test_no_problem_hides_another_and_each_is_said_once() -> None:
    lines = refusal(
        "[projects.'a b']\nspeed = 1\n[projects.news.fetch]\nkey = '" + "x" * 70_000 + "'\n"
        "[projects.news.on_finished]\npriority = 'high'\ntaskid = '" + "ä" * 65 + "'\n"
        "[projects.news.cron.'a b']\nevery = '5x'\n"
        "[projects.news.cron.c]\ncron = 'x'\nzone = 'Mars/X'\nmissed = 'twice'\ntask.priority = 'high'\n"
        "task.body = '" + "x" * 70_000 + "'\n"
        "[projects.news.cron.d]\ncron = 5\nonce = 1\n[projects.news.cron.e]\nevery = '5m'\ncron = 5"
    )

    entry = "projects.news.cron.c"
    assert sorted(places(lines)) == sorted([
        'projects."a', 'projects."a', "projects.news.fetch", "projects.news.on_finished.priority",
        "projects.news.on_finished.taskid", 'projects.news.cron."a', 'projects.news.cron."a', f"{entry}.cron",
        f"{entry}.zone", f"{entry}.missed", f"{entry}.task.priority", f"{entry}.task.body", "projects.news.cron.d.cron",
        "projects.news.cron.d.once", "projects.news.cron.e.cron", "projects.news.cron.e",
    ])  # fmt: skip
    assert len(set(lines)) == len(lines)


def places(lines: list[str]) -> list[str]:
    """Return the keys that lines begin with, up to the first space."""
    return [line.split()[1].rstrip(":") for line in lines]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[daemon]\nbind = ", "not TOML: Invalid value (at end of document)"),
        (b"[daemon]\nbind : 7\n", "not TOML: Expected '=' after a key in a key/value pair (at line 2, column 6)"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"a = " + b"[" * 10_000, "nested too deep"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "taskqueue.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load(str(file))

    assert str(caught.value) == f"{file}: {reason}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: can't be read: No such file or directory"):
        load(str(tmp_path / "nothing.toml"))


def test_a_setting_said_elsewhere_wins_and_is_checked_too() -> None:
    assert override(Config(), "store", "durability", "none").store.durability == "none"
    with pytest.raises(ConfigError, match=r'store\.durability must be one of .* not "maybe"'):
        override(Config(), "store", "durability", "maybe")


@pytest.mark.parametrize("durability", ["interval", "none"])
def test_hand_outs_are_not_synced_where_answers_are_not(durability: str) -> None:
    check_together(build({"store": {"handout": "synced"}}, "file"))

    with pytest.raises(ConfigError, match=r'^store\.handout = "synced" needs store\.durability = "commit", not '):
        check_together(build({"store": {"handout": "synced", "durability": durability}}, "file"))


# ---------------------------------------------------------------------------------------- reload


def reload(old: dict[str, Any], new: dict[str, Any]) -> tuple[Config, list[str]]:
    return reloaded(build(old, "old"), build(new, "new"))


def test_a_reload_changes_what_can_change_while_running() -> None:
    new = {
        "daemon": {"fetcher_timeout": 5},
        "advanced": {"turn_tasks": 7},
        "webhook": {"url": "http://host/", "events": ["resumed"]},
        "projects": {"news": {"rate": 9, "cron": {"often": {"every": "5m"}}}},
        "buckets": {"shop": {"rate": 1}},
    }

    config, waiting = reload({}, new)

    assert (config, waiting) == (build(new, "new"), [])


def test_a_reload_keeps_what_needs_a_restart_and_names_it() -> None:
    old = {"daemon": {"bind": "tcp://*:1"}, "store": {"path": "here"}}
    new = {"daemon": {"bind": "tcp://*:2", "log_level": "debug"}, "store": {"path": "there", "durability": "none"}}

    config, waiting = reload(old, new)

    assert waiting == ["daemon.bind", "store.path", "store.durability"]
    assert (config.daemon.bind, config.store.path, config.store.durability) == (("tcp://*:1",), "here", "commit")
    assert config.daemon.log_level == "debug"


def toml(value: object) -> str:
    return str(value) if isinstance(value, float) else json.dumps(value)


EXPLICIT = [
    f"[{section}]\n{key} = {toml(value)}\n"
    for section, table in tomllib.loads(SHIPPED.read_text()).items()
    for key, value in flat(table)
]
"""Files with one explicit default each, of all settings that have one."""


@pytest.mark.parametrize("text", ["", SHIPPED.read_text(), *EXPLICIT])
def test_a_reload_of_a_file_that_says_or_leaves_out_a_default_changes_nothing(text: str) -> None:
    said, silent = loaded(text), loaded("")

    assert changed(said, said) == changed(said, silent) == changed(silent, said) == []


@pytest.mark.parametrize("text", [text for text in EXPLICIT if text.startswith("[defaults]")])
def test_a_project_that_says_or_leaves_out_a_default_has_not_changed(text: str) -> None:
    said, silent = loaded(text.replace("[defaults]", "[projects.news]")), loaded("[projects.news]")

    assert changed(said, silent) == changed(silent, said) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('processing_timeout = "5m"', "processing_timeout = 300"),
        ("rate = 2", "rate = 2.0"),
        ('retry_delay = ["1m", 90]', "retry_delay = [60, 90.0]"),
        ('cron.a = {every = "1h", task.url = "data:,a"}', 'cron.a = {every = "1h", task = {url = "data:,a"}}'),
        ('fetch = {cookie = "a"}', '[defaults.fetch]\ncookie = "a"'),
    ],
)
def test_a_reload_of_a_file_that_says_the_same_in_other_words_changes_nothing(one: str, other: str) -> None:
    assert changed(loaded(f"[defaults]\n{one}"), loaded(f"[defaults]\n{other}")) == []


def test_a_reload_names_what_has_changed_in_effect_and_what_a_project_says_of_its_own() -> None:
    old = "[defaults]\nrate = 2\n[projects.news]\nrate = 2\nretries = 5\n[projects.gone]\nburst = 7\n"
    new = "[advanced]\nturn_tasks = 7\n[defaults]\nrate = 3\n[projects.news]\nretries = 3\n[projects.made]\n"

    names = changed(loaded(old), loaded(new))

    assert names == [
        "advanced.turn_tasks=7 (was 2048)", "defaults.rate=3 (was 2)", "projects.news.rate=3 (was 2)",
        "projects.news.retries=3 (was 5)", "projects.gone.burst=3 (was 7)", "projects.made",
    ]  # fmt: skip


def test_a_reload_names_what_a_project_did_not_say_before_only_if_it_is_not_what_it_had() -> None:
    old = loaded("[defaults]\nrate = 3\n[projects.news]\n")

    assert changed(old, loaded("[defaults]\nrate = 3\n[projects.news]\nrate = 3.0\n")) == []
    assert changed(old, loaded("[defaults]\nrate = 3\n[projects.news]\nrate = 4\n")) == ["projects.news.rate=4 (was 3)"]


def test_a_reload_tells_no_value_that_may_hold_a_password() -> None:
    old = "[webhook]\nurl = 'http://me:old@h'\n[defaults.fetch]\nproxy = 'old'\n"
    new = (
        "[webhook]\nurl = 'http://me:new@h'\n[defaults.fetch]\nproxy = 'new'\n"
        "[projects.news.cron.daily]\nevery = '1h'\ntask.body = 'new'\n"
    )
    later = new.replace("1h", "2h").replace("'new'", "'later'").replace(":new@", ":later@")

    assert changed(loaded(old), loaded(new)) == ["webhook.url", "defaults.fetch.proxy", "projects.news.cron.daily"]
    assert changed(loaded(new), loaded(later))[2:] == [
        "projects.news.cron.daily.task.body", "projects.news.cron.daily.every=2h (was 1h)",
    ]  # fmt: skip


def test_what_a_section_says_of_a_project_is_bounded_in_all() -> None:
    finished = f"on_finished.url = 'data:,end'\non_finished.body = '{'y' * 30_000}'"
    said = f"[projects.news]\nfetch.cookie = '{'x' * 40_000}'\n{finished}"

    (line,) = refusal(said)
    assert line.startswith("conf/taskqueue.toml: projects.news.fetch: 40018 of 700")
    assert line.endswith("in all at most 65536 are taken")
