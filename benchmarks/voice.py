"""What voice activity adds to a chunk of audio, on the server's event loop.

Speakers with and without it speak by turns, all of one kind in step: a stretch of speech, then a
pause. Utterances end, and jobs are made, between the stretches that are measured, so that a figure
is of chunks alone. What a job takes depends on where its utterance was cut; a chunk does not.
"""

from __future__ import annotations

import asyncio
import subprocess
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median

import msgspec
import uvloop
from rich.table import Table

from benchmarks.full_job.comparison import verdict
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.frames import DragomanFrames
from benchmarks.full_job.load import Address
from benchmarks.full_job.nodes import open_nodes
from benchmarks.full_job.page import record
from benchmarks.full_job.servers import dragoman_server
from benchmarks.full_job.tally import Tally
from benchmarks.full_job.websocket import Socket, connect
from dragoman.audio import read_wav, resampled

SPEAKERS = 200
"""Of each kind."""
CHUNKS_MS = (20, 40, 100)
RATE = 16_000
SPOKEN = (
    "the train to the mountains leaves from the other station and we have to be there before "
    "seven because after that the last bus down to the village has gone"
)
NOISE = 60.0
"""The standard deviation of what a room adds to every sample: some 30 dB below the speech."""
TALK_MS, PAUSE_MS = 4_000, 2_500
SETTLED_AFTER_MS = {True: 500, False: 1_200}
"""Measured from so long after speech, or a pause, began: until then utterances begin and end."""
HOLD = 1.2


class Speaker:
    """A client that sends a chunk when it is told to."""

    def __init__(self, socket: Socket, frames: DragomanFrames, tally: Tally, vad: str) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._seq = 0
        self._socket, self._frames, self._tally = socket, frames, tally
        self._is_cut_by_server = vad != "off"
        socket.on_frame = self._received
        socket.send(frames.session_init(vad))

    def send(self, chunk: msgspec.Raw, *, ends: bool) -> None:
        is_final = ends and not self._is_cut_by_server
        self._socket.send(self._frames.audio_chunk(self._seq, chunk, is_final=is_final))
        self._seq += 1

    def _received(self, payload: bytes) -> None:
        told = self._frames.read(payload)
        if told.kind == "session_init_ack":
            self.opened.set_result(None)
        elif told.kind == "translation_result":
            self._tally.jobs += 1
            self._socket.send(self._frames.client_heartbeat(told.delivery_seq))
        elif told.kind in ("error", "missing_result"):
            self._tally.failed(told)


@dataclass
class Costs:
    """Microseconds on the loop for a chunk, of each stretch that was measured."""

    talking: list[float] = field(default_factory=list)
    pausing: list[float] = field(default_factory=list)

    @property
    def whole(self) -> float:
        """Of a speaker who pauses for as much of the time as here."""
        talk, pause = median(self.talking), median(self.pausing)
        return (talk * TALK_MS + pause * PAUSE_MS) / (TALK_MS + PAUSE_MS)


def _loop_seconds(pid: int) -> float:
    """The processor's time that the first thread of a process has had: its event loop's."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def _stretches() -> tuple[bytes, bytes]:
    """Speech without a pause, and a pause, in a room that is never quite still."""
    done = subprocess.run(
        ["espeak-ng", "-v", "en-us", "--stdout", SPOKEN], check=True, capture_output=True
    )
    spoken = array("h", resampled(read_wav(done.stdout), RATE).samples)
    size = RATE * TALK_MS // 1000
    while len(spoken) < size:
        spoken += spoken
    random = Random(18)

    def noisy(samples: Sequence[int]) -> bytes:
        heard = (int(sample * 0.8 + random.gauss(0, NOISE)) for sample in samples)
        return array("h", (max(-32_768, min(32_767, sample)) for sample in heard)).tobytes()

    return noisy(spoken[:size]), noisy([0] * (RATE * PAUSE_MS // 1000))


class Stage:
    """The speakers of both kinds, connected to one server."""

    def __init__(self, server: Address, chunk_ms: int, frames: DragomanFrames) -> None:
        self._server = server
        self._chunk_ms = chunk_ms
        self._frames = frames
        self._tally = Tally()
        self._speakers: dict[str, list[Speaker]] = {"off": [], "webrtc": []}
        self.costs = {vad: Costs() for vad in self._speakers}

    async def open(self, speakers: int) -> None:
        frames, tally = self._frames, self._tally
        await open_nodes(self._server.port, frames, tally)
        for _ in range(speakers):
            for vad, found in self._speakers.items():
                path = "/ws/session"
                socket = await connect(self._server.port, path, frames.sub, binary=frames.binary)
                tally.watch(socket)
                speaker = Speaker(socket, frames, tally, vad)
                async with asyncio.timeout(30):
                    await speaker.opened
                found.append(speaker)

    def close(self) -> None:
        self._tally.close()
        if (problem := self._tally.problem()) is not None:
            raise RuntimeError(f"an utterance or a socket failed: {problem}")

    async def speak(self, vad: str, talk: list[msgspec.Raw], pause: list[msgspec.Raw]) -> None:
        """One stretch of speech and one pause, of all speakers of a kind."""
        self.costs[vad].talking.append(await self._stretch(vad, talk, True))
        self.costs[vad].pausing.append(await self._stretch(vad, pause, False))

    async def _stretch(self, vad: str, chunks: list[msgspec.Raw], talking: bool) -> float:
        """Send it at the pace of speech; what a chunk cost, from when all had settled."""
        speakers, loop = self._speakers[vad], asyncio.get_running_loop()
        step_seconds = self._chunk_ms / 1000 / len(speakers)
        settled = SETTLED_AFTER_MS[talking] // self._chunk_ms
        due = loop.time()
        began, jobs = 0.0, 0
        for number, chunk in enumerate(chunks):
            if number == settled:
                began, jobs = _loop_seconds(self._server.pid), self._tally.jobs
            elif number == len(chunks) - 1:
                used = _loop_seconds(self._server.pid) - began
                jobs = self._tally.jobs - jobs
            for speaker in speakers:
                speaker.send(chunk, ends=number == len(chunks) - 1)
                due += step_seconds
                if (ahead_seconds := due - loop.time()) > 0.001:
                    await asyncio.sleep(ahead_seconds)
            await asyncio.sleep(0)
        if jobs:
            raise RuntimeError(f"{jobs} utterances ended where none was to end, with vad = {vad}")
        return used * 1e6 / (len(speakers) * (len(chunks) - 1 - settled))


async def _measure(
    server: Address, chunk_ms: int, binary: bool, speakers: int, rounds: int
) -> Stage:
    frames = DragomanFrames(binary=binary, audio_bytes=1)
    size = chunk_ms * RATE * 2 // 1000
    talk, pause = (
        [frames.encoded(sound[at : at + size]) for at in range(0, len(sound), size)]
        for sound in _stretches()
    )
    stage = Stage(server, chunk_ms, frames)
    try:
        await stage.open(speakers)
        for _ in range(rounds):
            for vad in stage.costs:
                await stage.speak(vad, talk, pause)
    finally:
        stage.close()
    return stage


def run(quick: bool, recorded: bool) -> list[Table]:
    """The loop's time for a chunk, with and without, by what is said in it."""
    speakers, rounds = (20, 1) if quick else (SPEAKERS, 3)
    figures = Figures(
        f"Voice activity: microseconds on the event loop for a chunk of PCM16 at {RATE:,} Hz",
        ("chunks", "without", "vad = webrtc", "times", "while speaking", "in a pause"),
    )
    not_held: list[str] = []
    with dragoman_server() as server:
        for chunk_ms in CHUNKS_MS:
            for binary in (True, False):
                stage = uvloop.run(_measure(server, chunk_ms, binary, speakers, rounds))
                off, webrtc = stage.costs["off"], stage.costs["webrtc"]
                times = webrtc.whole / off.whole
                chunks = f"{chunk_ms} ms, {'MessagePack' if binary else 'JSON'}"
                if times > HOLD:
                    not_held.append(chunks)
                figures.rows.append(
                    (
                        chunks,
                        f"{off.whole:.1f}",
                        f"{webrtc.whole:.1f}",
                        f"{times:.2f}",
                        f"{median(webrtc.talking) / median(off.talking):.2f}",
                        f"{median(webrtc.pausing) / median(off.pausing):.2f}",
                    )
                )
    figures.notes.append(
        f"{speakers} speakers of each kind take turns: {TALK_MS / 1000:g} s of speech, "
        f"{PAUSE_MS / 1000:g} s of pause, in a room with noise. No utterance ended, and no job was "
        f"made, while chunks were measured. To hold: at most {HOLD} times. {verdict(not not_held)}"
        f"{': over it are ' + '; '.join(not_held) if not_held else ''}."
    )
    if recorded:
        record("voice", [figures], datetime.now(UTC).date())
    return [figures.drawn()]
