"""The fleet of a soak: nodes that do their work, and nodes that lie about it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, ClassVar
from uuid import UUID

from tests.integration.live_api.manual_node import Body, attempt_of, registration
from tests.soak.laws import Laws
from tests.soak.server import RUN_SECONDS
from tests.soak.speech import heard_in
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

LANGUAGES = ("en", "es", "de")
LIE = "this is a lie"
"""How every text begins that is one."""
OWN_LIES = ("late", "twice")
"""How texts end in which a node lies about an attempt of its own: it answers when its time is up,
or once more. While Redis is away no server can end the attempt or store its result, so that what
comes then may be the first word of it after all."""
_LATE, _TWICE = OWN_LIES
_SPOKEN = base64.b64encode(bytes(1600)).decode()
_WORK_SECONDS = (0.005, 0.06)
_NETWORK_ERRORS = (OSError, WebSocketException, TimeoutError)


def translated(text: str, tgt_lang: str) -> str:
    """What an honest node makes of a text."""
    return f"{tgt_lang}: {text}"


class HonestNode:
    """Does what it is asked, and counts whether it is asked for more than it has slots."""

    slots = 4

    def __init__(self, url: str, node_id: str, random: Random, laws: Laws) -> None:
        self._url = f"{url.replace('http', 'ws', 1)}/ws/node"
        self._node_id = node_id
        self._random = random
        self._laws = laws
        self._in_hand: dict[str, asyncio.Task[None]] = {}
        """The work on each attempt, from its assignment until its result is sent."""
        self._attempts: dict[str, Body] = {}
        self._socket: ClientConnection | None = None

    async def run(self) -> None:
        """Be a node until cancelled; a lost connection is made anew."""
        while True:
            with suppress(*_NETWORK_ERRORS):
                await self._live_once()
            for task in self._in_hand.values():
                task.cancel()
            self._in_hand.clear()
            self._attempts.clear()
            await asyncio.sleep(self._random.uniform(0.1, 0.5))

    def cut(self) -> None:
        """Lose the connection, if there is one."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def _live_once(self) -> None:
        async with connect(self._url, compression=None, max_size=None) as socket:
            self._socket = socket
            first = registration(self._node_id, LANGUAGES, max_concurrent_jobs=self.slots)
            await say(socket, **first)
            acknowledged = json.loads(await socket.recv())
            if acknowledged["type"] != "node_register_ack":
                self._laws.count("registrations refused")
                return
            beating = asyncio.create_task(
                self._beat_every(socket, acknowledged["heartbeat_interval_ms"] / 1000)
            )
            try:
                async for frame in socket:
                    await self._heard(socket, json.loads(frame))
            finally:
                beating.cancel()

    async def _heard(self, socket: ClientConnection, message: Body) -> None:
        match message["type"]:
            case "job_assign":
                self._assigned(socket, message)
            case "job_cancel":
                await self._cancelled(socket, message)
            case "node_control" if message["command"] == "report":
                await self._beat(socket)

    def _assigned(self, socket: ClientConnection, job: Body) -> None:
        attempt_id = job["attempt_id"]
        self._attempts[attempt_id] = job
        self._check_slots()
        task = asyncio.create_task(self._carry_out(socket, job))
        self._in_hand[attempt_id] = task
        task.add_done_callback(lambda _: self._over(attempt_id, task))

    def _check_slots(self) -> None:
        self._laws.require(
            len(self._attempts) <= self.slots,
            f"{self._node_id} was given {len(self._attempts)} jobs for {self.slots} slots",
        )

    def _over(self, attempt_id: str, task: asyncio.Task[None]) -> None:
        if self._in_hand.get(attempt_id) is task:
            del self._in_hand[attempt_id]
            self._attempts.pop(attempt_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._laws.require(isinstance(error, _NETWORK_ERRORS), f"a node failed: {error!r}")

    async def _carry_out(self, socket: ClientConnection, job: Body) -> None:
        await say(socket, type="job_ack", **attempt_of(job))
        await say(socket, type="job_started", **attempt_of(job))
        await asyncio.sleep(self._random.uniform(*_WORK_SECONDS))
        await self._succeed(socket, job)

    async def _succeed(self, socket: ClientConnection, job: Body, **instead: Any) -> None:
        # What is in a result is no longer in hand: the server may use the slot at once.
        self._attempts.pop(job["attempt_id"], None)
        await say(socket, **{**result_of(job), **instead})

    async def _fail(self, socket: ClientConnection, job: Body, code: str, retryable: bool) -> None:
        self._attempts.pop(job["attempt_id"], None)
        error = {"code": code, "message": "as the soak wants it", "retryable": retryable}
        await say(socket, type="job_result", success=False, error=error, **attempt_of(job))

    async def _cancelled(self, socket: ClientConnection, message: Body) -> None:
        self._laws.count("attempts cancelled")
        task = self._in_hand.pop(message["attempt_id"], None)
        if task is None:
            return  # its result is on the way
        task.cancel()
        job = self._attempts.get(message["attempt_id"])
        if job is not None:
            await self._fail(socket, job, "JOB_CANCELLED", retryable=False)

    async def _beat_every(self, socket: ClientConnection, interval_seconds: float) -> None:
        with suppress(*_NETWORK_ERRORS):
            while True:
                await self._beat(socket)
                await asyncio.sleep(interval_seconds)

    async def _beat(self, socket: ClientConnection, **fields: Any) -> None:
        await say(
            socket,
            type="node_heartbeat",
            resource_usage={"cpu_percent": 1, "mem_percent": 1},
            running=[attempt_of(job) for job in self._attempts.values()],
            **fields,
        )


Lie = Callable[["LyingNode", ClientConnection, Body], Coroutine[Any, Any, None]]


class LyingNode(HonestNode):
    """Does what it is asked now and then; otherwise it deceives the server in a random way."""

    slots = 2
    _seen: ClassVar[deque[tuple[str, Body]]] = deque(maxlen=50)
    """Attempts of any liar, for the others to claim."""

    def __init__(self, url: str, node_id: str, random: Random, laws: Laws) -> None:
        super().__init__(url, node_id, random, laws)
        self._stubborn: set[str] = set()
        """Attempts that it lets no cancel stop."""

    def _check_slots(self) -> None:
        """It says how many slots it has, and then something else: its own count proves nothing."""

    async def _carry_out(self, socket: ClientConnection, job: Body) -> None:
        self._seen.append((self._node_id, attempt_of(job)))
        lie = self._random.choices(_LIES, _WEIGHTS)[0]
        self._laws.count(f"lie: {lie.__name__.strip('_')}")
        await lie(self, socket, job)

    async def _beat(self, socket: ClientConnection, **fields: Any) -> None:
        if not self._in_hand:
            # At rest it tells the truth, so that what is read then is what the server holds.
            await super()._beat(socket, **fields)
            return
        if self._random.random() < 0.3:
            fields["max_concurrent_jobs"] = self._random.randint(1, 3)
        kind = self._random.random()
        if kind < 0.1:
            invented = {"job_id": self._invented_id(), "attempt_id": self._invented_id()}
            self._attempts[invented["attempt_id"]] = invented
            await super()._beat(socket, **fields)
            del self._attempts[invented["attempt_id"]]
        elif kind < 0.2:
            kept, self._attempts = self._attempts, {}
            await super()._beat(socket, **fields)
            self._attempts |= kept
        else:
            await super()._beat(socket, **fields)

    def _invented_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    async def _honestly(self, socket: ClientConnection, job: Body) -> None:
        await super()._carry_out(socket, job)

    async def _with_an_attempt_that_never_was(self, socket: ClientConnection, job: Body) -> None:
        lie = {**lying("an attempt that never was"), "attempt_id": self._invented_id()}
        await say(socket, **{**result_of(job), **lie})
        await self._honestly(socket, job)

    async def _with_the_attempt_of_another(self, socket: ClientConnection, job: Body) -> None:
        owner, stolen = self._random.choice(self._seen)
        if owner != self._node_id:
            lie = lying("the attempt of another")
            await say(socket, **{**result_of(job), **lie, **stolen})
        await self._honestly(socket, job)

    async def _twice(self, socket: ClientConnection, job: Body) -> None:
        await self._honestly(socket, job)
        await self._succeed(socket, job, **lying(_TWICE))

    async def _late(self, socket: ClientConnection, job: Body) -> None:
        self._stubborn.add(job["attempt_id"])
        try:
            await say(socket, type="job_ack", **attempt_of(job))
            await asyncio.sleep(2 * RUN_SECONDS)
            await self._succeed(socket, job, **lying(_LATE))
        finally:
            self._stubborn.discard(job["attempt_id"])

    async def _cancelled(self, socket: ClientConnection, message: Body) -> None:
        if message["attempt_id"] not in self._stubborn:
            await super()._cancelled(socket, message)

    async def _never(self, socket: ClientConnection, job: Body) -> None:
        """Say nothing at all; the job is forgotten here."""

    async def _failing(self, socket: ClientConnection, job: Body) -> None:
        await self._fail(socket, job, "GPU_ON_FIRE", retryable=True)

    async def _failing_for_good(self, socket: ClientConnection, job: Body) -> None:
        await self._fail(socket, job, "BAD_INPUT", retryable=False)

    async def _full(self, socket: ClientConnection, job: Body) -> None:
        await self._fail(socket, job, "NODE_OVERLOADED", retryable=True)

    async def _without_a_model(self, socket: ClientConnection, job: Body) -> None:
        self._attempts.pop(job["attempt_id"], None)
        await say(
            socket,
            type="model_not_available",
            service_id="nmt",
            reason="unloaded",
            **attempt_of(job),
        )

    async def _hanging_up(self, socket: ClientConnection, job: Body) -> None:
        await say(socket, type="job_ack", **attempt_of(job))
        socket.transport.abort()

    async def _talking_nonsense(self, socket: ClientConnection, job: Body) -> None:
        await socket.send('{"type": "job_result", "job_id": 7')
        await say(socket, type="no_such_message")
        await self._honestly(socket, job)


_TABLE: dict[Lie, int] = {
    LyingNode._honestly: 40,
    LyingNode._with_an_attempt_that_never_was: 10,
    LyingNode._with_the_attempt_of_another: 10,
    LyingNode._twice: 10,
    LyingNode._late: 3,
    LyingNode._never: 3,
    LyingNode._failing: 8,
    LyingNode._failing_for_good: 2,
    LyingNode._full: 6,
    LyingNode._without_a_model: 3,
    LyingNode._hanging_up: 3,
    LyingNode._talking_nonsense: 5,
}
_LIES, _WEIGHTS = list(_TABLE), list(_TABLE.values())


def lying(how: str) -> dict[str, str]:
    """Texts that must reach no speaker."""
    return dict.fromkeys(("text_translated", "text_asr"), f"{LIE}: {how}")


def result_of(job: Body) -> Body:
    """What an honest node answers."""
    tgt_lang = job["tgt_lang"]
    said = job.get("text")
    if said is None:
        said = heard_in(base64.b64decode(job["audio"]))
    result = {
        "type": "job_result",
        "success": True,
        "text_asr": said,
        "text_translated": translated(said, tgt_lang),
        "tgt_lang": tgt_lang,
        **attempt_of(job),
    }
    if job["pipeline"].get("use_tts"):
        result |= {"tts_audio": _SPOKEN, "tts_format": "pcm16"}
    return result


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))
