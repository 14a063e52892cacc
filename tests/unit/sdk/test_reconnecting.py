from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.unit.sdk.scene import Scene, now, play, settle
from tests.unit.sdk.test_conversation import listed

from dragoman.errors import (
    DragomanError,
    Forbidden,
    InvalidCapabilitySchema,
    NodeIdConflict,
    SettingsError,
    Unauthorized,
)
from dragoman.live.gateway import CloseCode
from dragoman.live.protocol import (
    Error,
    JobResult,
    JobStarted,
    NodeDrain,
    NodeHeartbeat,
    NodeRegister,
)
from dragoman.sdk import Disconnected, Registered, Unreachable
from dragoman.sdk.node.ending import FINAL_CODES, NodeConnectionEnding, final_error, has_no_place
from dragoman.sdk.node.identity import Identity, recall, remember
from dragoman.sdk.transport import NO_GOODBYE
from dragoman.sdk.transport.backoff import FIRST_SECONDS, LONGEST_SECONDS, REFUSED_SECONDS, Backoff


async def back_again(scene: Scene) -> None:
    """Break the connection, and wait for the node's first heartbeat on the next one."""
    beats = len(scene.scheduler.all(NodeHeartbeat))
    scene.link.cut()
    await scene.scheduler.hears(NodeHeartbeat, beats + 1)


def test_a_node_comes_back_as_itself_with_what_it_still_runs() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        await back_again(scene)
        scene.jobs.finish("a")
        await scene.scheduler.hears(JobResult)

    scene = play(script)
    first, second = scene.scheduler.all(NodeRegister)
    assert (first.node_id, first.registration_token, first.running) == (None, None, ())
    assert (second.node_id, second.registration_token) == ("n-chosen", "a-token")
    assert second.running == listed("a")
    assert scene.jobs.started == ["a"]


def test_a_result_that_found_no_connection_is_sent_on_the_next_and_listed_until_then() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.link.cut()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        scene.jobs.finish("a")
        await asyncio.sleep(0.01)
        assert scene.node.running == listed("a")
        await scene.scheduler.hears(JobResult)
        assert scene.node.running == ()

    register, beat, result = play(script).scheduler.heard[1]
    assert isinstance(register, NodeRegister)
    assert isinstance(beat, NodeHeartbeat)
    assert register.running == beat.running == listed("a")
    assert isinstance(result, JobResult)
    assert result.success


@pytest.mark.parametrize("finished", [True, False])
def test_what_the_acknowledgement_cancels_is_not_delivered(finished: bool) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.scheduler.unwanted = lambda register: register.running
        scene.link.cut()
        await asyncio.sleep(0.01)
        if finished:
            scene.jobs.finish("a")
        await scene.scheduler.hears(JobResult)
        assert scene.node.running == ()

    scene = play(script)
    [result] = scene.scheduler.all(JobResult)
    assert result.error is not None
    assert result.error.code == "JOB_CANCELLED"
    assert scene.jobs.cancelled == ([] if finished else ["a"])


def test_a_node_knocks_less_and_less_often_until_a_connection_lasts() -> None:
    async def script(scene: Scene) -> None:
        for _ in range(4):
            beats = len(scene.scheduler.all(NodeHeartbeat))
            await scene.scheduler.hears(NodeHeartbeat, beats + 1)
            scene.link.cut()
            await asyncio.sleep(0.01)
        await scene.scheduler.hears(NodeHeartbeat, 5)
        await asyncio.sleep(60)
        scene.link.cut()
        await asyncio.sleep(5)

    scene = play(script, seed=3)
    waits = [event.retry_seconds for event in scene.events if isinstance(event, Disconnected)]
    for failures, wait in enumerate(waits[:4]):
        assert FIRST_SECONDS * 2**failures / 2 <= wait <= FIRST_SECONDS * 2**failures
    assert waits[4] <= FIRST_SECONDS
    assert sum(isinstance(event, Registered) for event in scene.events) == 6


@pytest.mark.parametrize(
    ("error", "code", "raised", "says"),
    [
        (None, CloseCode.SUPERSEDED, NodeIdConflict, "a node_id of its own"),
        (None, CloseCode.UNAUTHORIZED, Unauthorized, "keys create --role node"),
        (None, CloseCode.FORBIDDEN, Forbidden, "a key with role node"),
        (
            Error("NODE_ID_CONFLICT", "n-1 belongs to another key"),
            CloseCode.POLICY,
            NodeIdConflict,
            "n-1 belongs to another key",
        ),
        (
            Error("INVALID_CAPABILITY_SCHEMA", "`services` is empty"),
            CloseCode.BAD_FIRST_MESSAGE,
            InvalidCapabilitySchema,
            "`services` is empty",
        ),
    ],
)
def test_a_node_that_is_sent_away_for_good_stops_and_says_what_to_do(
    error: Error | None, code: CloseCode, raised: type[DragomanError], says: str
) -> None:
    async def script(scene: Scene) -> None:
        scene.scheduler.refusal = (error, code)
        with pytest.raises(raised, match=says):
            await scene.serving

    assert len(play(script).scheduler.all(NodeRegister)) == 1


def test_a_superseded_node_gives_up_its_jobs_and_does_not_fight() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.scheduler.connections[-1].close(CloseCode.SUPERSEDED, "a newer one came")
        with pytest.raises(NodeIdConflict, match="took this node's place"):
            await scene.serving

    scene = play(script)
    assert scene.jobs.cancelled == ["a"]
    assert len(scene.scheduler.heard) == 1


def test_a_node_without_the_key_is_told_how_to_get_one() -> None:
    async def script(scene: Scene) -> None:
        with pytest.raises(Unauthorized, match="keys create --role node"):
            await scene.serving

    play(script, keys_required=True)


@pytest.mark.parametrize(
    ("error", "code", "least_seconds", "most_seconds"),
    [
        (Error("FLEET_FULL", "full"), CloseCode.POLICY, REFUSED_SECONDS / 2, REFUSED_SECONDS),
        (None, CloseCode.DRAINING, FIRST_SECONDS / 2, FIRST_SECONDS),
        (None, CloseCode.HEARTBEAT_TIMEOUT, FIRST_SECONDS / 2, FIRST_SECONDS),
        (Error("SERVER_DRAINING", "soon", retry_after_ms=9000), CloseCode.DRAINING, 9, 9.25),
    ],
)
def test_a_node_that_may_come_back_waits_as_long_as_the_cause_asks_for(
    error: Error | None, code: CloseCode, least_seconds: float, most_seconds: float
) -> None:
    async def script(scene: Scene) -> None:
        scene.scheduler.refusal = (error, code)
        await scene.scheduler.hears(NodeRegister)
        scene.scheduler.refusal = None
        asked_at = now()
        await scene.scheduler.hears(NodeHeartbeat)
        assert least_seconds <= now() - asked_at <= most_seconds

    play(script)


def test_a_scheduler_that_never_answers_the_registration_is_left() -> None:
    async def script(scene: Scene) -> None:
        scene.scheduler.answers_registrations = False
        await scene.scheduler.hears(NodeRegister, 2)

    scene = play(script)
    [event] = [event for event in scene.events if isinstance(event, Disconnected)]
    assert "did not answer the registration" in event.reason


def test_a_node_that_leaves_while_disconnected_still_delivers_its_results() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.link.cut()
        await asyncio.sleep(0.01)
        scene.node.leave("moving house")
        scene.jobs.finish("a")
        await scene.serving
        await settle()

    scene = play(script)
    assert [type(message) for message in scene.scheduler.heard[1][2:]] == [NodeDrain, JobResult]


def test_jobs_that_outlast_the_drain_are_given_back() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.node.leave()
        await scene.serving
        assert now() == pytest.approx(20, abs=0.1)
        await settle()

    [result] = play(script, drain_seconds=20).scheduler.all(JobResult)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("NODE_UNAVAILABLE", True)


def test_the_wait_doubles_to_a_limit_and_starts_over_after_a_reset() -> None:
    backoff = Backoff(Random(5))
    waits = [backoff.next_seconds() for _ in range(40)]
    assert all(wait <= LONGEST_SECONDS for wait in waits)
    assert min(waits[10:]) >= LONGEST_SECONDS / 2
    backoff.reset()
    assert backoff.next_seconds() <= FIRST_SECONDS


def test_the_close_codes_are_the_gateways() -> None:
    assert set(FINAL_CODES) == {
        CloseCode.BAD_FIRST_MESSAGE,
        CloseCode.UNAUTHORIZED,
        CloseCode.FORBIDDEN,
        CloseCode.SUPERSEDED,
    }
    assert NO_GOODBYE == CloseCode.ABNORMAL
    assert has_no_place(NodeConnectionEnding("", CloseCode.POLICY))
    assert final_error(NodeConnectionEnding("", CloseCode.POLICY), None) is None


def test_an_identity_outlives_the_process_in_a_file_of_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "node.json"

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)

    play(script, identity_file=file)
    assert file.stat().st_mode & 0o777 == 0o600
    scene = play(script, identity_file=file)
    [register] = scene.scheduler.all(NodeRegister)
    assert (register.node_id, register.registration_token) == ("n-chosen", "a-token")
    assert recall("another", file) == Identity("another")  # type: ignore[arg-type]


def test_a_broken_identity_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    file.write_text("{")
    with pytest.raises(SettingsError, match=r"node\.json cannot be read .*delete it"):
        recall(None, file)
    with pytest.raises(SettingsError, match="check its folder"):
        remember(Identity(), tmp_path / "missing" / "node.json")


def test_an_unreachable_scheduler_is_tried_again() -> None:
    async def script(scene: Scene) -> None:
        connect = scene.node._connect
        tries = 0

        async def at_the_third_try() -> object:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise Unreachable("connection refused")
            return await connect()

        scene.node._connect = at_the_third_try  # type: ignore[assignment]
        await scene.scheduler.hears(NodeHeartbeat)

    scene = play(script)
    lost = [event for event in scene.events if isinstance(event, Disconnected)]
    assert [(event.reason, event.was_registered) for event in lost] == [
        ("connection refused", False)
    ] * 2
