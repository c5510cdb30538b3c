r"""Run nine tasks that wait for each other, as parallel as their graph allows; then A and its dependents again.

Start a daemon, then:

taskqueue project set demo rate=inf
python examples/flow.py

    A   B   C     D waits for A and B, E for B and C,
     \ / \ /      F for A and D, G and H for D and E, I for C and E.
      D   E
    F  G H  I

The second run is of A, D, F, G and H; B, C, E and I stay as they are.
"""

import asyncio

from taskqueue import AsyncClient, FlowTask, Task, Worker

PARENTS = {"A": "", "B": "", "C": "", "D": "AB", "E": "BC", "F": "AD", "G": "DE", "H": "DE", "I": "CE"}

ran: list[str] = []
"""Names of the tasks, in the order in which they ended."""


async def handle(task: Task) -> None:
    """Stand for a real flow's work, such as fetching a page, or joining the results of the parents."""
    await asyncio.sleep(0.05)
    ran.append(task.save["name"])


async def main() -> None:
    """Submit the flow, run it, and wait for its end; then run a part of it again."""
    async with AsyncClient() as client:
        flow = client.flow("demo")
        tasks: dict[str, FlowTask] = {}
        for name, parents in PARENTS.items():
            taskid = f"{flow.name}-{name}"
            after = [tasks[parent] for parent in parents]
            tasks[name] = flow.task(f"data:,{name}", after=after, taskid=taskid, save={"name": name})
        await flow.submit()

        worker = Worker(handle, ["demo"], client=client)
        serving = asyncio.ensure_future(worker.serve())
        ended = await client.flows.wait("demo", flow.name)
        print(f"{flow.name}: {ended.state}, {' '.join(ran)}")

        ran.clear()
        rerun = await client.tasks.rerun("demo", tasks["A"].taskid, scope="downstream")
        await client.operations.wait(rerun.id)
        ended = await client.flows.wait("demo", flow.name)
        print(f"again: {ended.state}, {' '.join(ran)}")
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
