"""Clients for tests: they speak, listen, lose their connection and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from dragoman.auth import ApiKey
from dragoman.live.gateway import ConnectionClosed, MemoryClient
from dragoman.live.protocol import (
    TO_CLIENT,
    AudioChunk,
    ClientHeartbeat,
    Error,
    Message,
    MissingResult,
    SchedulerToClient,
    SessionClose,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from dragoman.testing import MemoryScheduler

End = TranslationResult | MissingResult
M = TypeVar("M")

BYTES_PER_MS = 32
"""Of 16-bit samples at 16 kHz."""


class Speaker:
    """A client program: what it said it keeps, and says again what the server does not have."""

    def __init__(
        self,
        world: MemoryScheduler,
        *,
        sub: str = "dragoman.json.v1",
        key: ApiKey | None = None,
        acknowledges: bool = False,
        **init: Any,
    ) -> None:
        self._world = world
        self._sub = sub
        self._key = key
        self._acknowledges = acknowledges
        self._init = {"src_lang": "zh", "tgt_lang": "en"} | init
        if "tgt_langs" in init or "mode" in init:
            self._init.pop("tgt_lang")
        self.heard: list[SchedulerToClient] = []
        self.ends: list[End] = []
        """What ended, in the order heard; a number is taken in once."""
        self.repeated: list[End] = []
        """Numbers heard again."""
        self.token: str | None = None
        self.close_code: int | None = None
        self._said: list[Utterance] = []
        self._chunks: list[AudioChunk] = []
        self._client: MemoryClient[SchedulerToClient] | None = None
        self._ear: asyncio.Task[None] | None = None

    # --- the connection --------------------------------------------------------------------------

    async def connect(self, **init: Any) -> SessionInitAck | None:
        """Open a session, or go on with the one there was; None when it is refused."""
        fields = dict(self._init)
        if self.token is not None:
            fields |= {"resume_token": self.token, "last_delivery_seq": self.last_delivery_seq}
        client = await self._open()
        acks = len(self.told(SessionInitAck))
        await self.send(SessionInit(**(fields | init)))
        await self._world.until(
            lambda: len(self.told(SessionInitAck)) > acks or client is not self._client
        )
        if len(self.told(SessionInitAck)) == acks:
            return None
        ack = self.told(SessionInitAck)[-1]
        self.token = ack.resume_token
        return ack

    async def connect_bare(self) -> None:
        """Open a connection and say nothing yet."""
        await self._open()

    async def come_back(self) -> SessionInitAck | None:
        """Resume, and say again what the server does not have."""
        ack = await self.connect()
        if ack is not None:
            for utterance in self._said[ack.next_utterance_index :]:
                await self.send(utterance)
            for chunk in self._chunks[ack.next_chunk_seq :]:
                await self.send(chunk)
        return ack

    async def _open(self) -> MemoryClient[SchedulerToClient]:
        world = self._world
        client = await world.network.connect(
            world.plane.session_endpoint, TO_CLIENT, offered=[self._sub], key=self._key
        )
        self._client, self.close_code = client, None
        self._ear = asyncio.get_running_loop().create_task(self._listen(client))
        return client

    @property
    def client(self) -> MemoryClient[SchedulerToClient]:
        assert self._client is not None, "the speaker is not connected"
        return self._client

    @property
    def connected(self) -> bool:
        return self._client is not None

    def cut(self, *, server_notices_after: float | None = 0.0) -> None:
        """The network breaks."""
        client, self._client = self._client, None
        if client is not None:
            client.link.cut(server_notices_after=server_notices_after)

    # --- speaking --------------------------------------------------------------------------------

    async def send(self, message: Message) -> bool:
        if self._client is None:
            return False
        try:
            await self._client.send(message)
        except ConnectionClosed:
            return False
        return True

    async def say(self, text: str = "hello", **fields: Any) -> int:
        """A whole utterance, the next one; also said when no instance hears it now."""
        utterance = Utterance(len(self._said), text=text, **fields)
        self._said.append(utterance)
        await self.send(utterance)
        return utterance.utterance_index

    async def speak(self, ms: float = 100, *, final: bool = False) -> int:
        """The next chunk of audio."""
        return await self.chunk(b"\1" * int(ms * BYTES_PER_MS), final=final)

    async def chunk(self, payload: bytes, *, final: bool = False) -> int:
        """The next chunk, with this audio."""
        chunk = AudioChunk(len(self._chunks), final, payload)
        self._chunks.append(chunk)
        await self.send(chunk)
        return chunk.seq

    async def beat(self, last_delivery_seq: int | None = None) -> None:
        await self.send(ClientHeartbeat(last_delivery_seq))

    async def acknowledge(self) -> None:
        """Tell the server that everything heard has arrived."""
        await self.beat(self.last_delivery_seq)

    async def close(self) -> int | None:
        """Say good-bye, and wait for the last word; the code the connection closed with."""
        await self.send(SessionClose())
        await self._world.until(lambda: not self.connected)
        return self.close_code

    # --- listening -------------------------------------------------------------------------------

    @property
    def last_delivery_seq(self) -> int:
        return self.ends[-1].delivery_seq if self.ends else 0

    def told(self, kind: type[M]) -> list[M]:
        """Everything heard of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]

    @property
    def results(self) -> list[TranslationResult]:
        return [end for end in self.ends if isinstance(end, TranslationResult)]

    @property
    def missing(self) -> list[MissingResult]:
        return [end for end in self.ends if isinstance(end, MissingResult)]

    @property
    def error_codes(self) -> list[str]:
        return [error.code for error in self.told(Error)]

    async def until_ended(self, count: int, seconds: float = 1_000.0) -> Sequence[End]:
        """Wait until so many utterances ended, for any target."""
        await self._world.until(lambda: len(self.ends) >= count, seconds)
        return self.ends

    async def _listen(self, client: MemoryClient[SchedulerToClient]) -> None:
        try:
            while True:
                message = await client.receive()
                if client is self._client:
                    await self._hear(message)
        except ConnectionClosed as closed:
            if client is self._client:
                self._client = None
                self.close_code = closed.code

    async def _hear(self, message: SchedulerToClient) -> None:
        self.heard.append(message)
        if not isinstance(message, TranslationResult | MissingResult):
            return
        if message.delivery_seq <= self.last_delivery_seq:
            self.repeated.append(message)
            return
        self.ends.append(message)
        if self._acknowledges:
            await self.acknowledge()


async def open_speaker(world: MemoryScheduler, **options: Any) -> Speaker:
    """A speaker with an open session."""
    speaker = Speaker(world, **options)
    ack = await speaker.connect()
    assert ack is not None, f"the session was refused: {speaker.heard}"
    return speaker
