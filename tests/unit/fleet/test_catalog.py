"""The service catalog: old services are served until new ones came, and failures slow it down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.live.fleet import CatalogRules, CatalogService, ServiceCatalog
from dragoman.live.fleet.catalog import LARGEST_CATALOG_BYTES, CatalogProblem, read_catalog
from dragoman.live.protocol import Outcome
from dragoman.observability import Metrics
from dragoman.testing import VirtualClock, run_virtual

NMT = CatalogService("nmt-1", "nmt", "1.0", "Translator")
TTS = CatalogService("tts-1", "tts", "2.0")


def written(*services: CatalogService) -> bytes:
    return json.dumps(
        {
            "services": [
                {"service_id": s.service_id, "type": s.type, "version": s.version}
                | ({"name": s.name} if s.name else {})
                for s in services
            ]
        }
    ).encode()


class Server:
    """A catalog server whose answers the test decides."""

    def __init__(self) -> None:
        self.answer: bytes | Exception = written(NMT)
        self.fetched_at: list[float] = []
        self.closed = False

    async def fetch(self) -> bytes:
        self.fetched_at.append(asyncio.get_running_loop().time())
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed = True


class Scene:
    def __init__(self, server: Server | None, **rules: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.began_at = self.loop.time()
        self.metrics = Metrics()
        values = {"refresh_seconds": 30, "backoff_after": 3, "max_refresh_seconds": 300}
        self.catalog = ServiceCatalog(
            CatalogRules(**{**values, **rules}), server, self.metrics, VirtualClock(self.loop)
        )

    @property
    def services(self) -> tuple[CatalogService, ...]:
        return self.catalog.state.services

    def metric(self, name: str) -> float:
        for line in self.metrics.exposition().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")


def play(story: Callable[[Scene, Server], Awaitable[None]], **rules: Any) -> None:
    async def main() -> None:
        server = Server()
        scene = Scene(server, **rules)
        scene.catalog.load_local_index()
        task = scene.loop.create_task(scene.catalog.run())
        try:
            await story(scene, server)
        finally:
            task.cancel()
            await asyncio.wait([task])
        assert server.closed

    run_virtual(main, seed=1)


def test_the_catalog_is_fetched_at_once_and_then_in_its_rhythm() -> None:
    async def story(scene: Scene, server: Server) -> None:
        await asyncio.sleep(1)
        state = scene.catalog.state
        assert state.services == (NMT,)
        assert state.fetched_at_ms == state.last_success_at_ms
        assert state.fetched_at_ms is not None
        assert state.next_refresh_at_ms == state.fetched_at_ms + 30_000
        server.answer = written(NMT, TTS)
        await asyncio.sleep(30)
        assert scene.services == (NMT, TTS)
        assert len(server.fetched_at) == 2

    play(story)


def test_failures_leave_the_services_and_stretch_the_rhythm() -> None:
    async def story(scene: Scene, server: Server) -> None:
        await asyncio.sleep(1)
        success = scene.catalog.state.last_success_at_ms
        server.answer = CatalogProblem("no answer")
        await asyncio.sleep(2_000)
        gaps = [b - a for a, b in zip(server.fetched_at, server.fetched_at[1:], strict=False)]
        assert gaps[:8] == pytest.approx([30, 30, 30, 60, 120, 240, 300, 300])
        state = scene.catalog.state
        assert state.services == (NMT,)
        assert state.last_success_at_ms == state.fetched_at_ms == success
        assert state.fail_count == len(server.fetched_at) - 1
        assert state.last_error == "The catalog could not be fetched: no answer."
        assert scene.metric("scheduler_service_catalog_fail_count") == state.fail_count
        assert scene.metric("scheduler_service_catalog_last_success_age_seconds") > 2_000

        server.answer = written(TTS)
        await asyncio.sleep(301)
        state = scene.catalog.state
        assert (state.services, state.fail_count, state.last_error) == ((TTS,), 0, None)
        assert scene.metric("scheduler_service_catalog_fail_count") == 0
        assert scene.metric("scheduler_service_catalog_last_success_age_seconds") < 301

    play(story)


def test_whatever_a_fetch_raises_the_next_one_is_due() -> None:
    async def story(scene: Scene, server: Server) -> None:
        server.answer = RuntimeError("a surprise")
        await asyncio.sleep(1)
        assert "a surprise" in (scene.catalog.state.last_error or "")
        server.answer = written(NMT)
        await asyncio.sleep(30)
        assert scene.services == (NMT,)

    play(story)


def test_a_thousand_failures_are_still_at_most_the_longest_pause_apart() -> None:
    rules = CatalogRules(refresh_seconds=30, backoff_after=3, max_refresh_seconds=300)
    assert rules.pause_seconds(10_000) == 300
    short = CatalogRules(refresh_seconds=30, backoff_after=1, max_refresh_seconds=10)
    assert short.pause_seconds(10_000) == 30, "failing is never fetched more often than well"


def test_a_wanted_refresh_comes_soon_but_not_more_than_once_a_second() -> None:
    async def story(scene: Scene, server: Server) -> None:
        await asyncio.sleep(5)
        for _ in range(100):
            scene.catalog.refresh_soon()
            await asyncio.sleep(0.05)
        assert 5 <= len(server.fetched_at) - 1 <= 6
        gaps = [b - a for a, b in zip(server.fetched_at, server.fetched_at[1:], strict=False)]
        assert min(gaps) >= 0.999

    play(story)


def test_while_it_fails_wanting_it_changes_nothing() -> None:
    async def story(scene: Scene, server: Server) -> None:
        server.answer = CatalogProblem("no answer")
        for _ in range(20):
            await asyncio.sleep(1)
            scene.catalog.refresh_soon()
        assert len(server.fetched_at) == 1

    play(story)


def test_the_local_index_is_used_until_the_first_success(tmp_path: Path) -> None:
    index = tmp_path / "services.json"
    index.write_bytes(written(TTS))

    async def story(scene: Scene, server: Server) -> None:
        server.answer = CatalogProblem("no answer")
        await asyncio.sleep(1)
        state = scene.catalog.state
        assert state.services == (TTS,)
        assert (state.last_success_at_ms, state.fail_count) == (None, 1)
        server.answer = written(NMT)
        await asyncio.sleep(30)
        assert scene.services == (NMT,)

    play(story, local_index=str(index))


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"services": [{"service_id": "x"}]}'])
def test_a_local_index_that_cannot_be_used_is_said_and_does_no_harm(
    tmp_path: Path, content: bytes | None
) -> None:
    index = tmp_path / "services.json"
    if content is not None:
        index.write_bytes(content)

    async def main() -> None:
        scene = Scene(None, local_index=str(index))
        scene.catalog.load_local_index()
        state = scene.catalog.state
        assert state.services == ()
        assert "services.json" in (state.last_error or "")

    run_virtual(main, seed=1)


def test_without_a_server_there_is_the_local_index_alone(tmp_path: Path) -> None:
    index = tmp_path / "services.json"
    index.write_bytes(written(TTS))

    async def main() -> None:
        scene = Scene(None, local_index=str(index))
        scene.catalog.load_local_index()
        await scene.catalog.run()
        scene.catalog.refresh_soon()
        state = scene.catalog.state
        assert (state.services, state.fail_count, state.last_error) == ((TTS,), 0, None)
        assert state.next_refresh_at_ms is None
        assert scene.metric("scheduler_service_catalog_last_success_age_seconds") == 0

    run_virtual(main, seed=1)


def test_jobs_are_counted_while_the_catalog_fails_and_only_then() -> None:
    async def story(scene: Scene, server: Server) -> None:
        await asyncio.sleep(1)
        scene.catalog.job_ended(Outcome.SUCCESS)
        server.answer = CatalogProblem("no answer")
        await asyncio.sleep(30)
        scene.catalog.job_ended(Outcome.SUCCESS)
        scene.catalog.job_ended(Outcome.FAILED)
        assert scene.metrics.jobs_catalog_down.counts() == {"success": 1, "failed": 1}

    play(story)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>hello</html>",
        b"null",
        b"[]",
        b"{}",
        b'{"services": null}',
        b'{"services": [{}]}',
        b'{"services": [{"service_id": "", "type": "nmt", "version": "1"}]}',
        b'{"services": [{"service_id": "x", "type": "nmt", "version": 1}]}',
        b'{"services": [{"service_id": "\xff", "type": "nmt", "version": "1"}]}',
        b"[" * 100_000,
        b'{"services": [], "more": ' + b"[" * 100_000,
        b" " * (LARGEST_CATALOG_BYTES + 1),
    ],
    ids=range(13),
)
def test_what_is_not_a_catalog_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(CatalogProblem, match=r"not a catalog|larger"):
        read_catalog(data)


def test_fields_that_are_not_asked_for_are_ignored() -> None:
    data = b'{"services": [{"service_id": "a", "type": "vad", "version": "1", "size": 3}], "v": 1}'
    assert read_catalog(data) == (CatalogService("a", "vad", "1"),)
