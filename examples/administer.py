"""All that a client shows of a project, with its types: ``python examples/administer.py [PROJECT]``."""

import sys
from collections.abc import Iterable

from taskqueue import Client, FlowTask, Pushed, Reported, Task, types

URL = "https://site.example/"


def administer(client: Client, name: str) -> Iterable[object]:
    project: types.Project = client.projects.set(name, {"slot": {"by": "host"}, "group": "sites", "rate": 100})
    changed: types.GroupChange = client.groups.set("sites", {"burst": 10})
    paused: types.Operation = client.groups.pause("sites")
    yield from (project.counts, changed.changed, paused.matched, client.projects.resume(name).state)
    with client.projects.keep_open(name):
        outcome: types.PushOutcome = client.push(name, URL)
        pushed: Pushed = client.push_many(name, [f"{URL}{number}" for number in range(3)])
    yield from (outcome, pushed.new)
    taken: list[Task] = client.select(projects=[name])
    reported: Reported = client.done(taken[0], [f"{URL}next"], result={"title": "A"})
    yield reported.outcome
    flow = client.flow(name)
    first: FlowTask = flow.task(f"{URL}first")
    last: FlowTask = flow.task(f"{URL}last", after=[first])
    submitted: types.Flow = flow.submit()
    steps: list[types.FlowTaskStatus] = list(client.flows.iter_tasks(name, submitted.flow))
    flows: types.Page[types.Flow] = client.flows.list(name)
    yield from (client.flows.get(name, flow.name).state, len(steps), len(flows.items))
    details: types.TaskDetails = client.tasks.get(name, taken[0].taskid)
    history: list[types.Attempt] = details.history
    rows: types.Page[types.TaskRow] = client.tasks.list(name, "ready")
    parents: list[types.Parent] = list(client.tasks.parents(name, last.taskid))
    children: list[types.Child] = list(client.tasks.children(name, first.taskid))
    cancelled: list[types.TaskOutcome] = client.tasks.cancel(name, [last.taskid])
    rerun: types.Operation = client.operations.wait(client.tasks.rerun(name, taken[0].taskid, dry_run=True).id)
    yield from (details.result, history, rows.next, parents, children, cancelled, rerun.matched)
    entry: types.CronEntry = client.cron.set(name, "nightly", cron="0 3 * * *", url=URL)
    slots: types.SlotPage = client.slots.list(name, sort="name")
    slot: types.SlotDetails = client.slots.set(name, "site.example", delay=1.0)
    fetchers: types.FetcherPage = client.fetchers.list(project=name)
    drained: types.FetcherName = client.fetchers.drain("old-worker")
    mine: list[types.Fetcher] = client.fetchers.resume("old-worker").fetchers
    yield from (entry.next_at, slots.count, slot.chosen, fetchers.found, drained.draining, mine)
    status: types.Status = client.status()
    daemon: types.DaemonStatus = client.daemon.show()
    points: list[types.DaemonPoint] = list(client.daemon.history())
    stats: types.Page[types.ProjectStats] = client.stats.list()
    minutes: list[types.HistoryPoint] = list(client.stats.history(name))
    failures: types.Failures = client.failures(name, by="host")
    changes: list[types.Change] = list(client.log.iter(name))
    watched: types.ProjectChanges = next(iter(client.projects.watch()))
    yield from (status.counts, daemon.pid, points, stats.items, minutes, failures.failures, changes, watched.found)
    yield client.why(name)


if __name__ == "__main__":
    with Client() as it:
        for fact in administer(it, *(sys.argv[1:] or ["site"])):
            print(fact)
