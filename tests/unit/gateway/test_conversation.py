from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.gateway.scene import Client, Scene, answers, heartbeat, now, order, play
from tests.unit.gateway.scripted import (
    BROKEN_KEY,
    CLIENT_KEY,
    EAGER_KEY,
    LIMITS,
    NODE_KEY,
    ScriptedHandler,
    TestKeys,
)

from dragoman.live.gateway import CloseCode, Connection, ConnectionClosed, MemoryNetwork
from dragoman.live.protocol import Error, ServerHeartbeat, SessionClose, SubProtocol


@pytest.mark.parametrize("sub", SubProtocol)
def test_messages_are_handled_one_after_another_in_their_order(sub: SubProtocol) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial(offered=[sub.value])
        await client.send(order("sleep 10"))
        for seq in range(3):
            await client.send(heartbeat(seq))
        assert [await client.receive() for _ in range(4)] == [
            ServerHeartbeat(next_chunk_seq=seq) for seq in (0, 0, 1, 2)
        ]
        await client.close()

    assert play(script) == [
        *("opened", "utterance 0 sleep 10", "slept 10"),
        *("heartbeat 0", "heartbeat 1", "heartbeat 2", "closed 1000"),
    ]


def test_a_bad_first_frame_is_answered_and_closed() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send_frame("this is not json")
        await client.send(heartbeat(1))
        assert await answers(client) == ["error INVALID_MESSAGE", "closed 4400"]

    assert play(script) == ["opened", "malformed unparsable", "closed 4400"]


def test_a_bad_frame_later_on_is_answered_and_the_connection_stays() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        await client.send_frame('{"type": "no_such_thing"}')
        await client.send(SessionClose())
        heard = await answers(client)
        assert heard == ["heartbeat 1", "error INVALID_MESSAGE", "heartbeat 99", "closed 1000"]

    assert play(script) == [
        *("opened", "heartbeat 1", "malformed unknown_type", "session close", "closed 1000")
    ]


def test_a_defect_in_a_handler_is_logged_and_the_connection_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("fail"))
        await client.send(heartbeat(2))
        answer = await client.receive()
        assert isinstance(answer, Error)
        assert answer.code == "INTERNAL_ERROR"
        assert "defect" not in answer.message
        assert await client.receive() == ServerHeartbeat(next_chunk_seq=2)

    assert play(script)[-1] == "closed 1006"
    assert [record.getMessage() for record in caplog.records] == ["handler_failed"]
    assert caplog.records[0].exc_info is not None


def test_a_refusal_by_a_handler_reaches_the_peer_with_its_code() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("refuse"))
        answer = await client.receive()
        assert isinstance(answer, Error)
        assert (answer.code, answer.retry_after_ms) == ("NO_CAPACITY", 250)

    play(script)


def test_too_many_messages_are_answered_once_and_closed() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        for seq in range(10):
            await client.send(heartbeat(seq))
        heard = await answers(client)
        assert heard == [
            *(f"heartbeat {seq}" for seq in range(5)),
            *("error RATE_LIMITED", "closed 4429"),
        ]

    transcript = play(script, limits=replace(LIMITS, messages_per_second=5))
    assert transcript[-1] == "closed 4429"
    assert len(transcript) == 7


def test_who_keeps_to_the_rate_is_not_closed() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        for seq in range(50):
            await client.send(heartbeat(seq))
            assert await client.receive() == ServerHeartbeat(next_chunk_seq=seq)
            await asyncio.sleep(0.2)

    play(script, limits=replace(LIMITS, messages_per_second=5))


def test_a_frame_over_the_limit_closes_with_too_large() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send_frame("中" * (LIMITS.max_frame_bytes // 3 + 1))
        assert await answers(client) == ["closed 1009"]

    assert play(script) == ["opened", "closed 1009"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"offered": ["graphql-ws"]}, CloseCode.POLICY),
        ({"origin": "https://evil.example", "host": "dragoman"}, CloseCode.FORBIDDEN),
        ({"key": None}, CloseCode.UNAUTHORIZED),
        ({"key": NODE_KEY}, CloseCode.FORBIDDEN),
        ({"key": EAGER_KEY}, CloseCode.TOO_MANY),
        ({"key": BROKEN_KEY}, CloseCode.INTERNAL_ERROR),
    ],
)
def test_who_may_not_come_in_is_closed_with_the_code_and_no_handler_hears_of_it(
    options: dict[str, Any], code: CloseCode
) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial(**{"key": CLIENT_KEY, **options})
        assert await answers(client) == [f"closed {code.value}"]

    assert play(script, keys=TestKeys(required=True)) == []


def test_a_drain_turns_new_callers_away_and_closes_the_others_when_told() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        scene.endpoint.connections.refuse_new()
        assert await answers(await scene.dial()) == ["closed 1001"]
        await client.send(heartbeat(1))
        assert await client.receive() == ServerHeartbeat(next_chunk_seq=1)
        scene.endpoint.connections.close_all(CloseCode.DRAINING, "see you")
        await scene.endpoint.connections.wait_empty()
        with pytest.raises(ConnectionClosed, match="1001 see you"):
            await client.receive()

    assert play(script) == ["opened", "heartbeat 1", "closed 1001"]


def test_a_drain_that_begins_while_a_key_is_looked_up_turns_its_caller_away() -> None:
    class SlowKeys(TestKeys):
        async def authenticate(self, *arguments: Any) -> Any:
            await asyncio.sleep(1)
            return await super().authenticate(*arguments)

    async def script(scene: Scene) -> None:
        client = await scene.dial()
        scene.endpoint.connections.refuse_new()
        assert await answers(client) == ["closed 1001"]

    assert play(script, keys=SlowKeys()) == []


def test_a_revoked_key_closes_its_connections() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial(key=CLIENT_KEY)
        await client.send(heartbeat(1))
        await client.receive()
        for revoke in scene.keys.on_revoked.values():
            revoke()
        assert await answers(client) == ["closed 4401"]

    assert play(script) == ["opened", "heartbeat 1", "closed 4401"]


@pytest.mark.parametrize("code", [code for code in CloseCode if code != CloseCode.ABNORMAL])
def test_a_handler_may_close_with_any_code_and_both_ends_see_it(code: CloseCode) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order(f"close {code.value}"))
        await client.send(heartbeat(1))
        assert await answers(client) == [f"closed {code.value}"]

    assert play(script) == ["opened", f"utterance 0 close {code.value}", f"closed {code.value}"]


def test_what_was_sent_before_a_close_arrives_before_it_and_nothing_after() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(SessionClose(reason="bye"))
        heard = await answers(client)
        assert heard == ["heartbeat 99", "closed 1000"]
        (connection,) = closed
        assert connection.end is not None
        connection.close(CloseCode.SUPERSEDED)
        assert not connection.send(ServerHeartbeat(next_chunk_seq=1))

    closed: list[Connection] = []

    class Keeping(ScriptedHandler):
        async def opened(self, connection: Connection) -> None:
            closed.append(connection)
            await super().opened(connection)

    transcript: list[str] = []
    play(script, handler=lambda _: Keeping(transcript))
    assert transcript == ["opened", "session close", "closed 1000"]


def test_a_handler_that_cannot_begin_closes_its_connection() -> None:
    class Unwell(ScriptedHandler):
        async def opened(self, connection: Connection) -> None:
            raise ZeroDivisionError

    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        assert await answers(client) == ["error INTERNAL_ERROR", "closed 1011"]

    transcript: list[str] = []
    play(script, handler=lambda _: Unwell(transcript))
    assert transcript == ["closed 1011"]


def test_a_handler_that_cannot_be_made_closes_the_connection() -> None:
    def no_handler(_: object) -> ScriptedHandler:
        raise ZeroDivisionError

    async def script(scene: Scene) -> None:
        assert await answers(await scene.dial()) == ["closed 1011"]

    play(script, handler=no_handler)


def test_a_handler_that_fails_at_every_turn_harms_only_its_peer() -> None:
    class Broken(ScriptedHandler):
        async def received(self, message: object, now: float) -> None:
            raise ZeroDivisionError

        async def malformed(self, error: object) -> None:
            raise ZeroDivisionError

        async def closed(self, code: int, reason: str) -> None:
            await super().closed(code, reason)
            raise ZeroDivisionError

    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        await client.send_frame("{")
        assert [type(await client.receive()) for _ in range(3)] == [Error, Error, Error]
        await client.close()

    transcript: list[str] = []
    play(script, handler=lambda _: Broken(transcript))
    assert transcript == ["opened", "closed 1000"]


async def flood(client: Client, connection: Connection) -> int:
    """Send large messages to a client that does not read, until the server gives up."""
    accepted = 0
    while connection.send(Error(code="X", message="x" * 20_000)):
        accepted += 1
    return accepted


@pytest.mark.parametrize("reads_again", [True, False])
def test_a_peer_that_does_not_read_is_closed_as_too_slow(reads_again: bool) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        await client.receive()
        (connection,) = scene.endpoint.connections
        accepted = await flood(client, connection)
        assert accepted <= 4 + LIMITS.queue_messages  # four fill the socket's buffer
        assert connection.end is not None
        assert connection.queued_messages == 1  # the rest was thrown away
        assert not connection.send(ServerHeartbeat(next_chunk_seq=1))
        if reads_again:
            assert (await answers(client))[-1] == "closed 4429"
        before = now()
        await scene.endpoint.connections.wait_empty()
        assert now() - before == (0.0 if reads_again else LIMITS.close_seconds)

    assert play(script) == ["opened", "heartbeat 1", "closed 4429"]


def test_bytes_are_bounded_as_well_as_messages() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        await client.receive()
        (connection,) = scene.endpoint.connections
        while connection.send(Error(code="X", message="x" * 90_000)):
            assert scene.endpoint.connections.queued_bytes == connection.queued_bytes
            assert connection.queued_bytes <= LIMITS.queue_bytes
        assert connection.end is not None

    assert play(script)[-1] == "closed 4429"


def test_a_peer_that_reads_slowly_but_in_time_gets_everything_in_order() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        await client.receive()
        (connection,) = scene.endpoint.connections
        for number in range(10):
            assert connection.send(Error(code=str(number), message="x" * 20_000))
        assert connection.queued_messages > 0
        connection.close(CloseCode.SUPERSEDED)
        heard = await answers(client)
        assert heard == [*(f"error {number}" for number in range(10)), "closed 4409"]

    assert play(script)[-1] == "closed 4409"


def test_a_connection_whose_server_task_is_cancelled_still_ends_once() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("sleep 100"))
        await asyncio.sleep(1)
        for task in scene.network._links.values():
            task.cancel()
        assert await answers(client) == ["closed 1006"]

    assert play(script) == ["opened", "utterance 0 sleep 100", "closed 1001"]


def test_counts_tell_how_many_are_open_on_each_endpoint() -> None:
    async def script(scene: Scene) -> None:
        clients = [await scene.dial() for _ in range(3)]
        other = replace(scene.endpoint, name="node")
        network = MemoryNetwork(scene.endpoint.random)
        await network.connect(other, other.decoder)
        await asyncio.sleep(1)
        assert scene.endpoint.connections.counts == {"session": 3, "node": 1}
        await clients[0].close()
        await network.close()
        await asyncio.sleep(1)
        assert scene.endpoint.connections.counts == {"session": 2}

    play(script)
