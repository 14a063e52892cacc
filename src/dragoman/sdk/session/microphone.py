"""A microphone as a session's speech."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from dragoman.errors import CannotStart
from dragoman.extras import require_extra

_BLOCK_MS = 100
_MOST_WAITING = 300
"""Blocks: half a minute of speech waits for a scheduler that is away, the oldest goes first."""


OnBlock = Callable[[bytes], None]


class Recorder(Protocol):
    """Something that records; `sounddevice` unless another is handed in."""

    def start(
        self, sample_rate: int, block_samples: int, on_block: Callable[[bytes], None]
    ) -> None:
        """Begin; `on_block` is called with PCM16 samples of one channel, from any thread."""
        ...

    def stop(self) -> None:
        """End; no block comes after it."""
        ...


class SoundDevice:
    """The machine's microphone, or the device of this name or number."""

    def __init__(self, device: str | int | None = None) -> None:
        require_extra("microphone", "A microphone")
        try:
            import sounddevice
        except OSError as error:  # the library that the package wraps is not installed
            raise CannotStart(
                f"The microphone cannot be used ({error}); on Debian run "
                "`apt install libportaudio2`."
            ) from None
        self._sounddevice = sounddevice
        self._device = device
        self._stream: sounddevice.RawInputStream | None = None

    def start(
        self, sample_rate: int, block_samples: int, on_block: Callable[[bytes], None]
    ) -> None:
        def on_samples(samples: object, *_: object) -> None:
            on_block(bytes(samples))  # type: ignore[call-overload]

        try:
            self._stream = self._sounddevice.RawInputStream(
                samplerate=sample_rate,
                blocksize=block_samples,
                channels=1,
                dtype="int16",
                device=self._device,
                callback=on_samples,
            )
            self._stream.start()
        except (self._sounddevice.PortAudioError, ValueError) as error:
            raise CannotStart(f"The microphone cannot be used ({error}).") from None

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream.close()


class Microphone:
    """What goes from a microphone to a session, while its block lasts."""

    def __init__(self) -> None:
        self.dropped_blocks = 0
        """Tenths of a second that were spoken while the scheduler was away for too long."""
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._is_over = False

    def put(self, block: bytes) -> None:
        """Speech to send; on the event loop."""
        self._waiting.append(block)
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self.dropped_blocks += 1
        self._news.set()

    def end(self) -> None:
        """No more comes."""
        self._is_over = True
        self._news.set()

    async def send(self, feed: Callable[[bytes, bool], Awaitable[None]]) -> None:
        """Feed a session until the microphone has ended and all is sent."""
        while True:
            while self._waiting:
                await feed(self._waiting.popleft(), False)
            if self._is_over:
                await feed(b"", True)
                return
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def listening(
    feed: Callable[[bytes, bool], Awaitable[None]], sample_rate: int, recorder: Recorder
) -> AsyncIterator[Microphone]:
    """Feed a session from a recorder inside the block; leaving it ends the utterance."""
    loop = asyncio.get_running_loop()
    microphone = Microphone()
    recorder.start(
        sample_rate,
        sample_rate * _BLOCK_MS // 1000,
        lambda block: _in_loop(loop, microphone, block),
    )
    sending = asyncio.create_task(microphone.send(feed))
    try:
        try:
            yield microphone
        finally:
            recorder.stop()
            loop.call_soon(microphone.end)  # after the blocks that are on their way
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _in_loop(loop: asyncio.AbstractEventLoop, microphone: Microphone, block: bytes) -> None:
    try:
        loop.call_soon_threadsafe(microphone.put, block)
    except RuntimeError:
        return  # the loop has ended, and with it the session
