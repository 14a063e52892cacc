"""The page of the cluster: its instances, and what an operator does with dead letters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.cluster_api.test_operating import letters, post_nonsense
from tests.integration.serve.server_process import eventually
from tests.servers import RedisProcess

pytestmark = pytest.mark.redis
expect.set_options(timeout=PATIENCE_MS)

SMALLER = {"DRAGOMAN_SCHEDULER__POOLS__CELL_SIZE": "50"}
"""What the second instance should have like the first one."""


def test_instances_are_shown_and_dead_letters_are_replayed_and_dropped(
    browser: Browser, own_redis: RedisProcess, tmp_path: Path
) -> None:
    with (
        PairOfServers(own_redis, tmp_path, None, SMALLER) as servers,
        ConsolePage.opened(browser, servers.one.url) as console,
    ):
        console.go("/cluster")
        console.heading("Cluster")
        rows = console.page.get_by_role("row")
        for name in ("one", "two"):
            expect(rows.filter(has_text=name)).to_contain_text("Alive")
        expect(console.page.get_by_role("columnheader", name="Share of the nodes")).to_be_visible()
        console.shows("scheduler.pools.cell_size is 100 at one and 50 at two")
        console.shows("There are none.")
        # In a thread: the browser's own loop runs in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(post_nonsense, own_redis, "two").result()
        # The open page is told of it.
        console.shows("unreadable")
        (first,) = letters(servers)
        assert console.accessibility_violations() == []
        # It is as unreadable as before, and so becomes another dead letter.
        console.act("Replay", first)
        eventually(lambda: letters(servers) not in ([], [first]), "it is back")
        (second,) = letters(servers)
        console.shows(second)
        console.act("Drop", second)
        console.shows("There are none.")
        assert letters(servers) == []
