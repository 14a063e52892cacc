"""Clients whose audio comes in small chunks, at the pace of speech."""

from __future__ import annotations

import asyncio
import time

import msgspec

from benchmarks.full_job.frames import DragomanFrames
from benchmarks.full_job.tally import Tally
from benchmarks.full_job.websocket import Socket, connect

PCM_BYTES_PER_MS = 32
UTTERANCE_MS = 3000
SPEECH_MS = 2200
"""Of an utterance, where a pause follows."""
_STRIDE = 37


class Speaker:
    """One client that never stops talking, in utterances of three seconds."""

    def __init__(
        self,
        number: int,
        chunk_ms: int,
        socket: Socket,
        frames: DragomanFrames,
        tally: Tally,
        vad: str | None,
        voice: list[msgspec.Raw],
    ) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._chunks_per_utterance = UTTERANCE_MS // chunk_ms
        # Each began at another time, so that they do not end at once, nor one after another.
        self._spoken = number * _STRIDE % self._chunks_per_utterance
        self._seq = 0
        self._utterances = 0
        self._session_id = ""
        self._voice = voice
        self._is_cut_by_server = vad not in (None, "off")
        self._socket = socket
        self._frames = frames
        self._tally = tally
        socket.on_frame = self._received
        socket.send(frames.session_init(vad))

    def speak(self) -> None:
        """Say the next chunk."""
        chunk = self._voice[self._spoken % len(self._voice)]
        self._spoken += 1
        is_last = self._spoken % self._chunks_per_utterance == 0
        is_final = is_last and not self._is_cut_by_server
        self._socket.send(self._frames.audio_chunk(self._seq, chunk, is_final=is_final))
        self._seq += 1
        self._tally.chunks += 1
        if is_final:
            self._tally.spoken_at[self._session_id, self._utterances] = time.monotonic()
            self._utterances += 1

    def _received(self, payload: bytes) -> None:
        told = self._frames.read(payload)
        if told.kind == "translation_result":
            self._tally.jobs += 1
            self._socket.send(self._frames.client_heartbeat(told.delivery_seq))
        elif told.kind == "session_init_ack":
            self._session_id = told.session_id
            self.opened.set_result(None)
        elif told.kind in ("error", "missing_result"):
            self._tally.failed(told)


async def open_speakers(
    port: int,
    count: int,
    chunk_ms: int,
    frames: DragomanFrames,
    tally: Tally,
    vad: str | None = None,
) -> list[Speaker]:
    """Connect all speakers; they wait to be let speak."""
    speakers = []
    if vad is None:
        voice = [frames.audio(chunk_ms * PCM_BYTES_PER_MS)]
    else:
        voice = frames.voice(SPEECH_MS, UTTERANCE_MS, chunk_ms)
    for number in range(count):
        socket = await connect(port, "/ws/session", frames.sub, binary=frames.binary)
        tally.watch(socket)
        speaker = Speaker(number, chunk_ms, socket, frames, tally, vad, voice)
        async with asyncio.timeout(30):
            await speaker.opened
        speakers.append(speaker)
    return speakers


async def talk(speakers: list[Speaker], chunk_ms: int) -> None:
    """Let all of them speak, spread evenly over the time of a chunk."""
    loop = asyncio.get_running_loop()
    step_seconds = chunk_ms / 1000 / len(speakers)
    due = loop.time()
    while True:
        for speaker in speakers:
            speaker.speak()
            due += step_seconds
            ahead_seconds = due - loop.time()
            if ahead_seconds > 0.001:
                await asyncio.sleep(ahead_seconds)
        # Also when it is late, what came in must be read.
        await asyncio.sleep(0)
