"""An example of each message: the reference shows them, and the OpenAPI document of HTTP shows what HTTP shares.

``python -m tools.messages`` writes docs/reference/messages.md of them, with their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.protocol import (
    base,
    daemon,
    exports,
    fetchers,
    flows,
    insight,
    operations,
    projects,
    slots,
    tasks,
    values,
)
from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.packed_json import packed

SESSION: Final = "5f0c"
"""Shorter than a real one, which is random."""
PSEUDONYM: Final = "9e3b7d21c0f4"
TOKEN: Final = Token(17592186044417)
NEXT_TOKEN: Final = Token(TOKEN + 1)

_ALL: Final[tuple[AnyRequest | AnyOutgoing, ...]] = (
    daemon.StatusShow(limit=15, filter="shop", sort="ready", fetchers=0, session=SESSION, n=6),
    daemon.DaemonShow(projects=["news"], session=SESSION, n=44),
    daemon.KeyList(after="shop", session=SESSION, n=47),
    daemon.DaemonHistory(since=1700000000.0, session=SESSION, n=45),
    daemon.WhoIs(digest="77c0" * 16, session=SESSION, n=46),
    daemon.Verify(session=SESSION, n=14),
    exports.ProjectImport(
        project="news",
        export="2f6bfcd0c1b9d3f7d5c1a2f84f0e9a37",
        first=500,
        tasks=[
            exports.ExportedTask(
                taskid="p2",
                state="blocked",
                url="http://a/2",
                body=packed({"save": {"page": 2}}),
                parents=[exports.ExportedParent("B", 1, "shops"), exports.ExportedParent("p1")],
                pushed_at=1700000000,
            ),
            exports.ExportedTask(
                taskid="p1", state="success", url="http://a/1", ended_at=1700000100.5, result=packed({"title": "A"})
            ),
        ],
        points=[exports.ExportedPoint(at=1699999200, events=(2, 1, 1, 0, 0, 0))],
        session=SESSION,
        n=48,
        actor="anna@web1",
    ),
    fetchers.Hello(
        capacity=20,
        projects=["news"],
        holds=[TOKEN],
        seen=3,
        name="web1:4711",
        running=[TOKEN],
        slots=16,
        priority=5,
        hung=fetchers.Hung(places=1, seconds=540.5, project="news", taskid="a1", url="http://a.example/1"),
        session=SESSION,
        n=1,
    ),
    fetchers.Extend(
        leases=[fetchers.LeaseRef(project="news", taskid="p2", token=TOKEN)], seconds=300.0, session=SESSION, n=4
    ),
    fetchers.Note(
        notes=[fetchers.NotedLease(project="news", taskid="p2", token=TOKEN, note=0.25)], session=SESSION, n=5
    ),
    fetchers.Release(leases=[fetchers.LeaseRef(project="news", taskid="p3", token=NEXT_TOKEN)], session=SESSION, n=5),
    fetchers.Fetchers(limit=20, project="news", sort="oldest", session=SESSION, n=24),
    fetchers.FetcherShow(fetcher="web1", session=SESSION, n=26),
    fetchers.FetcherDo(fetcher="web1", action="drain", session=SESSION, n=25, actor="anna@web1"),
    flows.FlowStage(
        project="news",
        flow="nightly",
        first=0,
        tasks=[values.NewTask(taskid="A", url="http://a/")],
        session=SESSION,
        n=25,
    ),
    flows.FlowSubmit(project="news", flow="nightly", count=3, session=SESSION, n=26),
    flows.FlowShow(project="news", flow="nightly", seconds=30.0, session=SESSION, n=27),
    flows.FlowList(project="news", after="news/hourly", session=SESSION, n=27),
    flows.FlowTasks(project="news", flow="nightly", session=SESSION, n=28),
    flows.FlowCancel(project="news", flow="nightly", session=SESSION, n=29),
    insight.Stats(session=SESSION, n=15),
    insight.JobCounts(project="news", job="monday", session=SESSION, n=46),
    insight.StatsHistory(project="news", every="hour", since=1700000000.0, session=SESSION, n=25),
    insight.Watch(since="70368744177665.12", session=SESSION, n=19),
    insight.Why(project="news", taskid="p2", session=SESSION, n=19),
    insight.FailureList(project="news", by="host", since=1700000000.5, session=SESSION, n=26),
    insight.Log(project="news", session=SESSION, n=24),
    operations.Bulk(
        action="retry",
        project="news",
        filter=values.TaskFilter(states=["failed"], error="503*"),
        dry_run=True,
        session=SESSION,
        n=21,
    ),
    operations.Rerun(project="news", taskid="p9", scope="downstream", dry_run=True, session=SESSION, n=27),
    operations.OperationCancel(id=17592186044420, session=SESSION, n=28),
    operations.OperationUndo(id=17592186044420, session=SESSION, n=30),
    operations.OperationShow(id=17592186044420, seconds=30.0, session=SESSION, n=22),
    operations.OperationList(session=SESSION, n=23),
    projects.ProjectShow(project="news", session=SESSION, n=7),
    projects.ProjectSet(project="news", settings={"rate": 5.0, "burst": 10}, session=SESSION, n=8),
    projects.ProjectUnset(project="news", keys=["burst"], session=SESSION, n=9),
    projects.ProjectDo(project="news", action="pause", seconds=600.0, session=SESSION, n=10, actor="anna@web1"),
    projects.ProjectHold(project="news", seconds=60.0, session=SESSION, n=18),
    projects.ProjectWait(project="news", session=SESSION, n=17),
    projects.GroupSet(group="shops", settings={"rate": 5.0}, session=SESSION, n=31),
    projects.GroupDo(action="stop", group="shops", session=SESSION, n=16),
    slots.SlotList(project="news", by="errors", limit=20, all=True, session=SESSION, n=27),
    slots.SlotSet(
        project="news", slot="example.org", delay=2.5, unset=("block_until",), session=SESSION, n=29, actor="anna@web1"
    ),
    slots.SlotShow(project="news", slot="example.org", session=SESSION, n=28),
    tasks.NewTasks(
        project="news",
        tasks=[
            values.NewTask(taskid="d2e30d023bacb13655cf2f69855ddd49", url="http://a/"),
            values.NewTask(
                taskid="p2",
                url="http://a/2",
                schedule=values.Schedule(
                    priority=5,
                    delay=60.0,
                    age=86400.0,
                    slot="a-shop",
                    recrawl=values.Recrawl(min=3600.0, max=604800.0),
                    repeat=30,
                    job="monday",
                ),
                body=packed({"fetch": {"headers": {"Accept": "text/html"}}, "save": {"page": 2}}),
                depends_on=("p1", values.TaskOf(project="shops", taskid="B")),
            ),
        ],
        states=True,
        session=SESSION,
        n=2,
    ),
    tasks.Done(
        tasks=[
            values.TaskReport(
                project="news",
                taskid="p2",
                token=TOKEN,
                new=[values.NewTask(taskid="p3", url="http://a/3")],
                result=packed({"title": "A"}),
            ),
            values.TaskReport(
                project="news",
                taskid="p9",
                token=NEXT_TOKEN,
                ok=False,
                error="503 Service Unavailable",
                retry_after=120.0,
                fetched=values.Fetched(status_code=503, seconds=0.25, error_kind="http"),
                again=values.Again(counts=True, body=packed({"save": {"proxy": 2}}), priority=1),
            ),
        ],
        session=SESSION,
        n=3,
    ),
    tasks.TaskShow(project="news", taskid="p2", session=SESSION, n=11),
    tasks.TaskWait(project="news", taskid="p2", session=SESSION, n=44),
    tasks.TaskParents(project="news", taskid="p2", session=SESSION, n=11),
    tasks.TaskChildren(project="news", taskid="p1", session=SESSION, n=11),
    tasks.TaskList(
        project="news",
        state="failed",
        url="*/2",
        error="http 5*",
        ignore_case=True,
        newest=True,
        pushed_since=1700000000.0,
        session=SESSION,
        n=20,
    ),
    tasks.TaskRetry(project="news", taskids=["p9"], session=SESSION, n=12),
    tasks.TaskCancel(project="news", taskids=["p9"], session=SESSION, n=13),
    tasks.TaskReprioritise(project="news", taskids=["p9"], priority=7, session=SESSION, n=13),
    daemon.StatusReply(
        epoch=1,
        version="0.1.0",
        uptime_seconds=5.0,
        counts=values.TaskCounts(ready=2),
        totals=values.EventTotals(new=2),
        shell={"turns": 7.0},
        compiled=True,
        projects=[],
        more=True,
        fetchers=[fetchers.Fetcher(session=PSEUDONYM, name="web1:4711", capacity=20, holds=1, silent_seconds=0.5)],
        found=1,
        n=6,
    ),
    daemon.DaemonReply(
        epoch=7,
        version="0.1.0",
        python="3.11.2",
        pid=4711,
        uptime_seconds=86400.5,
        durability="commit",
        projects=3,
        sessions=12,
        fetchers=2,
        capacity=40,
        holds=31,
        hung=2,
        task_bytes=1048576,
        task_bytes_most=268435456,
        resident_bytes=94371840,
        resident_bytes_most=1073741824,
        levels=[daemon.StoreLevel(level=0, tables=2, bytes=1048576)],
        free_bytes=107374182400,
        shell={"turns": 2.0},
        histograms={"turn_seconds": daemon.Histogram(bounds=[0.005, 0.01], counts=[1, 1, 0], sum=0.0125)},
        projects_stand=[daemon.ProjectStand(name="news", idle_seconds=12.5, backoffs=3)],
        n=44,
    ),
    daemon.WhoReply(name="anna", role="operator", projects=["news-*"], created_at=1700000000.0, n=46),
    daemon.DaemonHistoryReply(
        points=[
            daemon.DaemonPoint(
                at=1699999980.0,
                epoch=7,
                turns=5400,
                commits=5100,
                syncs=2300,
                turn_p50_seconds=0.0005,
                turn_p99_seconds=0.0125,
                turn_most_seconds=0.05,
                commit_p50_seconds=0.000125,
                commit_p99_seconds=0.0025,
                commit_most_seconds=0.01,
                sync_p50_seconds=0.0025,
                sync_p99_seconds=0.5,
                sync_most_seconds=2.5,
                resident_bytes=94371840,
                new=1200,
                selected=1180,
                ended=1174,
                ready=40000,
                delayed=12,
                processing=31,
            )
        ],
        n=45,
    ),
    daemon.VerifyReply(problems=[], n=14),
    daemon.KeyListReply(
        keys=[
            daemon.KeyUse(name="web1", connections=2, seen_at=1700000000.0, address="10.0.0.7", forbidden=1, refused=3)
        ],
        next="web1",
        n=47,
    ),
    fetchers.Welcome(epoch=1, fetcher_timeout=60.0, max_message=8388608, version="0.1.0", n=1),
    fetchers.TokensReply(counted=1, n=4),
    fetchers.NoteReply(outcomes=["noted"], n=5),
    fetchers.FetchersReply(
        fetchers=[
            fetchers.Fetcher(
                session=PSEUDONYM,
                name="web1:4711",
                capacity=20,
                holds=1,
                silent_seconds=0.5,
                address="10.0.0.7",
                oldest_seconds=2.5,
                done=3,
                slots=16,
                free=17,
                hung=fetchers.HungPlaces(
                    places=2, seconds=540.5, project="news", taskid="a1", url="http://a.example/1"
                ),
                slow=1,
            )
        ],
        more=False,
        found=1,
        capacity=20,
        holds=1,
        away=["web9"],
        hung=2,
        slow=1,
        n=24,
    ),
    fetchers.FetcherReply(fetcher="web1", draining=True, found=2, capacity=40, holds=3, hung=2, slow=1, n=25),
    exports.ImportReply(brought=503, parts=20311, n=48),
    flows.FlowStaged(staged=3, n=25),
    flows.FlowReply(
        flow=flows.Flow(
            project="news",
            flow="nightly",
            state="running",
            tasks=3,
            counts=values.TaskCounts(ready=2, success=1),
            unrolled=3,
            began_at=1700000000.5,
        ),
        n=26,
    ),
    flows.FlowsReply(
        flows=[
            flows.Flow(
                project="news",
                flow="nightly",
                state="staged",
                tasks=3,
                counts=values.TaskCounts(),
                began_at=1700000000.5,
            ),
            flows.Flow(
                project="shop",
                flow="night-1700010800",
                state="success",
                tasks=9,
                counts=values.TaskCounts(success=9),
                unrolled=9,
                began_at=1700010800.2,
                ended_at=1700011400.0,
                cron="night",
                tick=1700010800.0,
            ),
        ],
        more=False,
        n=27,
    ),
    flows.FlowTasksReply(
        tasks=[
            flows.FlowTaskStatus(
                index=0, taskid="A", url="http://a/", state="success", seconds=1.5, ended_at=1700000002.0
            ),
            flows.FlowTaskStatus(
                index=1,
                taskid="D",
                url="http://d/",
                state="ready",
                depends_on=[
                    0,
                    ("shops", "B"),
                ],
            ),
        ],
        n=28,
    ),
    insight.StatsReply(
        projects=[
            insight.ProjectStats(
                name="news",
                totals=values.EventTotals(new=2, success=1),
                windows=insight.Windows(minutes=insight.Window(success=1, mean_seconds=0.5, p95_seconds=1.0)),
            )
        ],
        more=False,
        n=15,
    ),
    insight.JobCountsReply(counts=values.TaskCounts(ready=2, success=40), next="p9", n=46),
    insight.HistoryReply(
        points=[insight.HistoryPoint(at=1699999200.0, new=1200, selected=1180, success=1171, failed=3)], n=25
    ),
    insight.WatchReply(
        epoch=4,
        since="70368744177665.14",
        counts=values.TaskCounts(ready=2, success=1),
        totals=values.EventTotals(new=3, selected=1, success=1),
        projects=[
            insight.ProjectPulse(
                name="news",
                group="papers",
                state="running",
                reason="",
                rate=5.0,
                burst=10.0,
                bucket="",
                counts=(2, 0, 0, 1, 0, 0, 0),
                totals=(3, 1, 1, 0, 0, 0),
                slow=0,
            )
        ],
        gone=["old"],
        found=1,
        n=19,
    ),
    insight.WhyReply(sentence='project "news" is running at its limit of 8/s', cause="pace", n=19),
    insight.FailuresReply(
        since=1700000000.5,
        failures=1200,
        count=2,
        groups=[
            insight.FailureGroup(
                name="a.org",
                failures=1198,
                first_at=1700000001.0,
                last_at=1700003600.0,
                project="news",
                taskid="p2",
                host="a.org",
                fetcher="crawler:17",
                error="HTTP 503",
            ),
            insight.FailureGroup(
                name="b.org",
                failures=2,
                first_at=1700000002.0,
                last_at=1700000003.0,
                project="news",
                taskid="p9",
                host="b.org",
                fetcher="crawler:17",
                error="timeout",
            ),
        ],
        n=26,
    ),
    insight.LogReply(
        entries=[
            values.Change(
                number=812,
                at=1700000000.5,
                what="project delete",
                actor="anna@web1",
                address="10.0.0.7",
                project="news",
                count=1204,
            )
        ],
        n=24,
    ),
    operations.OperationReply(
        operation=values.Operation(
            id=17592186044420,
            action="retry",
            projects=["news"],
            dry_run=True,
            known=5000,
            seen=1024,
            matched=7,
            began_at=1700000000.5,
            number=3,
        ),
        n=21,
    ),
    operations.OperationsReply(
        operations=[
            values.Operation(
                id=17592186044421,
                action="rerun",
                projects=["news"],
                dry_run=False,
                known=3,
                seen=3,
                matched=3,
                began_at=1700000000.5,
                ended_at=1700000001.5,
                number=4,
                rerun=values.RerunProgress(
                    taskid="p9",
                    scope="downstream",
                    layers=[
                        values.RerunLayer(tasks=1, taskids=["p9"]),
                        values.RerunLayer(tasks=2, taskids=["p10", "shops/B"]),
                    ],
                    depth=2,
                ),
            ),
            values.Operation(
                id=17592186044419,
                action="cancel",
                projects=["news"],
                dry_run=False,
                known=5000,
                seen=5000,
                matched=9,
                began_at=1700000000.5,
                ended_at=1700000000.75,
                number=2,
                rows=9,
            ),
            values.Operation(
                id=17592186044422,
                action="undo",
                projects=["news"],
                dry_run=False,
                known=7,
                seen=7,
                matched=5,
                began_at=1700000002.5,
                ended_at=1700000003.5,
                number=5,
                undo=values.UndoProgress(
                    of=3,
                    action="cancel",
                    counts=values.TaskCounts(ready=4, delayed=1),
                    ran=1,
                    changed=1,
                    gone=1,
                    children=1,
                    children_named=["p9"],
                    finished=1,
                    finished_named=["news"],
                    flows=1,
                    flows_named=["nightly"],
                ),
            ),
        ],
        n=23,
    ),
    projects.ProjectReply(
        project=projects.Project(
            name="news",
            state="running",
            counts=values.TaskCounts(ready=2),
            totals=values.EventTotals(new=2),
            settings={"rate": 5.0},
            overrides={"rate": 5.0},
            tokens=3.0,
            cron=[
                projects.CronEntry(entry="daily", next_at=1700010800.0, last_at=1699924400.0, ran=12, skipped=1),
                projects.CronEntry(
                    entry="night",
                    next_at=1700010800.0,
                    last_at=1699924400.0,
                    ran=8,
                    skipped=1,
                    waiting=1,
                    problem="flow night-1699838000 has failed",
                ),
            ],
            shared=projects.SharedBucket(name="papers", rate=20.0, burst=20.0, tokens=12.5),
            configured={"burst": ["defaults"]},
            slots=slots.SlotDivision(by="host", ready=3, waiting=12, parked=1),
            remaining=projects.Remaining(
                new_rate=1.5, done_rate=4.0, left=1200, later=30, soonest_seconds=300.0, latest_seconds=420.0
            ),
        ),
        n=8,
    ),
    projects.WaitReply(
        finished=False, unfinished=2, times=4, remaining=projects.Remaining(left=2, reason="too-few"), n=17
    ),
    projects.GroupReply(projects=3, changed="rate=5 (was 20, 7)", n=31),
    slots.SlotListReply(
        by="host",
        count=1200,
        slots=[
            slots.Slot(
                name="example.org",
                place="waiting",
                number=7,
                delay=2.5,
                ready=40,
                more=True,
                until=1700000001.5,
                errors=3,
            )
        ],
        n=27,
    ),
    slots.SlotReply(
        slot=slots.Slot(name="example.org", place="ready", number=7, delay=2.5, ready=1),
        chosen={"delay": 2.5},
        sources={"delay": "person", "burst": "project", "max_processing": "*.org", "max_tasks": "project"},
        tasks=[tasks.TaskRow(taskid="p2", url="http://example.org/2")],
        n=28,
    ),
    tasks.NewTasksReply(
        outcomes=["new", "rejected"],
        errors=[tasks.ItemError(index=1, reason="tasks[1].schedule.priority: expected int, got str")],
        states=["", ""],
        n=2,
    ),
    tasks.DoneReply(outcomes=["done", "stale"], new=[["new"], []], n=3),
    tasks.TaskReply(
        project="news",
        taskid="p2",
        url="http://a/2",
        state="ready",
        schedule=values.Schedule(priority=5),
        priority=5,
        depth=1,
        history=[
            values.Attempt(
                at=1700000000.5, outcome="failed", fetcher="web1:4711", seconds=0.25, error="503", kind="503"
            )
        ],
        result_bytes=9,
        result=packed({"title": "A"}),
        on_parent_failure="run",
        n=11,
    ),
    tasks.TaskWaitReply(state="success", n=44),
    tasks.TaskParentsReply(
        parents=[
            tasks.PackedParent(
                project="news", taskid="p1", state="success", satisfied=True, result=packed({"title": "A"})
            )
        ],
        n=11,
    ),
    tasks.TaskChildrenReply(children=[tasks.Child(project="news", taskid="p2", state="blocked", waits=True)], n=11),
    tasks.TaskListReply(
        tasks=[
            tasks.TaskRow(
                taskid="p2",
                url="http://a/2",
                at=1700000000.5,
                retried=3,
                error="HTTP 503",
                fetcher="crawler:17",
                kind="HTTP 503",
                job="monday",
            )
        ],
        next="18bcfe568f400001",
        n=20,
    ),
    tasks.TasksReply(outcomes=["done"], n=12),
    base.ErrorReply(
        code="unknown-project", reason='project "nwes" is unknown; make it with: taskqueue project start nwes', n=7
    ),
    fetchers.Select(
        number=4,
        tasks=[
            values.Assignment(
                project="news",
                taskid="p2",
                url="http://a/2",
                token=TOKEN,
                timeout=600.0,
                body=packed({"save": {"page": 2}}),
                retried=1,
                lastcrawltime=1700000000.5,
                schedule=values.Schedule(priority=3, itag="v2"),
            ),
            values.Assignment(
                project="news",
                taskid="p4",
                url="http://b/4",
                token=NEXT_TOKEN,
                timeout=600.0,
                not_before=0.5,
                start_within=1.0,
                etag='"686897696a7c876b7e"',
                last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
                content_hash="d2e30d02",
            ),
        ],
        fetch={"news": packed({"proxy": "http://proxy:3128"})},
    ),
    fetchers.HelloWanted(epoch=2),
)

EXAMPLES: Final[Mapping[type, AnyRequest | AnyOutgoing]] = {type(example): example for example in _ALL}
"""By type of message, one of each."""
