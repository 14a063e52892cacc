"""The process that plays the nodes and the clients: `python -m benchmarks.full_job.driver LOAD`."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import uvloop

from benchmarks.full_job.frames import DragomanFrames, JobFrames
from benchmarks.full_job.load import JobLoad, Outcome, SpeechLoad
from benchmarks.full_job.nodes import open_nodes
from benchmarks.full_job.relay_frames import RelayFrames
from benchmarks.full_job.sessions import open_sessions
from benchmarks.full_job.speakers import open_speakers, talk
from benchmarks.full_job.tally import Tally
from benchmarks.processes import cpu_seconds


async def drive_jobs(load: JobLoad, tally: Tally) -> Outcome:
    frames: JobFrames = (
        RelayFrames(binary=load.binary, sizes=load.relay_sizes)
        if load.relay_sizes is not None
        else DragomanFrames(binary=load.binary, audio_bytes=load.audio_bytes)
    )
    await open_nodes(load.server.port, frames, tally)
    await open_sessions(load.server.port, frames, tally)
    return await measure(load, tally)


async def drive_speech(load: SpeechLoad, tally: Tally) -> Outcome:
    frames = DragomanFrames(binary=load.binary, audio_bytes=1)
    await open_nodes(load.server.port, frames, tally)
    speakers = await open_speakers(
        load.server.port, load.speakers, load.chunk_ms, frames, tally, load.vad
    )
    talking = asyncio.create_task(talk(speakers, load.chunk_ms))
    try:
        return await measure(load, tally)
    finally:
        talking.cancel()


async def measure(load: JobLoad | SpeechLoad, tally: Tally) -> Outcome:
    """What the server did and used in the seconds after the warm-up."""
    await asyncio.sleep(load.warm_up_seconds)
    jobs, chunks, started = tally.jobs, tally.chunks, time.monotonic()
    tally.waits.clear()
    cpu_before = cpu_seconds(load.server.pid)
    await asyncio.sleep(load.seconds)
    cpu_used = cpu_seconds(load.server.pid) - cpu_before
    return Outcome(
        tally.jobs - jobs,
        time.monotonic() - started,
        cpu_used,
        tally.sizes(),
        tally.chunks - chunks,
        tuple(seconds * 1000 for seconds in tally.waits),
    )


async def drive(load: JobLoad | SpeechLoad) -> Outcome:
    tally = Tally()
    try:
        outcome = await (
            drive_jobs(load, tally) if isinstance(load, JobLoad) else drive_speech(load, tally)
        )
        problem = tally.problem()
    finally:
        tally.close()
    if problem is not None:
        sys.exit(f"a job or a socket failed: {problem}")
    return outcome


def main() -> None:
    load = msgspec.json.decode(sys.argv[1], type=JobLoad | SpeechLoad)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(drive(load))
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
