"""``/ws/console``: deltas of the fleet for whoever may see it, from where a page left off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    run,
)
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from dragoman.api.live.console.feed import PAIRS_SHOWN

Body = dict[str, Any]


class Watcher:
    """A page that applies what it is told."""

    def __init__(self, server: ServerProcess, topics: list[str], **options: Any) -> None:
        cursors: dict[str, str] = options.pop("cursors", {})
        self._open = ExitStack()
        url = server.url.replace("http", "ws") + "/ws/console"
        self.socket = self._open.enter_context(connect(url, max_size=None, **options))
        self.cursors = cursors
        self.nodes: dict[str, Body] = {}
        self.messages: list[Body] = []
        self.watch(topics)

    def close(self) -> None:
        self._open.close()

    def watch(self, topics: list[str]) -> None:
        order = {"type": "watch", "topics": topics, "cursors": self.cursors}
        with suppress(ConnectionClosed):  # what comes of it is heard
            self.socket.send(json.dumps(order))

    def hear(self) -> Body:
        message: Body = json.loads(self.socket.recv(PATIENCE_SECONDS))
        self.messages.append(message)
        self.cursors[message["type"]] = message["cursor"]
        if message["type"] == "nodes":
            if message["reset"]:
                self.nodes.clear()
            for gone in message["gone"]:
                self.nodes.pop(gone, None)
            self.nodes |= {row["node_id"]: row for row in message["changed"]}
        return message

    def until_node(self, node_id: str, **fields: object) -> Body:
        """Listen until the node is told of with these fields."""
        while not (node := self.nodes.get(node_id)) or not fields.items() <= node.items():
            self.hear()
        return node

    def until(self, kind: str, **fields: object) -> Body:
        while True:
            message = self.hear()
            if message["type"] == kind and fields.items() <= message.items():
                return message


@pytest.fixture
def watcher(server: ServerProcess) -> Iterator[Watcher]:
    watcher = Watcher(server, ["nodes", "overview"])
    yield watcher
    watcher.close()


def test_a_page_is_told_of_nodes_that_come_work_and_go(
    server: ServerProcess, caller: Caller, pair: tuple[str, str], watcher: Watcher
) -> None:
    with ManualNode(server, pair, slots=2, node_id="n-watched") as node:
        row = watcher.until_node("n-watched", status="ready")
        assert (row["slots"], row["used"]) == (2, 0)
        assert set(row["languages"]) == set(pair)
        asked = caller.ask(pair)
        assert asked.status_code == 201
        job = node.take()
        watcher.until_node("n-watched", used=1)
        node.succeed(job, text_translated="hola")
        watcher.until_node("n-watched", used=0)
    watcher.until_node("n-watched", status="offline")


def test_a_page_that_comes_back_is_told_only_what_it_missed(
    server: ServerProcess, pair: tuple[str, str]
) -> None:
    with ManualNode(server, pair, node_id="n-one"), ManualNode(server, pair, node_id="n-two"):
        before = Watcher(server, ["nodes"])
        assert before.hear()["reset"]
        before.until_node("n-one", status="ready")
        before.until_node("n-two", status="ready")
        before.close()
        with ManualNode(server, pair, node_id="n-three"):
            back = Watcher(server, ["nodes"], cursors=before.cursors)
            back.until_node("n-three")
            assert not any(message["reset"] for message in back.messages)
            assert "n-one" not in back.nodes
            back.close()
            stranger = Watcher(server, ["nodes"], cursors={"nodes": "c-other.5"})
            assert stranger.hear()["reset"], "a cursor of another process means nothing"
            assert {"n-one", "n-two", "n-three"} <= stranger.nodes.keys()
            stranger.close()


def test_pairs_show_their_room_and_refusals_with_their_reasons(
    server: ServerProcess, caller: Caller, pair: tuple[str, str]
) -> None:
    name = ":".join(pair)
    with ManualNode(server, pair, slots=3):
        watcher = Watcher(server, ["pairs", "overview"])
        rows: dict[str, Body] = {}
        while rows.get(name, {}).get("free") != 3:
            message = watcher.hear()
            rows |= {row["pair"]: row for row in message.get("changed", [])}
        assert caller.ask((pair[0], "xx-none")).status_code == 409
        while "PAIR_UNSUPPORTED" not in (seen := watcher.until("overview"))["refused"]:
            pass
        assert seen["refused_reasons"]["pair_unsupported"] == 1
        while rows.get(f"{pair[0]}:xx-none", {}).get("refused") != 1:
            message = watcher.hear()
            rows |= {row["pair"]: row for row in message.get("changed", [])}
        watcher.close()
        found = caller.get(f"/pools/{name}").json()
        assert len(found["node_ids"]) == 1


def test_a_page_is_told_that_more_pairs_are_served_than_it_is_shown(server: ServerProcess) -> None:
    languages = tuple(f"x{first}{second}" for first in "abcdefgh" for second in "abcdefgh")
    assert len(languages) * (len(languages) - 1) > PAIRS_SHOWN
    watcher = Watcher(server, ["pairs"])
    with ManualNode(server, languages):
        while not watcher.until("pairs")["cut"]:
            pass
    watcher.close()


def test_a_page_may_turn_to_other_topics_on_the_same_socket(watcher: Watcher) -> None:
    watcher.until("overview")
    watcher.watch(["instances", "sessions"])
    message = watcher.until("instances")
    assert [item["alive"] for item in message["items"]] == [True]
    assert watcher.until("sessions")["active"] == 0


def test_a_page_is_told_of_sessions_only_when_they_change(
    server: ServerProcess, pair: tuple[str, str]
) -> None:
    def looks(watcher: Watcher, count: int) -> list[str]:
        """What is heard while the server looks so often."""
        heard: list[str] = []
        while heard.count("overview") < count:
            heard.append(watcher.hear()["type"])
        return heard

    watcher = Watcher(server, ["sessions", "overview"])
    watcher.until("sessions")
    assert "sessions" not in looks(watcher, 10)
    url = server.url.replace("http", "ws") + "/ws/session"
    with connect(url) as client:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        client.send(json.dumps(init))
        assert json.loads(client.recv(PATIENCE_SECONDS))["type"] == "session_init_ack"
        (opened,) = watcher.until("sessions", active=1, again=False)["changed"]
        assert opened["tgt_langs"] == [pair[1]]
        assert opened["utterances"] == 0
        assert "sessions" not in looks(watcher, 10)
        client.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "a word"}))
        while not (told := watcher.until("sessions")["changed"]) or not told[0]["utterances"]:
            pass
        path = f"{server.url}/api/v1/sessions/{opened['session_id']}"
        assert told[0] == httpx.get(path, timeout=PATIENCE_SECONDS).json()
    httpx.delete(path, timeout=PATIENCE_SECONDS).raise_for_status()
    while opened["session_id"] not in watcher.until("sessions")["gone"]:
        pass
    watcher.close()


@pytest.mark.parametrize("frame", ["{", '{"type": "watch", "topics": ["audio"]}', b"\x00", "[]"])
def test_a_frame_that_is_no_order_closes_the_socket(
    server: ServerProcess, frame: str | bytes
) -> None:
    with connect(server.url.replace("http", "ws") + "/ws/console") as socket:
        socket.send(frame)
        with pytest.raises(ConnectionClosed):
            socket.recv(PATIENCE_SECONDS)
        assert socket.close_code == 4400


def test_a_page_of_another_origin_is_refused(server: ServerProcess) -> None:
    url = server.url.replace("http", "ws") + "/ws/console"
    with connect(url, origin=Origin("https://evil.example")) as socket:
        with pytest.raises(ConnectionClosed):
            socket.recv(PATIENCE_SECONDS)
        assert socket.close_code == 4403


def test_each_role_watches_what_it_may_see(tmp_path_factory: pytest.TempPathFactory) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("console") / "data", env=env) as server:

        def bearer(role: str, *options: str) -> dict[str, str]:
            code, output, errors = run(
                "keys", "create", "--role", role, "--data-dir", server.data_dir, *options
            )
            assert code == 0, errors
            return {"Authorization": f"Bearer {output.split()[-1]}"}

        operator = bearer("operator")

        viewer = Watcher(server, ["overview", "nodes"], additional_headers=bearer("viewer"))
        assert viewer.until("nodes")["reset"]
        viewer.close()
        client = bearer("client")
        sessions = Watcher(server, ["sessions"], additional_headers=client)
        assert sessions.until("sessions")["active"] == 0
        url = server.url.replace("http", "ws") + "/ws/session"
        other = bearer("client", "--tenant", "other")
        for headers, is_shown in ((other, False), (client, True)):
            with connect(url, additional_headers=headers) as talking:
                talking.send(
                    json.dumps({"type": "session_init", "src_lang": "en", "tgt_lang": "es"})
                )
                session_id = json.loads(talking.recv(PATIENCE_SECONDS))["session_id"]
                told = sessions.until("sessions", active=1, again=False)
            shown = [row["session_id"] for row in told["changed"]]
            assert shown == ([session_id] if is_shown else [])
            path = f"{server.url}/api/v1/sessions/{session_id}"
            ended = httpx.delete(path, headers=operator, timeout=PATIENCE_SECONDS)
            ended.raise_for_status()
            told = sessions.until("sessions", active=0)
            assert told["gone"] == ([session_id] if is_shown else [])
        sessions.watch(["nodes"])
        with pytest.raises(ConnectionClosed):
            sessions.until("nodes")
        assert sessions.socket.close_code == 4403
        stranger = Watcher(server, ["overview"])
        with pytest.raises(ConnectionClosed):
            stranger.hear()
        assert stranger.socket.close_code == 4401
