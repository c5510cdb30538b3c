"""Push tasks with a schedule, and print their outcomes. Start a daemon and the crawler first:

taskqueue project set demo rate=5 slot.by=host max_depth=20
python examples/crawler.py &
python examples/producer.py
"""

from taskqueue import Client, new_task

SECTIONS = ("news", "sport", "weather")


def main() -> None:
    """Push one urgent page, and a few that are crawled again each hour."""
    with Client() as client:
        print(client.push("demo", "https://example.com/", priority=10))
        pages = (new_task(f"https://example.com/{name}", age=3600, auto_recrawl=True) for name in SECTIONS)
        print(client.push_many("demo", pages))


if __name__ == "__main__":
    main()
