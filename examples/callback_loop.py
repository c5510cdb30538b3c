"""A crawler whose loop can't await: all its work is done in callbacks. Start a daemon, then:

taskqueue project set demo rate=5 slot.by=host max_depth=20
taskqueue push demo https://example.com/
python examples/callback_loop.py
"""

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf

from taskqueue import AsyncClient, Drop, Retry, Task
from taskqueue.http import Http, Page

ROOM = 8

http = Http("examplebot/1.0 (+https://example.com/bot)")


class Crawler:
    """Engine of a framework: its callbacks have to return at once."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.loop = asyncio.get_running_loop()
        self.downloads = ThreadPoolExecutor(ROOM)
        self.ended = asyncio.Event()
        self.intake = client.intake(["demo"], ROOM, on_arrival=self.download_more)

    def download_more(self) -> None:
        """Begin with the tasks that are here, as long as there is room."""
        while (task := self.intake.take_now()) is not None:
            download = self.loop.run_in_executor(self.downloads, http.fetch, task)
            download.add_done_callback(partial(self.downloaded, task))

    def downloaded(self, task: Task, download: asyncio.Future[Page]) -> None:
        """Report a task, whose place is free then, and begin the next."""
        match download.exception():
            case None:
                self.client.report_soon(task, download.result().links())
            case Drop() as drop:
                self.client.report_soon(task, drop.new, error=str(drop), retry=False)
            case Retry() as retry:
                self.report_retry(task, retry)
            case error:
                self.client.report_soon(task, error=repr(error))
        self.download_more()
        self.end_if_idle()

    def report_retry(self, task: Task, retry: Retry) -> None:
        """Report that a task is to run again, with the handler's changes to its next attempt."""
        self.client.report_soon(
            task, retry.new, error=str(retry), after=retry.after,
            counts=retry.counts, body=retry.body, priority=retry.priority,
        )  # fmt: skip

    def stop(self) -> None:
        """Take no more; tasks that were not begun go back at once."""
        self.intake.room = 0
        self.end_if_idle()

    def end_if_idle(self) -> None:
        """Set ``ended`` when the last page is reported."""
        if self.intake.room == self.intake.running == 0:
            self.ended.set()


async def main() -> None:
    """Crawl until SIGTERM or Ctrl-C."""
    async with AsyncClient(timeout=inf) as client:
        crawler = Crawler(client)
        for number in (signal.SIGINT, signal.SIGTERM):
            crawler.loop.add_signal_handler(number, crawler.stop)
        await crawler.ended.wait()
        await client.settled()


if __name__ == "__main__":
    asyncio.run(main())
