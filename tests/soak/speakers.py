"""People who talk during a soak: in pieces or whole utterances, with lines that drop."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress
from random import Random
from time import monotonic
from typing import Any

from tests.integration.live_api.manual_node import Body
from tests.soak.laws import Laws
from tests.soak.nodes import LIE, OWN_LIES, translated
from tests.soak.speech import follows, in_pieces, numbered_samples
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

_END_SECONDS = 60.0
"""More than any utterance may take in all."""
_HEARTBEAT_SECONDS = 3.0
_NETWORK_ERRORS = (OSError, WebSocketException, TimeoutError)
_COME_AGAIN = ("SCHEDULER_DEPENDENCY_DOWN", "SERVER_DRAINING")
"""What a server says that cannot open a session now."""


class _Forgotten(Exception):
    """The session is gone, since its client was away for longer than it waits."""


class Speaker:
    """One session from its start to its end, over one connection after another."""

    def __init__(
        self,
        url: str,
        name: str,
        random: Random,
        laws: Laws,
        *,
        grace_seconds: float,
        is_patient: bool,
    ) -> None:
        """A patient one goes on when the server hangs up or does not let it in."""
        self._url = f"{url.replace('http', 'ws', 1)}/ws/session"
        self._name = name
        self._random = random
        self._laws = laws
        self._grace_seconds = grace_seconds
        self._is_patient = is_patient
        self._targets = random.choice((["es"], ["es"], ["es", "de"]))
        self._in_pieces = random.random() < 0.6
        self._token: str | None = None
        self._said: list[Body] = []
        """Every message with speech, by its seq or utterance_index."""
        self._samples = 0
        self._ends: dict[int, Body] = {}
        """What ended each utterance and target, by its delivery number."""
        self._ended = asyncio.Event()
        """The server acknowledged the close."""
        self._socket: ClientConnection
        self._listening: asyncio.Task[None] | None = None
        self._left_at = 0.0

    async def converse(self, stop: asyncio.Event) -> None:
        """Talk until told to stop or until all is said, then leave in one way or another."""
        utterances = self._random.randint(2, 12)
        try:
            await self._connect()
            for _ in range(utterances):
                if stop.is_set():
                    break
                if self._is_patient:
                    await self._stay_connected()
                await self._say_something(self._socket)
                if self._random.random() < 0.15:
                    await self._hang_up()
                    await asyncio.sleep(self._random.uniform(0, self._grace_seconds / 4))
                    await self._connect()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._random.uniform(0.1, 1.5)):
                        await stop.wait()
            if self._random.random() < 0.1:
                self._laws.count("sessions abandoned")
                return
            await self._close()
        except _Forgotten:
            self._laws.count("sessions given up after the grace")
        finally:
            await self._hang_up()

    # --- connections -----------------------------------------------------------------------------

    async def _connect(self) -> None:
        """A connection with the session on it, which goes on where it was."""
        while True:
            try:
                self._socket = await self._open()
                break
            except _NETWORK_ERRORS:
                if not self._is_patient:
                    raise
            self._laws.count("sessions not let in")
            await asyncio.sleep(self._random.uniform(0.1, 0.5))
        self._listening = asyncio.create_task(self._listen(self._socket))

    async def _stay_connected(self) -> None:
        """Connect anew if the connection is gone."""
        if self._listening is not None and self._listening.done():
            await self._hang_up()
            await self._connect()

    async def _hang_up(self) -> None:
        if self._listening is None:
            return
        listening, self._listening = self._listening, None
        self._socket.transport.abort()
        await listening

    async def _open(self) -> ClientConnection:
        socket = await connect(self._url, compression=None, max_size=None)
        try:
            await self._begin(socket)
        except BaseException:
            socket.transport.abort()
            raise
        return socket

    async def _begin(self, socket: ClientConnection) -> None:
        await _say(
            socket,
            type="session_init",
            src_lang="en",
            tgt_langs=self._targets,
            ui_events=self._random.random() < 0.2,
            resume_token=self._token,
            last_delivery_seq=max(self._ends, default=0),
        )
        async with asyncio.timeout(_END_SECONDS):
            ack = json.loads(await socket.recv())
        if ack["type"] != "session_init_ack":
            if self._is_patient and ack["code"] in _COME_AGAIN:
                raise ConnectionError(ack["code"])
            raise AssertionError(f"{self._name} got no session: {ack}")
        if self._token is not None:
            self._check_resumed(ack)
        self._token = ack["resume_token"]
        first = ack["next_chunk_seq"] if self._in_pieces else ack["next_utterance_index"]
        for message in self._said[first:]:
            await _say(socket, **message)

    def _check_resumed(self, ack: Body) -> None:
        away_seconds = monotonic() - self._left_at
        if ack["resumed"]:
            self._laws.count("sessions resumed")
        elif self._is_patient and away_seconds > self._grace_seconds:
            raise _Forgotten
        else:
            self._laws.require(
                False, f"{self._name} was forgotten within the grace, after {away_seconds:.1f} s"
            )

    # --- saying ----------------------------------------------------------------------------------

    async def _say_something(self, socket: ClientConnection) -> None:
        messages = self._pieces() if self._in_pieces else [self._utterance()]
        self._said += messages
        if self._random.random() < 0.1:
            messages = [*messages, self._random.choice(self._said)]  # once more
        if self._random.random() < 0.2 and self._in_pieces:
            self._random.shuffle(messages)
        # The line may break; what was lost is said again once it is back.
        with suppress(ConnectionClosed):
            for message in messages:
                await _say(socket, **message)
            if self._random.random() < 0.5:
                await _say(
                    socket, type="client_heartbeat", last_delivery_seq=max(self._ends, default=0)
                )

    def _pieces(self) -> list[Body]:
        audio = self._next_audio()
        pieces = in_pieces(audio, self._random)
        first = len(self._said)
        messages: list[Body] = [
            {
                "type": "audio_chunk",
                "seq": first + place,
                "is_final": False,
                "payload": base64.b64encode(piece).decode(),
            }
            for place, piece in enumerate(pieces)
        ]
        messages[-1]["is_final"] = self._random.random() < 0.8  # otherwise a pause ends it
        return messages

    def _utterance(self) -> Body:
        index = len(self._said)
        if self._random.random() < 0.5:
            content: Body = {"text": f"{self._name} says {index}"}
        else:
            content = {"audio": base64.b64encode(self._next_audio()).decode()}
        return {"type": "utterance", "utterance_index": index, **content}

    def _next_audio(self) -> bytes:
        count = self._random.choice((1, 50, 1600, 8000, 20000))
        audio = numbered_samples(self._samples, count)
        self._samples += count
        return audio

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_END_SECONDS):
                while not self._ended.is_set():
                    await self._stay_connected()
                    await self._ask_to_close()
        except TimeoutError:
            self._laws.require(False, f"{self._name} closed, and its close was never acknowledged")
            return
        self._check_all()
        self._laws.count("sessions closed")

    async def _ask_to_close(self) -> None:
        """Ask, and wait until it is done, or until the connection is gone."""
        with suppress(ConnectionClosed):
            await _say(self._socket, type="session_close")
        assert self._listening is not None
        ended = asyncio.create_task(self._ended.wait())
        try:
            while not (ended.done() or self._listening.done()):
                await asyncio.wait(
                    {ended, self._listening},
                    timeout=_HEARTBEAT_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                # The server hangs up on clients that say nothing for a while.
                with suppress(ConnectionClosed):
                    await _say(
                        self._socket,
                        type="client_heartbeat",
                        last_delivery_seq=max(self._ends, default=0),
                    )
        finally:
            ended.cancel()

    # --- hearing ---------------------------------------------------------------------------------

    async def _listen(self, socket: ClientConnection) -> None:
        try:
            with suppress(WebSocketException, OSError):
                async for frame in socket:
                    self._heard(json.loads(frame))
        finally:
            self._left_at = monotonic()

    def _heard(self, message: Body) -> None:
        match message["type"]:
            case "translation_result" | "missing_result":
                self._check_end(message)
            case "session_close_ack":
                self._ended.set()
            case "error":
                self._laws.count(f"session error: {message['code']}")

    def _check_end(self, message: Body) -> None:
        number = message["delivery_seq"]
        known = self._ends.get(number)
        if known is not None:
            self._laws.count("deliveries repeated")
            self._laws.require(
                _content(known) == _content(message),
                f"{self._name}: delivery {number} was {_content(known)}, then {_content(message)}",
            )
            return
        self._laws.require(
            number == len(self._ends) + 1,
            f"{self._name}: delivery {number} came after {len(self._ends)}",
        )
        text = message.get("text_asr")
        if text is not None and self._may_be_taken(text):
            self._laws.count("lies of an attempt's own node")
        elif text is not None and text.startswith(LIE):
            self._laws.require(False, f"{self._name} heard in delivery {number}: {text}")
        elif text is not None:
            self._laws.require(
                message["text_translated"] == translated(text, message["tgt_lang"]),
                f"{self._name}: {text!r} became {message['text_translated']!r}",
            )
        self._ends[number] = message
        self._laws.count(message["type"])

    def _may_be_taken(self, text: str) -> bool:
        return self._is_patient and text.endswith(OWN_LIES)

    # --- judging ---------------------------------------------------------------------------------

    def _check_all(self) -> None:
        """After a close: every utterance ended once for each target, and nothing was lost."""
        by_target: dict[str, list[Body]] = {target: [] for target in self._targets}
        for message in self._ends.values():
            by_target[message["tgt_lang"]].append(message)
        counts = {target: len(ends) for target, ends in by_target.items()}
        self._laws.require(
            len(set(counts.values())) == 1, f"{self._name}: utterances by target {counts}"
        )
        for target, ends in by_target.items():
            indexes = [message["utterance_index"] for message in ends]
            self._laws.require(
                indexes == list(range(len(indexes))),
                f"{self._name}: {target} ended the utterances {indexes}",
            )
            if self._in_pieces:
                self._check_samples(ends)
            else:
                self._laws.require(
                    len(ends) == len(self._said),
                    f"{self._name}: {len(self._said)} utterances had {len(ends)} ends",
                )

    def _check_samples(self, ends: list[Body]) -> None:
        """Utterance joins utterance without a shift, a gap or a sample twice."""
        next_sample: int | None = 0
        for message in ends:
            heard = message.get("text_asr")
            if heard is None or self._may_be_taken(heard):
                next_sample = None  # how much was in it is not known
                continue
            index = message["utterance_index"]
            first, plus, count = heard.partition("+")
            if not plus:
                self._laws.require(False, f"{self._name}: utterance {index} is {heard}")
                return
            self._laws.require(
                next_sample is None or follows(int(first), next_sample),
                f"{self._name}: utterance {index} begins with sample {first}, not {next_sample}",
            )
            next_sample = int(first) + int(count)
        self._laws.require(
            next_sample is None or follows(next_sample % (1 << 16), self._samples),
            f"{self._name}: {self._samples} samples were said, {next_sample} heard",
        )


def _content(message: Body) -> tuple[Any, ...]:
    """What must be the same when a delivery is sent again."""
    names = ("type", "utterance_index", "tgt_lang", "job_id", "text_asr", "reason")
    return tuple(message.get(name) for name in names)


async def _say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps({key: it for key, it in message.items() if it is not None}))
