"""A short spoken dialogue: a voice of espeak-ng, cut at its pauses, through the real nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import typer

from dragoman.audio import DEFAULT_SAMPLE_RATE, SAMPLE_BYTES, Pcm16, read_wav, resampled
from dragoman.cli.demo.local_nodes import SOURCE, TARGET
from dragoman.errors import DragomanError
from dragoman.live.protocol import TranslationResult
from dragoman.observability import get_logger
from dragoman.sdk import SessionClient, SessionOptions, Unreachable

_LINES = (
    ("en-us+klatt4", 140, "where is the train station"),
    ("en-us", 130, "see you tomorrow"),
    ("en-us+klatt4", 140, "it is going to rain this afternoon"),
    ("en-us", 130, "he was in the city yesterday"),
)
"""Two voices in turn, as fast as pocketsphinx follows them: voice, words a minute, words."""

_PAUSE_SECONDS = 1.0
_CHUNK_SECONDS = 0.1
_SPEAKING_SECONDS = 10.0

log = get_logger(__name__)


@asynccontextmanager
async def running_dialogue(url: str, *, wanted: bool) -> AsyncIterator[None]:
    """Hold the dialogue once, inside the block, and print what comes of it."""
    talking = asyncio.create_task(_talk(url)) if wanted else None
    try:
        yield
    finally:
        if talking is not None:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)


async def _talk(url: str) -> None:
    options = SessionOptions(src_lang=SOURCE, tgt_lang=TARGET, vad="webrtc")
    try:
        sounds = [await _spoken(*line) for line in _LINES]
        async with SessionClient(url, **options) as session, asyncio.TaskGroup() as both:
            both.create_task(_hear(session))
            await _speak(session, sounds)
            await session.close()
    except* (DragomanError, Unreachable, OSError, TimeoutError) as failed:
        log.warning("dialogue_failed", error=failed.exceptions[0])


async def _spoken(voice: str, words_a_minute: int, text: str) -> Pcm16:
    process = await asyncio.create_subprocess_exec(
        *("espeak-ng", "-v", voice, "-s", str(words_a_minute), "--stdout", text),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_SPEAKING_SECONDS):
            sound, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return resampled(read_wav(sound), DEFAULT_SAMPLE_RATE)


async def _speak(session: SessionClient, sounds: Sequence[Pcm16]) -> None:
    """Send a stream that never stops, at the pace of speech."""
    second = DEFAULT_SAMPLE_RATE * SAMPLE_BYTES
    pause = bytes(int(_PAUSE_SECONDS * second))
    stream = b"".join(sound.samples + pause for sound in sounds)
    size = int(_CHUNK_SECONDS * second)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for start in range(0, len(stream), size):
        await asyncio.sleep(began + start / second - loop.time())
        await session.feed(stream[start : start + size])


async def _hear(session: SessionClient) -> None:
    async for result in session.results():
        if isinstance(result, TranslationResult):
            for line in _told(result):
                typer.echo(line)
        else:
            typer.echo(f"real  no result: {result.reason}")


def _told(result: TranslationResult) -> list[str]:
    """What a listener gets, and when."""
    index = result.utterance_index
    said = f', said "{_LINES[index][2]}"' if index < len(_LINES) else ""
    times = result.scheduling
    seconds = read_wav(result.tts_audio).seconds if result.tts_audio else 0.0
    return [
        f'real  heard "{result.text_asr}"{said} ({result.node_id})',
        f'      {result.tgt_lang} "{result.text_translated}", spoken in {seconds:.1f} s; after the'
        f" end of speech: text {times.speech_end_to_text_ms or 0:.0f} ms,"
        f" audio {times.speech_end_to_audio_ms or 0:.0f} ms",
    ]
