"""The fleet's pages in a real browser: what is shown follows the server, and actions reach it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import ServerProcess, eventually
from websockets.sync.client import connect

expect.set_options(timeout=PATIENCE_MS)

MARKUP = "<img/src=x/onerror=alert(1)>"


@pytest.fixture
def caller(open_server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(open_server)
    yield caller
    caller.close()


def test_an_empty_fleet_says_how_to_start_a_node(console: ConsolePage) -> None:
    console.go("/")
    console.shows("dragoman node --url ws://")


def test_a_node_is_shown_as_it_comes_works_and_goes(
    console: ConsolePage, open_server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    console.go("/nodes")
    console.heading("Nodes")
    row = console.page.get_by_role("row").filter(has_text="n-live")
    with ManualNode(open_server, pair, slots=2, node_id="n-live") as node:
        expect(row).to_contain_text("Ready")
        expect(row).to_contain_text("0 / 2")
        assert caller.ask(pair).status_code == 201
        job = node.take()
        expect(row).to_contain_text("1 / 2")
        row.get_by_role("link", name="n-live").click()
        console.heading("Node n-live")
        working = console.page.get_by_role("table", name="Works on")
        expect(working.get_by_role("link", name=job["job_id"])).to_be_visible()
        console.page.go_back()
        node.succeed(job, text_translated="hola")
        expect(row).to_contain_text("0 / 2")
    expect(row).to_contain_text("Offline")


def test_filters_are_in_the_address_and_the_address_can_be_shared(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    pair = new_pair()
    with (
        ManualNode(open_server, pair, node_id="n-alpha"),
        ManualNode(open_server, new_pair(), node_id="n-beta"),
    ):
        console.go("/nodes")
        console.heading("Nodes")
        console.page.keyboard.press("/")
        console.page.keyboard.type("alpha")
        rows = console.page.get_by_role("table", name="Nodes").get_by_role("row")
        expect(rows).to_have_count(2)
        assert "q=alpha" in console.page.url
        asked: list[str] = []
        console.page.on("request", lambda request: asked.append(request.url))
        console.go("/nodes")
        console.page.get_by_label("Language pair").press_sequentially(":".join(pair), delay=50)
        expect(rows).to_have_count(2)
        assert len([url for url in asked if "/api/v1/pools/" in url]) == 1
        console.go(f"/nodes?pair={pair[0]}:{pair[1]}&status=ready")
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("n-alpha")
        console.page.get_by_role("button", name="Slots in use").click()
        expect(console.page.get_by_role("columnheader", name="Slots in use")).to_have_attribute(
            "aria-sort", "ascending"
        )
        assert "sort=used" in console.page.url


def beat_until(node: ManualNode, console: ConsolePage, shown: str) -> None:
    """Have the node beat, as one that is well, until the page shows this in a cell."""
    cell = console.page.get_by_role("cell", name=shown)

    def is_shown() -> bool:
        node.beat()
        return cell.is_visible()

    eventually(is_shown, f"{shown} is shown")


def test_an_operator_drains_resumes_and_shuts_down_a_node_after_being_asked(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    with ManualNode(open_server, new_pair(), node_id="n-ordered") as node:
        console.go("/nodes/n-ordered")
        console.heading("Node n-ordered")
        for action, shown in (("Drain", "Draining"), ("Resume", "Ready")):
            console.act(action)
            node.wait_for("node_control", command=action.lower())
            beat_until(node, console, shown)
        console.page.get_by_role("button", name="Shut down").click()
        dialog = console.page.get_by_role("dialog", name="Shut down")
        expect(dialog).to_contain_text("n-ordered")
        dialog.get_by_role("button", name="Back").click()
        expect(dialog).to_be_hidden()
        console.page.get_by_role("button", name="Shut down").click()
        dialog.get_by_role("button", name="Shut down").click()
        node.wait_for("node_control", command="shutdown")


def test_a_pair_shows_its_room_and_leads_to_its_nodes(
    console: ConsolePage, open_server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    with ManualNode(open_server, pair, slots=3, node_id="n-paired"):
        assert caller.ask((pair[0], "xx-none")).status_code == 409
        console.go("/pairs")
        console.heading("Language pairs")
        link = console.page.get_by_role("link", name=f"{pair[0]}:{pair[1]}: 3 / 3 slots free")
        link.wait_for()
        unserved = console.page.get_by_role("link", name=f"{pair[0]}:xx-none: 0 / 0 slots free")
        unserved.wait_for()
        link.click()
        console.heading("Nodes")
        console.page.get_by_role("link", name="n-paired").wait_for()


def test_a_job_shows_its_attempts_in_time_and_why_its_nodes_were_chosen(
    console: ConsolePage, open_server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    with (
        ManualNode(open_server, pair, node_id="n-first") as first,
        ManualNode(open_server, pair, node_id="n-second") as second,
    ):
        asked = caller.ask(pair, preferred_node_id="n-first").json()
        first.fail(first.take(), "NODE_OVERLOADED")
        second.succeed(second.take(), text_translated=f"hola {MARKUP}")
        console.go("/jobs")
        console.page.get_by_label("Filter").fill(":".join(pair))
        expect(console.page.get_by_role("row")).to_have_count(2)
        expect(console.page.get_by_role("row").nth(1)).to_contain_text(
            re.compile(r"\d\d:\d\d:\d\d")
        )
        console.page.get_by_role("link", name=asked["job_id"]).click()
        console.heading(f"Job {asked['job_id']}")
        console.shows("NODE_OVERLOADED")
        console.shows(f"hola {MARKUP}")
        console.shows("excluded by the caller or a failed attempt")
        console.shows("could have got it, one of them did")
        for node in ("n-first", "n-second"):
            # As a candidate of the first attempt, and as what became of it in the others.
            links = console.page.get_by_role("link", name=node, exact=True)
            expect(links.nth(2)).to_have_attribute("href", f"/nodes/{node}")
        assert console.accessibility_violations() == []


def test_an_operator_cancels_a_job(
    console: ConsolePage, open_server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    with ManualNode(open_server, pair, node_id="n-cancelled") as node:
        job_id = caller.ask(pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        console.go(f"/jobs/{job_id}")
        console.act("Cancel the job", job_id)
        node.wait_for("job_cancel", job_id=job_id)
        node.fail(job, "JOB_CANCELLED", retryable=False)
        eventually(lambda: caller.job(job_id)["outcome"] == "cancelled", "the job is cancelled")


def looked_at_often(server: ServerProcess) -> None:
    """Wait until the server has looked at the fleet for six seconds."""
    with connect(server.url.replace("http", "ws") + "/ws/console") as socket:
        socket.send(json.dumps({"type": "watch", "topics": ["overview"]}))
        for _ in range(12):
            socket.recv(60)


def test_pages_of_sessions_ask_only_when_something_changed(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    for path, title in (("/sessions", "Sessions"), ("/sessions/s-none", "Session s-none")):
        asked.clear()
        console.go(path)
        console.heading(title)
        console.page.get_by_role("status").filter(has_text="Live").wait_for()
        looked_at_often(open_server)
        console.heading(title)
        of_sessions = [url for url in asked if "/api/v1/sessions" in url]
        assert len(of_sessions) <= 2 * (1 + path.count("none")), of_sessions
    console.complaints.clear()  # the browser told of the session that is not there


def test_sessions_come_work_and_go_on_an_open_page_without_being_asked_for(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    console.go("/sessions")
    console.shows("No session is open")
    console.page.get_by_role("status").filter(has_text="Live").wait_for()
    looked_at_often(open_server)
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    url = open_server.url.replace("http", "ws") + "/ws/session"
    pair = new_pair()
    with ManualNode(open_server, pair), connect(url) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(60))["session_id"]
        row = console.page.get_by_role("row").filter(has_text=session_id)
        expect(row).to_contain_text("Active")
        expect(row.get_by_role("cell").nth(4)).to_have_text("0")
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "a word"}))
        expect(row.get_by_role("cell").nth(4)).to_have_text("1")
        console.page.get_by_label("Language").select_option("zh")
        expect(row).to_contain_text("活动中")
        path = f"{open_server.url}/api/v1/sessions/{session_id}"
        httpx.delete(path, timeout=60).raise_for_status()
        expect(row).to_have_count(0)
    assert asked == []


def test_an_operator_ends_a_session(console: ConsolePage, open_server: ServerProcess) -> None:
    console.go("/sessions")
    console.heading("Sessions")
    console.shows("No session is open")
    url = open_server.url.replace("http", "ws") + "/ws/session"
    with connect(url) as socket:
        init = {"type": "session_init", "src_lang": "en", "tgt_lang": "es"}
        socket.send(json.dumps(init))
        ack = json.loads(socket.recv(60))
        console.shows(ack["session_id"])
        console.act("End", ack["session_id"])
        console.shows("No session is open")


def test_markup_in_what_nodes_say_is_shown_as_text(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    name = f"n-{MARKUP}/1"
    services = [
        {
            "service_id": MARKUP,
            "type": "nmt",
            "version": MARKUP,
            "device": "cpu",
            "status": "running",
        }
    ]
    with ManualNode(open_server, new_pair(), node_id=name, services=services, features=[]) as node:
        node.say(type="node_drain", reason=MARKUP)
        console.go("/nodes")
        console.page.get_by_role("link", name=name).click()
        console.heading(f"Node {name}")
        console.page.get_by_role("cell", name=MARKUP, exact=True).first.wait_for()
        assert console.page.locator("img").count() == 0


def test_markup_in_sessions_explanations_and_settings_is_shown_as_text(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pair, name = new_pair(), f"n-{MARKUP}/2"
    folder = tmp_path_factory.mktemp("planted") / MARKUP
    folder.parent.mkdir(parents=True)
    with (
        ServerProcess(folder) as server,
        ConsolePage.opened(browser, server.url) as console,
        ManualNode(server, pair, node_id=name) as node,
        connect(server.url.replace("http", "ws") + "/ws/session") as socket,
    ):
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(timeout=10))["session_id"]
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": MARKUP}))
        job = node.take()
        node.succeed(job, text_translated=MARKUP)
        console.go(f"/sessions/{session_id}")
        console.page.get_by_role("link", name=name).wait_for()
        assert console.page.locator("img").count() == 0
        console.go(f"/jobs/{job['job_id']}")
        # As the node of the attempt, as a candidate, and as the one that was chosen.
        expect(console.page.get_by_role("link", name=name)).to_have_count(3)
        console.shows(MARKUP)
        assert console.page.locator("img").count() == 0
        console.go("/settings?q=data_dir")
        console.page.get_by_role("cell").filter(has_text=MARKUP).first.wait_for()
        assert console.page.locator("img").count() == 0


def answered_with(body: object, route: Route) -> None:
    route.fulfill(json=body)


def test_markup_in_alerts_and_dead_letters_is_shown_as_text(console: ConsolePage) -> None:
    alert = {
        "name": f"Dragoman{MARKUP}",
        "severity": "page",
        "state": "firing",
        "summary": MARKUP,
        "since": "2026-11-19T12:00:00Z",
        "for_seconds": 60,
        "about": {"node": MARKUP},
        "runbook": f"docs/howto/runbook.md#{MARKUP}",
    }
    alerts = {"items": [alert], "looked_at": None, "not_judged": [MARKUP]}
    letter = {
        "letter_id": "l-1",
        "instance_id": MARKUP,
        "reason": MARKUP,
        "buried_at": "2026-11-19T12:00:00Z",
        "note": {MARKUP: MARKUP},
    }
    letters = {"items": [letter], "next": None}
    # No node and no client has a way to plant it here: the server's answer does.
    for address, planted in (("alerts", alerts), ("cluster/dead-letters", letters)):
        console.page.route(f"**/api/v1/{address}", partial(answered_with, planted))
    for path, title in (("/alerts", "Alerts"), ("/cluster", "Cluster")):
        console.go(path)
        console.heading(title)
        console.shows(MARKUP)
        assert console.page.locator("img").count() == 0


def test_the_console_goes_on_after_the_server_was_killed_and_started_again(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("again") / "data"
    phone = {"width": 360, "height": 800}
    with (
        ServerProcess(folder) as server,
        ConsolePage.opened(browser, server.url, viewport=phone) as console,
    ):
        port = server.url.rpartition(":")[2]
        console.go("/nodes")
        console.heading("Nodes")
        console.page.get_by_role("table", name="Nodes").wait_for()
        server.process.kill()
        server.wait()
        lost = console.page.get_by_role("alert").filter(has_text="Connection lost at")
        lost.wait_for()
        expect(console.page.locator("#main")).to_have_attribute("data-old", "true")
        assert console.accessibility_violations() == []
        with ServerProcess(folder, "--port", port) as again:
            assert again.url == server.url
            expect(lost).to_be_hidden()
            with ManualNode(again, new_pair(), node_id="n-after"):
                console.page.get_by_role("link", name="n-after").wait_for()
        console.complaints.clear()  # the browser told of the sockets that could not be opened


def test_a_session_shows_where_the_time_of_its_utterances_went(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    pair = new_pair()
    url = open_server.url.replace("http", "ws") + "/ws/session"
    with ManualNode(open_server, pair, node_id="n-timed") as node, connect(url) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_langs": [pair[1], "xx-none"]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(timeout=10))["session_id"]
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "a secret"}))
        job = node.take()
        node.accept(job)
        console.go("/sessions")
        console.page.get_by_role("link", name=session_id).click()
        console.heading(f"Session {session_id}")
        console.shows("PAIR_UNSUPPORTED")
        node.succeed(job, text_translated="un secreto", timings={"nmt_ms": 1500})
        console.shows("nmt 1.5 s")
        assert "secret" not in console.page.inner_text("main")
        assert console.accessibility_violations() == []
        console.page.emulate_media(color_scheme="dark")
        assert console.accessibility_violations() == []
        console.page.get_by_role("button", name="End").click()
        dialog = console.page.get_by_role("dialog", name="End")
        dialog.get_by_role("button", name="End").click()
        console.shows("The session is over")
        console.page.get_by_role("link", name=job["job_id"]).click()
        console.heading(f"Job {job['job_id']}")
    console.complaints.clear()  # the browser told of the session that was not there any more


def test_the_last_hour_is_drawn_for_the_fleet_and_for_a_node(
    console: ConsolePage, open_server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    with ManualNode(open_server, pair, node_id="n-hour") as node:
        assert caller.ask((pair[0], "xx-none")).status_code == 409
        job_id = caller.ask(pair).json()["job_id"]
        node.succeed(node.take(), text_translated="hola")
        eventually(lambda: caller.job(job_id)["state"] != "RUNNING", "the job has ended")
        console.go("/")
        console.heading("Overview")
        row = console.page.get_by_role("row").filter(has_text=":".join(pair))
        expect(row).to_contain_text("1")
        refused = console.page.get_by_role("row").filter(has_text=f"{pair[0]}:xx-none")
        expect(refused).to_be_visible()
        reasons = console.page.get_by_role("table", name="Why nodes were left out of them")
        expect(
            reasons.get_by_role("row").filter(has_text="does not serve the pair")
        ).to_be_visible()
        row.get_by_role("link").click()
        console.page.get_by_role("link", name="n-hour").click()
        console.heading("Node n-hour")
        console.page.get_by_role("img", name="1 job, 0 failures").wait_for()


def test_nodes_are_squares_that_mouse_and_keyboard_lead_to(
    console: ConsolePage, open_server: ServerProcess
) -> None:
    with (
        ManualNode(open_server, new_pair(), node_id="n-square-a", slots=2),
        ManualNode(open_server, new_pair(), node_id="n-square-b", slots=3),
    ):
        console.go("/nodes?q=square")
        # The address changes first, and the switch with it.
        switch = console.page.get_by_role("switch", name="As cells")
        switch.click(force=True)
        expect(switch).to_be_checked()
        assert "view=cells" in console.page.url
        cells = console.page.get_by_role("listbox", name="Nodes as cells")
        chosen = cells.get_by_role("option")
        expect(chosen).to_have_text("n-square-a · Ready · 0 / 2")
        cells.hover(position={"x": 22, "y": 8})
        expect(chosen).to_have_text("n-square-b · Ready · 0 / 3")
        painted = cells.locator("canvas").evaluate(
            "canvas => [...canvas.getContext('2d').getImageData(4, 4, 20, 8).data].some(Boolean)"
        )
        assert painted
        cells.focus()
        console.page.keyboard.press("Home")
        expect(chosen).to_have_text("n-square-a · Ready · 0 / 2")
        console.page.keyboard.press("ArrowRight")
        expect(chosen).to_have_text("n-square-b · Ready · 0 / 3")
        console.page.keyboard.press("Enter")
        console.heading("Node n-square-b")
