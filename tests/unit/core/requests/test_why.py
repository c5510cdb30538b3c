"""Why nothing is dispatched: one sentence, the first reason that applies."""

from __future__ import annotations

from copy import deepcopy

import pytest
from msgspec import structs

from taskqueue.core.model.pending_work import REFILLS_A_TURN
from taskqueue.core.requests.why import LOOKED_AT, SENTENCE_BYTES
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello, Hung
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.values import Fetched, Recrawl
from taskqueue.settings.settings import CoreConfig, Pace
from tests.unit.core.conftest import MakeWorld, World, task
from tests.unit.core.rules.conftest import FORCE


def why(world: World, taskid: str | None = None, project: str = "news") -> str:
    """Ask for the sentence, without its subject."""
    request = Why(session="person", n=world.n(), project=project, taskid=taskid)
    (reply,) = world.turn(request)
    assert isinstance(reply, WhyReply), reply
    subject = f'project "{project}" ' if taskid is None else f'task "{taskid}" '
    assert reply.sentence.startswith(subject)
    return reply.sentence.removeprefix(subject)


def cause(world: World, taskid: str | None = None) -> str:
    """Ask for the cause, for programs."""
    return world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid=taskid)).cause


# ---------------------------------------------------------------------------------------- a project


def test_programs_are_told_the_cause_in_a_word(make_world: MakeWorld) -> None:
    world = make_world({"rate": 8, "burst": 2})
    causes = [cause(world)]
    world.push("news", *[task(f"t{number}") for number in range(4)])
    causes += [cause(world), cause(world, "t1")]
    for action in ("pause", "stop", "start"):
        world.do(action)
        causes.append(cause(world))
    world.set(rate=0)
    causes.append(cause(world))
    world.set(rate=8, active="03:00-03:01")
    causes.append(cause(world))
    world.set(active="")
    world.fetcher()
    causes.append(cause(world))

    assert causes == ["tasks", "fetchers", "", "paused", "stopped", "fetchers", "rate", "hours", "pace"]


def test_it_is_stopped_or_paused_by_hand(world: World) -> None:
    world.do("pause")
    assert why(world) == "was paused by an operator; resume it with: taskqueue project resume news"

    world.do("pause", seconds=600.0)
    world.advance(60.0)
    assert why(world) == "was paused by an operator; it resumes in 9 min, or now with: taskqueue project resume news"
    world.do("stop")
    assert why(world) == "is stopped; start it with: taskqueue project start news"


def test_it_has_paused_itself_and_tries_again(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 300})
    world.push("news", task("a"))
    world.fetcher().fail("a", error="HTTP 503")
    world.advance(50)

    assert why(world) == (
        "paused itself (1 failure in a row, the last one: HTTP 503); it tries a few tasks in 4 min 10 s,"
        " or now with: taskqueue project resume news"
    )


def test_it_waits_for_the_results_of_its_checks(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 30})
    world.push("news", task("a"))
    fetcher = world.fetcher()
    fetcher.fail("a")
    world.push("news", *[task(f"t{number}") for number in range(4)])
    world.advance(30)

    assert (
        why(world)
        == "checks whether its tasks still fail, and waits for the results of the tasks that it has dispatched"
    )


def test_it_is_outside_of_its_active_hours(make_world: MakeWorld) -> None:
    world = make_world({"active": "01:34-02:00"})

    assert why(world) == "is outside its active hours (01:34-02:00), which begin in 3 h 20 min"


def test_its_rate_is_zero(world: World) -> None:
    world.set(rate=0)

    assert why(world) == "has a rate of 0; set another one with: taskqueue project set news rate=1"


def test_there_is_nothing_in_its_queue(world: World) -> None:
    assert why(world) == "has no tasks"
    world.push("news", task("a"))
    world.fetcher().done("a")
    assert why(world) == "has nothing to do (1 task finished)"


def test_no_task_is_due(world: World) -> None:
    world.push("news", task("a", delay=200), task("b", delay=86_400))
    assert why(world) == "has no due task; the next one is due in 3 min 20 s"

    world.push("news", task("c"))
    world.fetcher()
    assert why(world) == "has no due task; the next one is due in 3 min 20 s (1 task processing)"


@pytest.mark.parametrize(
    ("head_tasks", "overdue"),
    [
        (4096, "30 overdue"),
        (40, "at least 20 overdue, 30 delayed in all"),
        (2, "at least 1 overdue, 30 delayed in all"),
    ],
)
def test_it_catches_up_with_what_is_overdue(head_tasks: int, overdue: str) -> None:
    world = World(CoreConfig(projects={"news": {}}, head_tasks=head_tasks, turn_tasks=4))
    world.push("news", task("ready"), *[task(f"t{n:02}", delay=5) for n in range(30)])
    world.elapsed += 8
    world.crash()

    assert why(world) == f"is catching up: {overdue}; it dispatches again once all due tasks are ready"
    assert why(world, "t29").startswith('has been due for 3 s; project "news" is catching up: ')
    assert '; project "news" is catching up: ' in why(world, "ready")
    world.settle()
    assert why(world) == "has tasks to dispatch, but no fetcher is connected"


def test_what_may_be_overdue_is_read_from_the_store_first() -> None:
    names = [f"p{number:02}" for number in range(REFILLS_A_TURN + 1)]
    world = World(CoreConfig(projects={name: {} for name in names}))
    for name in names:
        world.push(name, task("a", delay=5))
    world.elapsed += 8
    world.crash()

    assert why(world, project=names[-1]).startswith("is catching up: overdue tasks are being read, 1 delayed in all;")


def test_everything_is_processing(world: World) -> None:
    world.push("news", task("a"), task("b", timeout=30))
    world.fetcher()
    world.advance(10)

    assert why(world) == "has 2 tasks processing and no others; the next lease ends in 20 s"


def test_everything_is_processing_at_a_fetcher_that_is_not_heard(world: World) -> None:
    world.push("news", task("a", timeout=300))
    world.fetcher(name="host:42")
    world.advance(45)

    assert why(world) == (
        "has 1 task processing and no others; the next lease ends in 4 min 15 s; "
        'fetcher "host:42" has been silent for 45 s and loses its tasks in 15 s'
    )


def test_it_processes_as_many_as_it_may(make_world: MakeWorld) -> None:
    world = make_world({"max_processing": 2})
    world.push("news", *[task(f"t{number}") for number in range(5)])
    world.fetcher()

    assert why(world) == "has 2 tasks processing, and a max_processing of 2"


def test_it_is_running_at_its_limit(make_world: MakeWorld) -> None:
    world = make_world({"rate": 8, "burst": 1})
    world.push("news", task("a"), task("b"))
    world.fetcher()

    assert why(world) == "is running at its limit of 8/s"


def test_where_the_next_token_takes_long_it_is_said_how_long(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 1})
    world.push("news", task("a"), task("b"))
    world.fetcher()

    assert why(world) == "is running at its limit of 0.1/s; the next dispatch is in 10 s"
    world.elapsed += 9.5
    assert why(world) == "is running at its limit of 0.1/s"


def test_its_shared_bucket_is_at_its_limit_or_no_rate_or_is_no_more(make_world: MakeWorld) -> None:
    world = make_world(buckets={"site": Pace(0.1, 1), "none": Pace(0.0)}, projects={"news": {"bucket": "site"}})
    world.push("news", task("a"), task("b"))
    world.fetcher()
    assert why(world) == 'shares the bucket "site", which is at its limit of 0.1/s; the next dispatch is in 10 s'

    world.set(bucket="none")
    assert why(world) == 'shares the bucket "none", which has a rate of 0'

    world.configure(structs.replace(world.config, buckets={"site": Pace(0.1, 1)}))
    assert why(world) == 'shares the bucket "none", which is not in the config'


def test_no_fetcher_is_connected_or_asks_or_has_room(world: World) -> None:
    world.push("news", task("a"), task("b"))
    assert why(world) == "has tasks to dispatch, but no fetcher is connected"

    world.fetcher(name="other", projects=["shop"])
    assert why(world) == "has tasks to dispatch, but no fetcher asks for them"

    world.fetcher(capacity=1)
    assert why(world) == "has tasks to dispatch, but all fetchers that ask for them are full (1 of 1 places)"


def test_it_is_told_that_places_of_its_fetchers_hang_which_one_and_for_how_long(world: World) -> None:
    url = "https://a.example/1"
    world.fetcher(capacity=16, name="web1").hello(running=range(1, 17))
    world.advance(9)
    hung = Hung(places=16, seconds=540.0, project="news", taskid="h", url=url)
    world.fetcher(capacity=16, name="web2").hello(running=range(101, 117), hung=hung)
    world.push("news", task("a"), task("b"))
    full = "has tasks to dispatch, but all fetchers that ask for them are full"

    held = "are occupied by handlers whose lease has ended, the longest for 9 min"
    places = f"32 of the 32 places of web1, web2 {held}: {url}"
    assert why(world) == f"{full}: {places}"
    world.fetcher(capacity=1, name="web3")
    assert why(world) == f"{full}: {places}"


def test_a_place_that_hangs_is_told_with_its_task_as_the_daemon_knows_it(world: World) -> None:
    world.fetcher(capacity=1, name="web1")
    world.push("news", task("a", timeout=5), task("b"))
    world.advance(25)

    assert why(world).removeprefix("has tasks to dispatch, but all fetchers that ask for them are full: ") == (
        'the only place of web1 is occupied by a handler whose lease has ended, for 20 s: task "a" of project "news"'
    )


def test_a_place_that_hangs_beside_others_that_do_not_is_told(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=1)
    world.fetcher(capacity=9).hello(running=[1])
    world.turn(world.new_tasks("news", *[task(f"t{number}") for number in range(4)]))

    hung = "1 of the 9 places of fetcher is occupied by a handler whose lease has ended, for 0 s"
    assert why(world) == f"is dispatching tasks; {hung}"


def test_a_fetcher_that_has_fallen_silent_asks_for_nothing(world: World) -> None:
    world.fetcher()
    world.push("news", task("a"))
    world.advance(61)

    assert why(world) == "has tasks to dispatch, but no fetcher is connected"


def test_tasks_are_handed_out(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=1)
    world.fetcher(capacity=9)
    world.turn(world.new_tasks("news", *[task(f"t{number}") for number in range(4)]))

    assert why(world) == "is dispatching tasks"


def test_its_next_tasks_are_read_from_the_store(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(REFILLS_A_TURN + 1)]
    world = make_world(projects={name: {} for name in names})
    for name in names:
        world.push(name, task("a"))
    world.crash()

    hello = Hello(session="fetcher", n=1, capacity=1)
    told = world.turn(hello, Why(session="person", n=world.n(), project=names[-1]))[1]
    assert isinstance(told, WhyReply)
    assert told.sentence == f'project "{names[-1]}" is reading its next tasks from the store'


def test_the_first_reason_that_applies_is_told(world: World) -> None:
    world.push("news", task("a"))
    world.set(rate=0)
    world.do("stop")

    assert why(world).startswith("is stopped")


def test_why_of_an_unknown_project_is_refused(world: World) -> None:
    assert world.ask(ErrorReply, Why(session="person", n=world.n(), project="blog")).code == "unknown-project"


# ---------------------------------------------------------------------------------------- all projects


def standing(world: World, after: str = "") -> WhyReply:
    return world.ask(WhyReply, Why(session="person", n=world.n(), after=after))


def test_each_project_with_tasks_that_stands_still_is_told_with_its_reason(make_world: MakeWorld) -> None:
    world = make_world(projects={"blog": {"rate": 0}, "idle": {"rate": 0}, "news": {}, "shop": {}})
    for name in ("blog", "news", "shop"):
        world.push(name, task("a"))
    world.do("stop", "shop")
    world.fetcher(projects=["blog"])

    found = standing(world)

    assert [(each.project, each.cause) for each in found.projects] == [
        ("blog", "rate"), ("news", "fetchers"), ("shop", "stopped"),
    ]  # fmt: skip
    assert found.projects[1].sentence == 'project "news" has tasks to dispatch, but no fetcher asks for them'
    assert (found.sentence, found.next) == ("3 projects stand still", "")


def test_where_all_is_well_nothing_stands_still(world: World) -> None:
    assert standing(world).sentence == "nothing stands still"
    world.set(rate=1, burst=1)
    world.fetcher(capacity=9)
    world.turn(world.new_tasks("news", *[task(f"t{number}") for number in range(4)]))

    found = standing(world)

    assert (found.sentence, found.projects) == ("nothing stands still", [])


def test_many_projects_are_told_page_by_page(make_world: MakeWorld) -> None:
    names = [f"p{number:03}" for number in range(LOOKED_AT + 3)]
    world = make_world(projects={name: {} for name in names})
    for name in names:
        world.push(name, task("a"))

    first = standing(world)
    second = standing(world, first.next)

    assert [each.project for page in (first, second) for each in page.projects] == names
    assert (len(first.projects), second.next) == (LOOKED_AT, "")


def test_a_page_of_reasons_fits_into_a_message(make_world: MakeWorld) -> None:
    names = [f"p{number:03}" for number in range(LOOKED_AT)]
    world = make_world(max_message=SENTENCE_BYTES + 4096, projects={name: {} for name in names})
    for name in names:
        world.push(name, task("a"))

    first = standing(world)

    assert 1 < len(first.projects) < LOOKED_AT
    assert first.next == first.projects[-1].project


def test_a_task_is_named_with_its_project(world: World) -> None:
    assert world.ask(ErrorReply, Why(session="person", n=world.n(), taskid="a")).code == "malformed"


# ---------------------------------------------------------------------------------------- a task


def test_a_task_is_unknown(world: World) -> None:
    assert why(world, "a") == 'is unknown in project "news": it was never pushed, or was cleared'


@pytest.mark.parametrize(
    ("ok", "error", "sentence"),
    [
        (True, "", "succeeded 1 h ago"),
        (False, "Traceback:\nOSError: HTTP  404\n[GET]", 'failed for good 1 h ago: "OSError: HTTP 404"'),
        (False, "", "failed for good 1 h ago"),
    ],
)
def test_a_task_is_over(world: World, ok: bool, error: str, sentence: str) -> None:
    world.push("news", task("a"))
    world.fetcher().done("a", ok=ok, error=error, retry=False)
    world.advance(3600)

    assert why(world, "a") == f"{sentence}; push it with force_update, or retry it, to run it again"


def test_a_task_was_cancelled_or_has_expired(world: World) -> None:
    world.push("news", task("a"), task("b", expires_at=world.now.wall + 5))
    world.push("news", task("a", cancel=True, **FORCE))
    world.advance(10)
    assert why(world, "a").startswith("was cancelled 10 s ago; ")
    assert why(world, "b") == "expired 5 s ago: it will be cancelled when its turn comes"

    world.fetcher()
    assert why(world, "b").startswith('was cancelled 0 s ago: "expired before it was dispatched"; ')


def test_a_task_is_being_run(world: World) -> None:
    world.push("news", task("a", "x" * 9000))
    fetcher = world.fetcher()
    fetcher.hello(name="host:42")
    world.advance(30)

    assert why(world, "a") == "has been processing on host:42 for 30 s; its lease ends in 9 min 30 s"


def test_a_task_waits_for_its_time(world: World) -> None:
    world.push("news", task("a", delay=7200), *[task(f"t{number}", delay=1) for number in range(5)])

    assert why(world, "a") == "is due in 2 h, as its schedule says"


def test_a_task_waits_for_a_retry(world: World) -> None:
    world.push("news", task("a", retries=4), task("b"))
    fetcher = world.fetcher()
    fetcher.fail("a", error="HTTP 500")
    fetcher.fail("b", error="HTTP 429", retry_after=90)

    assert why(world, "a") == 'is due in 30 s, as retry 1 of 4, after "HTTP 500"'
    assert why(world, "b") == 'is due in 1 min 30 s, as its fetcher asked, after "HTTP 429"'


def test_a_task_waits_to_be_run_again(world: World) -> None:
    world.push("news", task("a", age=86_400, auto_recrawl=True), task("b", age=86_400, auto_recrawl=True))
    fetcher = world.fetcher()
    fetcher.done("a")
    fetcher.fail("b")
    world.advance(20)

    assert why(world, "a") == "is due in 23 h 59 min, as it runs again every 1 d"
    assert why(world, "b") == "is due in 10 s, to be tried again after an error without a reason"


def test_a_task_waits_for_its_interval(world: World) -> None:
    world.push("news", task("a", age=20_000, recrawl=Recrawl(3600, 86_400)))
    fetcher = world.fetcher()
    fetcher.done("a", fetched=Fetched(changed=False))

    assert why(world, "a").endswith(", as it runs again every 7 h 46 min")


def test_a_task_is_ready_and_what_keeps_its_project_is_told(world: World) -> None:
    world.push(
        "news", task("a"), *[task(f"t{number}") for number in range(5)], task("b", expires_at=world.now.wall + 9)
    )

    reason = 'project "news" has tasks to dispatch, but no fetcher is connected'
    assert why(world, "a") == f"is ready, as are 6 others; {reason}"
    assert why(world, "b") == f"is ready, as are 6 others, and expires in 9 s; {reason}"


def test_a_task_that_is_ready_alone_or_with_another_one_is_told_so(world: World) -> None:
    world.push("news", task("a"))
    world.do("stop")
    assert why(world, "a") == 'is ready; project "news" is stopped; start it with: taskqueue project start news'

    world.push("news", task("b"))
    assert why(world, "a").startswith('is ready, as is 1 other; project "news" is stopped')


# ---------------------------------------------------------------------------------------- asking


def test_asking_changes_nothing(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.3, "burst": 2})
    world.push("news", *[task(f"t{number}") for number in range(9)])
    world.fetcher()
    world.settle()
    wakes_at, before = world.next_wake(), deepcopy(world.disk.families["projects"].values)
    bucket = world.scheduler._state.projects.by_name["news"].bucket
    level = (bucket.level, bucket.at)
    world.elapsed += 0.5

    for taskid in (None, "t0", "t5", "unknown"):
        why(world, taskid)
    assert world.next_wake() == wakes_at
    assert world.disk.families["projects"].values == before
    assert (bucket.level, bucket.at) == level
