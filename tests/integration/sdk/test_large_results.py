"""An SDK node whose result is over the server's frame limit, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess, environment

from dragoman.live.protocol import NodeHealth, ResourceUsage, SubProtocol
from dragoman.sdk import Answer, Disconnected, Event, HealthChanged, Job, Node, WebSocketConnect

MAX_FRAME_BYTES = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_LIMITS__MAX_FRAME_BYTES=str(MAX_FRAME_BYTES))
    with ServerProcess(tmp_path_factory.mktemp("large") / "data", env=env) as server:
        yield server


@pytest.mark.parametrize("sub", list(SubProtocol), ids=lambda sub: sub.name.lower())
def test_a_job_whose_result_is_too_large_ends_at_once_with_that_reason(
    server: ServerProcess, sub: SubProtocol
) -> None:
    """The first job's audio fits in a frame; the second one's does not, and is not tried again."""
    jobs_done = 0

    async def speak(job: Job) -> Answer:
        nonlocal jobs_done
        jobs_done += 1
        return Answer(text_translated="hola", tts_audio=bytes(int(job.text or "0")))

    async def scenario() -> None:
        events: list[Event] = []
        ready = asyncio.Event()

        def noticed(event: Event) -> None:
            events.append(event)
            if isinstance(event, HealthChanged) and event.status is NodeHealth.READY:
                ready.set()

        language = f"en-{sub.name.lower()}"
        node = Node(
            WebSocketConnect(server.url, sub=sub),
            work=speak,
            asr=[language],
            nmt=[language, "es"],
            tts=["es"],
            on_event=noticed,
            usage=lambda: ResourceUsage(cpu_percent=1.0, mem_percent=1.0),
        )
        serving = asyncio.create_task(node.serve())
        try:
            async with (
                asyncio.timeout(120),
                httpx.AsyncClient(base_url=f"{server.url}/api/v1", timeout=100) as http,
            ):
                await ready.wait()
                for size, outcome in ((1000, "success"), (MAX_FRAME_BYTES, "failed")):
                    order = {"src_lang": language, "tgt_lang": "es", "text": str(size)}
                    answer = await http.post("/jobs", json=order | {"wait_ms": 90_000})
                    job = answer.json()
                    assert job["outcome"] == outcome, job
            assert job["error"]["code"] == "PAYLOAD_TOO_LARGE"
            assert str(MAX_FRAME_BYTES) in job["error"]["message"]
            assert len(job["attempts"]) == 1
            assert jobs_done == 2
            assert not any(isinstance(event, Disconnected) for event in events)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    asyncio.run(scenario())
