"""One speaker of a demo: a session that talks, falls silent, loses its socket and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from dragoman.cli.demo.phrasebook import SENTENCES
from dragoman.cli.demo.tally import DemoTally
from dragoman.errors import DragomanError
from dragoman.sdk import (
    SessionClient,
    SessionLink,
    SessionOptions,
    Unreachable,
    WebSocketSessionConnect,
)

_SPOKEN_SHARE = 0.3
"""The share of speakers that send audio; the others send text."""
_TWO_TARGETS_SHARE = 0.2
_FINAL_SHARE = 0.5
"""How often a speaker marks the end of an utterance, instead of just falling silent."""
_DROP_SHARE = 0.05
"""The share of utterances after which the socket is dropped."""
_FEWEST_UTTERANCES, _MOST_UTTERANCES = 3, 12

_SAMPLE_RATE = 16_000
_CHUNK_SECONDS = 0.1
_CHUNK_BYTES = int(_CHUNK_SECONDS * _SAMPLE_RATE) * 2
_FEWEST_CHUNKS, _MOST_CHUNKS = 5, 20
_SILENCE_SECONDS = 1.5
"""Longer than the pause that ends an utterance, unless the settings make that one long."""


class DemoWire:
    """The way to the scheduler, with a socket that can be dropped."""

    def __init__(self, url: str) -> None:
        self._connect = WebSocketSessionConnect(url)
        self._link: SessionLink | None = None

    async def __call__(self) -> SessionLink:
        self._link = await self._connect()
        return self._link

    async def drop(self) -> None:
        """Lose the socket; the session is told nothing, and finds its own way back."""
        if self._link is not None:
            await self._link.close()


class DemoSpeaker:
    """A client that says a few things, each in its turn, and then leaves."""

    def __init__(
        self, url: str, languages: Sequence[str], random: Random, tally: DemoTally
    ) -> None:
        self._random = random
        self._tally = tally
        self._wire = DemoWire(url)
        self._is_spoken = random.random() < _SPOKEN_SHARE
        self._things_left = random.randint(_FEWEST_UTTERANCES, _MOST_UTTERANCES)
        self._turn = asyncio.Event()
        self._leaving = asyncio.Event()
        targets = 2 if len(languages) > 2 and random.random() < _TWO_TARGETS_SHARE else 1
        self._source, *self._targets = random.sample(languages, 1 + targets)

    @property
    def is_free(self) -> bool:
        """Whether the next turn can be this speaker's: it is silent and has more to say."""
        return self._things_left > 0 and not self._turn.is_set()

    def speak(self) -> None:
        """Give the speaker its turn."""
        self._turn.set()

    def leave(self) -> None:
        """Say nothing new; what was said last is heard out."""
        self._things_left = 0
        self._leaving.set()
        self._turn.set()

    async def attend(self) -> None:
        """Take part from the first turn to the last result."""
        options = SessionOptions(
            src_lang=self._source,
            tgt_langs=self._targets,
            if_gone="restart",
            on_event=self._tally.happened,
            random=self._random,
        )
        try:
            async with (
                SessionClient(self._wire, **options) as session,
                asyncio.TaskGroup() as both,
            ):
                both.create_task(self._hear(session))
                both.create_task(self._talk(session))
        except* (DragomanError, Unreachable) as failures:
            self._tally.failed[type(failures.exceptions[0]).__name__] += 1

    async def _hear(self, session: SessionClient) -> None:
        async for result in session.results():
            self._tally.heard(result)

    async def _talk(self, session: SessionClient) -> None:
        while True:
            await self._turn.wait()
            if not self._things_left:
                break
            await self._say_something(session)
            if self._random.random() < _DROP_SHARE:
                await self._wire.drop()
            self._things_left = max(0, self._things_left - 1)
            if self._things_left:
                self._turn.clear()
        await session.close()

    async def _say_something(self, session: SessionClient) -> None:
        if not self._is_spoken:
            await session.say(self._random.choice(SENTENCES[self._source]))
            return
        for _ in range(self._random.randint(_FEWEST_CHUNKS, _MOST_CHUNKS)):
            if self._leaving.is_set():
                return
            await session.feed(self._random.randbytes(_CHUNK_BYTES))
            await self._pause(_CHUNK_SECONDS)
        if self._random.random() < _FINAL_SHARE:
            await session.feed(b"", final=True)
        else:
            await self._pause(_SILENCE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Say nothing for a while; a speaker that is leaving does not wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
