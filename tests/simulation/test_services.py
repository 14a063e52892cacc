"""Jobs that ask for services by name go to nodes that run them, and to no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.ids import NodeId
from dragoman.live.protocol import (
    Device,
    ExclusionReason,
    ModelNotAvailable,
    Pipeline,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.testing import SimulatedNode

LEDGERS: list[dict[str, Any]] = [{}, {"wrap": lambda ledger: ledger}]
IDS = ["memory", "shared"]


def running(*names: str, status: ServiceStatus = ServiceStatus.RUNNING) -> tuple[Service, ...]:
    """Services as ``stage:id@version``."""
    found = []
    for name in names:
        stage, _, called = name.partition(":")
        service_id, _, version = called.partition("@")
        found.append(Service(service_id, ServiceType(stage), Device.CPU, status, version or None))
    return tuple(found)


OLD = running("asr:ear@1", "nmt:m2m@1", "tts:voice@1")
NEW = running("asr:ear@2", "nmt:m2m@2", "tts:voice@1")


def told(nodes: Iterable[SimulatedNode]) -> list[tuple[str, dict[str, str]]]:
    return [(str(node.node_id), dict(one.services)) for node in nodes for one in node.assigned]


@pytest.mark.parametrize("ledger", LEDGERS, ids=IDS)
def test_a_job_goes_to_a_node_with_the_version_it_asks_for(ledger: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        old = await world.node("old", services=OLD, slots=50)
        new = await world.node("new", services=NEW, slots=50)
        for number in range(10):
            await world.submit(f"v2-{number}", services=(("nmt", "m2m@2"),))
            await world.submit(f"v1-{number}", services=(("nmt", "m2m@1"), ("tts", "voice")))
        await world.pass_time(2)
        assert told([new]) == [("new", {"nmt": "m2m@2"})] * 10
        assert told([old]) == [("old", {"nmt": "m2m@1", "tts": "voice"})] * 10
        for number in range(20):
            await world.submit(f"any-{number}", services=(("nmt", "m2m"),))
        await world.pass_time(2)
        assert {name for name, asked in told([old, new]) if asked == {"nmt": "m2m"}} == {
            "old",
            "new",
        }

    play(story, **ledger)


@pytest.mark.parametrize("ledger", LEDGERS, ids=IDS)
def test_a_version_that_no_node_runs_is_refused_and_explained(ledger: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        await world.node("old", services=OLD)
        job = await world.submit("v3", services=(("nmt", "m2m@3"),))
        assert job.refusal is not None
        assert job.refusal.code == "NO_AVAILABLE_NODE"
        assert job.refusal.details["reasons"] == {"service_missing": 1}
        assert job.refusal.details["services"] == {"nmt": "m2m@3"}
        explained = world.plane.dispatcher.explain(job.refusal.details["job_id"])
        assert explained is not None
        (attempt,) = explained.attempts
        assert attempt.services == {"nmt": "m2m@3"}
        assert attempt.reasons[ExclusionReason.SERVICE_MISSING].nodes == (NodeId("old"),)

    play(story, **ledger)


def test_a_stopped_or_marked_service_is_not_asked_for_by_name() -> None:
    async def story(world: World) -> None:
        asked: dict[str, Any] = {"services": (("nmt", "m2m@2"),)}
        both = await world.node("both", services=(*OLD, *NEW[1:2]))
        await (await world.submit("first", **asked)).end()
        assert len(both.assigned) == 1
        await both.say(ModelNotAvailable("m2m", "not loaded", version="2"))
        await world.pass_time(1)
        refused = await world.submit("marked", **asked)
        assert refused.refusal is not None
        assert refused.refusal.code == "MODEL_NOT_AVAILABLE"
        other = await world.submit("other version", services=(("nmt", "m2m@1"),))
        assert other.refusal is None, "a mark of one version leaves the others alone"
        await both.beat(services=(*OLD, *running("nmt:m2m@2", status=ServiceStatus.STOPPED)))
        await world.pass_time(1)
        stopped = await world.submit("stopped", **asked)
        assert stopped.refusal is not None
        assert stopped.refusal.details["reasons"] == {"service_not_ready": 1}

    play(story)


def test_a_request_that_asks_for_other_services_is_another_request() -> None:
    async def story(world: World) -> None:
        await world.node("both", services=(*OLD, *NEW[1:2]))
        await world.submit("r", services=(("nmt", "m2m@1"),))
        again = await world.submit("r", services=(("nmt", "m2m@1"),))
        assert again.refusal is None
        other = await world.submit("r", services=(("nmt", "m2m@2"),))
        assert other.refusal is not None
        assert other.refusal.code == "REQUEST_CONFLICT"

    play(story)


@pytest.mark.parametrize("ledger", LEDGERS, ids=IDS)
def test_a_session_asks_and_its_utterances_ask_otherwise(ledger: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        old = await world.node("old", services=OLD)
        new = await world.node("new", services=NEW)
        speaker = await open_speaker(world, services={"asr": "ear@2", "nmt": "m2m@2"})

        async def said(**utterance: Any) -> tuple[str | None, dict[str, str]]:
            ends = len(speaker.ends)
            await speaker.say(**utterance)
            await speaker.until_ended(ends + 1)
            node = {"old": old, "new": new}[speaker.results[-1].node_id or ""]
            return node.node_id, dict(node.assigned[-1].services)

        # A text is not recognised: what the session asks for that stage does not count.
        assert await said(text="hello") == ("new", {"nmt": "m2m@2"})
        asked = {"nmt": "m2m@1"}
        assert await said(text="hello", services=asked) == ("old", asked)
        spoken = Pipeline(use_tts=True)
        assert await said(text="hello", services={"tts": "voice"}, pipeline=spoken) == (
            "new",
            {"nmt": "m2m@2", "tts": "voice"},
        )
        await speaker.say("hello", services={"nmt": "m2m@"})
        await speaker.until_ended(4)
        assert speaker.missing[-1].reason == "INVALID_MESSAGE"
        assert await said(text="and on it goes") == ("new", {"nmt": "m2m@2"})

    play(story, **ledger)


def test_audio_that_is_cut_asks_for_what_its_session_asks_for() -> None:
    async def story(world: World) -> None:
        await world.node("old", services=OLD)
        new = await world.node("new", services=NEW)
        speaker: Speaker = await open_speaker(world, services={"asr": "ear@2"})
        for number in range(5):
            await speaker.speak(50, final=True)
            await speaker.until_ended(number + 1)
        assert told([new]) == [("new", {"asr": "ear@2"})] * 5

    play(story)
