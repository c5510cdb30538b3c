"""The dashboard's page of a flow, of a real daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskqueue import Client
from taskqueue.display.flows import FlowGraph
from taskqueue.web.live import flows
from tests.integration.conftest import Daemon
from tests.integration.web_pages import Pages, pages_of, table, words

HOSTILE = "</title><script>alert(1)</script>"
LARGE = 600


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a daemon with a small flow, one task of which is done, and a large flow."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        with Client(daemon.url) as it:
            flow = it.flow("shop", "nightly")
            first = flow.task("http://shop/first")
            second = flow.task("http://shop/<b>", after=[first], taskid=HOSTILE)
            flow.task("http://shop/last", after=[first, second], taskid="../last")
            flow.submit()
            it.done(it.select(1)[0])
            flow = it.flow("maps", "tiles")
            roots = [flow.task(f"http://maps/{number}") for number in range(5)]
            for number in range(LARGE - 5):
                flow.task(f"http://maps/tile/{number}", after=[roots[number % 5]])
            flow.submit()
            it.cron.set("shop", "night", every="1s", overlap="both", tasks={"load": {}, "sum": {"after": ["load"]}})
            it.cron.set("shop", "plain", every="365d")
            while len([view for view in it.flows.iter("shop") if view.cron]) < 2:
                it.projects.get("shop")
            it.cron.set("shop", "night", every="365d", tasks={"load": {}, "other": {}})
            flow = it.flow("maps", "failing")
            flow.task("http://maps/bad")
            flow.submit()
            yield it
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def pages(client: Client) -> Iterator[Pages]:
    with pages_of(client.daemon_address) as it:
        yield it


def test_a_small_flow_is_drawn_with_a_shape_for_each_task(pages: Pages) -> None:
    page = pages.page("/projects/shop/flows/nightly")

    shapes = page.xpath("//*[@id='drawing']//*[@data-cell='look']/@data-state")
    assert shapes == ["success", "ready", "blocked"]
    assert words(page.get_element_by_id("figures")).startswith("1 of 3 tasks finished")
    assert "Critical path so far" in words(page.get_element_by_id("path"))
    assert [row[:3] for row in table(page, "Tasks of the flow")[1:]] == [
        ["1", "http://shop/first", "success"], ["2", HOSTILE, "ready"], ["3", "../last", "blocked"],
    ]  # fmt: skip


def test_nothing_that_a_task_is_called_is_read_as_markup_or_leads_elsewhere(pages: Pages) -> None:
    page = pages.page("/projects/shop/flows/nightly")

    assert not [each for each in page.iter("script") if "alert" in (each.text or "")]
    links = [each.get("href") for each in page.iter("a")]
    assert all(link.startswith(("/", "#")) for link in links)
    assert "/projects/shop/tasks/..%2Flast" in links
    assert "/projects/shop/tasks/%3C%2Ftitle%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E" in links


def test_what_changes_of_a_task_is_sent_by_itself(pages: Pages) -> None:
    change = pages.first_change("/projects/shop/flows/nightly")

    assert set(change["blocks"]) == {"state", "figures", "path"}
    assert change["cells"]["n1/look"] == {"data-state": "ready"}
    assert change["cells"]["n1/sign"] == {"href": "#sign-ready"}
    assert change["cells"]["t2/state"] == {"text": "blocked", "data-state": "blocked"}
    assert change["cells"]["graph/critical"]["d"].startswith("M")


def test_a_large_flow_is_drawn_by_layer_and_state(pages: Pages) -> None:
    page = pages.page("/projects/maps/flows/tiles")

    assert [words(each) for each in page.xpath("//*[@id='drawing']//*[@class='name']")] == ["5 ready", "595 blocked"]
    assert table(page, "Layers of the flow")[1:] == [["1", "5", "5 ready"], ["2", "595", "595 blocked"]]
    assert set(pages.first_change("/projects/maps/flows/tiles")["blocks"]) == {
        "state", "figures", "path", "drawing", "tables",
    }  # fmt: skip


def test_a_flow_of_many_pages_is_read_by_and_by(client: Client, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "PAGES_A_LOOK", 1)
    flow = client.flow("maps", "larger")
    for number in range(1100):
        flow.task(f"http://maps/larger/{number}")
    flow.submit()

    first, second = pages.page("/projects/maps/flows/larger"), pages.page("/projects/maps/flows/larger")

    assert words(first.get_element_by_id("drawing")) == "Reading the flow: 1,000 of 1,100 tasks so far."
    assert [row[:2] for row in table(second, "Layers of the flow")[1:]] == [["1", "1,100"]]


def test_the_drawing_has_the_layers_and_the_critical_path_of_the_command_line(client: Client, pages: Pages) -> None:
    graph = FlowGraph()
    for task in client.flows.iter_tasks("shop", "nightly"):
        graph.add([each for each in task.depends_on if isinstance(each, int)], task.state, task.seconds)

    page = pages.page("/projects/shop/flows/nightly")

    assert len(page.xpath("//*[@id='drawing']//*[@class='layer']")) == len(graph.layers)
    assert len(page.xpath("//ol[@class='path']/li")) == len(graph.critical_path())


def test_a_flow_that_has_failed_can_be_run_again_and_not_cancelled(client: Client, pages: Pages) -> None:
    client.flows.cancel("maps", "failing")
    assert client.flows.wait("maps", "failing", timeout=60).ended_at

    page = pages.page("/projects/maps/flows/failing")

    assert page.xpath("//button/@data-rerun") == [next(client.flows.iter_tasks("maps", "failing")).taskid]
    assert not page.xpath("//button[@data-key='cancel']")
    assert page.get_element_by_id("rerun").get("data-project") == "maps"
    running = pages.page("/projects/shop/flows/nightly")
    assert running.xpath("//button[@data-key='cancel']/@data-api") == ["/api/v1/projects/shop/flows/nightly/cancel"]


def test_a_flow_that_nobody_knows_has_no_page(pages: Pages) -> None:
    assert "flow" in words(pages.page("/projects/shop/flows/ghost", 404))


def test_the_last_ticks_of_a_cron_entry_are_columns_and_their_tasks_rows(client: Client, pages: Pages) -> None:
    flows = sorted(view.flow for view in client.flows.iter("shop") if view.cron)
    page = pages.page("/projects/shop/cron/night")

    head, *rows = table(page, "Tasks of the last 10 ticks")
    assert len(head) == 1 + len(flows)
    assert rows == [["load", *["ready"] * len(flows)], ["sum", *["blocked"] * len(flows)]]
    cells = [
        (cell.get("data-state"), cell.get("href"), cell.get("title")) for cell in page.xpath("//*[@id='grid']//td/a")
    ]
    assert cells[0] == ("ready", f"/projects/shop/tasks/{flows[0]}.load", f"load of {flows[0]}: ready")
    assert page.xpath("//*[@id='grid']//thead//a/@href") == [f"/projects/shop/flows/{flow}" for flow in flows]
    times = page.xpath("//*[@id='grid']//time")
    assert ["data-brief" in each.attrib for each in times] == [float(each.get("data-unix")) % 60 == 0 for each in times]


def test_the_page_of_a_cron_entry_follows_its_flows(client: Client, pages: Pages) -> None:
    change = pages.first_change("/projects/shop/cron/night")

    assert set(change["blocks"]) == {"facts", "grid"}
    assert "blocked" in change["blocks"]["grid"]


def test_an_entry_without_a_graph_has_a_page_and_an_unknown_one_has_none(pages: Pages) -> None:
    assert "pushes one task" in words(pages.page("/projects/shop/cron/plain").get_element_by_id("grid"))
    assert pages.get("/projects/shop/cron/unknown").status_code == 404


def test_flows_of_a_cron_entry_share_a_row_that_leads_to_its_ticks(client: Client, pages: Pages) -> None:
    page = pages.page("/projects/shop/flows")

    names = [row[0] for row in table(page, "Flows")[1:]]
    newest = max(view.flow for view in client.flows.iter("shop") if view.cron)
    others = sum(bool(view.cron) for view in client.flows.iter("shop")) - 1
    assert sorted(names) == sorted([f"{newest} and {others} earlier", "nightly"])
    assert "/projects/shop/cron/night" in [each.get("href") for each in page.iter("a")]
    page = pages.page(f"/projects/shop/flows?filter={newest}")
    assert [row[0] for row in table(page, "Flows")[1:]] == [f"{newest} ticks of night"]
