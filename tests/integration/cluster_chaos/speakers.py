"""Many speakers in one process: python -m tests.integration.cluster_chaos.speakers ORDER.

The order is JSON. Each speaker talks over one session, through whatever happens to its connections,
and writes down what goes over the wire; callers ask for jobs without a session. At SIGTERM they say
no more, wait for what is under way, and close in peace.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import uvloop
from tests.integration.cluster_chaos.callers import Caller
from tests.integration.cluster_chaos.doors import AnyDoor
from tests.integration.cluster_chaos.records import (
    Closed,
    Diary,
    GaveUp,
    Heard,
    Opened,
    Parted,
    Said,
)
from tests.integration.cluster_chaos.stalls import watch_own_loop

from dragoman.errors import DragomanError
from dragoman.live.protocol import (
    Message,
    MissingResult,
    SchedulerToClient,
    SessionCloseAck,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from dragoman.sdk import LinkClosed, SessionClient, Unreachable
from dragoman.sdk.transport import CLIENT_DOOR, Link

_RECONNECT_SECONDS = 3600.0
"""An instance may take minutes to start on a busy machine; the run ends who makes no progress."""


class SpeakersOrder(msgspec.Struct, frozen=True):
    """Who speaks, and how often."""

    urls: dict[str, str]
    """Where each instance is."""
    speakers: list[str]
    callers: list[str]
    pause_seconds: float
    """Between two utterances of a speaker, on average."""
    seed: int
    diary: str


def targets_of(speaker: str) -> list[str]:
    """The languages that a speaker wants; every third one wants two."""
    return ["es", "de"] if speaker.endswith(("0", "3", "6", "9")) else ["es"]


class WrittenLink:
    """A session's connection, all of whose traffic is written down."""

    def __init__(self, link: Link[SchedulerToClient], speaker: str, diary: Diary) -> None:
        self._link = link
        self._speaker = speaker
        self._write = diary.write
        self._session_id = ""

    async def send(self, message: Message) -> None:
        if isinstance(message, Utterance):
            self._write(
                Said(
                    speaker=self._speaker,
                    session_id=self._session_id,
                    index=message.utterance_index,
                    text=message.text or "",
                )
            )
        await self._link.send(message)

    async def receive(self) -> SchedulerToClient:
        try:
            message = await self._link.receive()
        except LinkClosed as closed:
            self._write(Parted(speaker=self._speaker, code=closed.code))
            raise
        self._heard(message)
        return message

    async def close(self) -> None:
        await self._link.close()

    def _heard(self, message: SchedulerToClient) -> None:
        speaker = self._speaker
        match message:
            case SessionInitAck(session_id=session_id, instance_id=instance_id, resumed=resumed):
                self._session_id = session_id
                self._write(
                    Opened(
                        speaker=speaker,
                        session_id=session_id,
                        instance_id=instance_id,
                        resumed=resumed,
                    )
                )
            case TranslationResult():
                self._write(
                    Heard(
                        speaker=speaker,
                        session_id=message.session_id,
                        number=message.delivery_seq,
                        index=message.utterance_index,
                        tgt_lang=message.tgt_lang,
                        text=message.text_translated,
                    )
                )
            case MissingResult():
                self._write(
                    Heard(
                        speaker=speaker,
                        session_id=message.session_id,
                        number=message.delivery_seq,
                        index=message.utterance_index,
                        tgt_lang=message.tgt_lang,
                        reason=message.reason,
                    )
                )
            case SessionCloseAck():
                self._write(Closed(speaker=speaker, session_id=self._session_id))


class Speaker:
    """Says one thing after another, and reads what comes of it."""

    def __init__(self, order: SpeakersOrder, name: str, diary: Diary, stop: asyncio.Event) -> None:
        self._name = name
        self._diary = diary
        self._stop = stop
        self._random = Random(f"{order.seed} {name}")
        self._pause_seconds = order.pause_seconds
        self._door = AnyDoor(list(order.urls.values()), CLIENT_DOOR, self._random)

    async def speak(self) -> None:
        try:
            while not self._stop.is_set():
                # Before there is a session the client leaves it to its caller to knock again.
                with suppress(Unreachable):
                    await self._converse()
                    return
                await self._pause()
        except DragomanError as error:
            self._diary.write(GaveUp(who=self._name, why=f"{error.code}: {error.message}"))

    async def _connect(self) -> WrittenLink:
        return WrittenLink(await self._door(), self._name, self._diary)

    async def _converse(self) -> None:
        client = SessionClient(
            self._connect,
            src_lang="en",
            tgt_langs=targets_of(self._name),
            if_gone="restart",
            reconnect_seconds=_RECONNECT_SECONDS,
            random=self._random,
        )
        async with client as session:
            reading = asyncio.create_task(_read(session))
            try:
                number = 0
                while not self._stop.is_set():
                    await session.say(f"{self._name} says {number}")
                    number += 1
                    await self._pause()
                await session.close()
            finally:
                reading.cancel()
                # What ends the reading early ends the speaking too, and is told there.
                await asyncio.gather(reading, return_exceptions=True)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._random.uniform(0, 2 * self._pause_seconds)):
                await self._stop.wait()


async def _read(session: SessionClient) -> None:
    async for _ in session.results():
        pass  # the wire has been written down already


async def speak_all(order: SpeakersOrder) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    diary = Diary(Path(order.diary))
    speakers = [Speaker(order, name, diary, stop) for name in order.speakers]
    callers = [
        Caller(order.urls, name, order.pause_seconds, order.seed, diary, stop)
        for name in order.callers
    ]
    watching = asyncio.create_task(watch_own_loop(Path(order.diary).stem, diary))
    async with asyncio.TaskGroup() as group:
        for speaker in speakers:
            group.create_task(speaker.speak())
        for caller in callers:
            group.create_task(caller.call())
    watching.cancel()
    diary.close()


if __name__ == "__main__":
    uvloop.run(speak_all(msgspec.json.decode(sys.argv[1], type=SpeakersOrder)))
