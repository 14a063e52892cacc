"""Sessions for scripts without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from dragoman.errors import SessionClosed
from dragoman.ids import SessionId
from dragoman.sdk.connecting import SessionConnect
from dragoman.sdk.session.client import SessionClient
from dragoman.sdk.session.microphone import Microphone, Recorder
from dragoman.sdk.session.options import SessionOptions
from dragoman.sdk.session.results import Result

T = TypeVar("T")


def talk(url: str | SessionConnect, **options: Unpack[SessionOptions]) -> SyncSession:
    """A session for a ``with`` block; the options are those of `SessionClient`."""
    return SyncSession(SessionClient(url, **options))


class SyncSession:
    """A `SessionClient` whose calls wait; its connection lives in a thread of its own.

    `on_event` is called in that thread.
    """

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        """Runs in the thread, from the beginning of the ``with`` block to its end."""
        self._thread: threading.Thread | None = None

    @property
    def session_id(self) -> SessionId | None:
        return self._client.session_id

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._wait_for(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._wait_for(self._client.__aexit__(kind, error, trace))
        finally:
            self._end()

    def feed(self, audio: bytes | bytearray | memoryview, final: bool = False) -> None:
        """Send audio as it is spoken; `final` says that an utterance ends here."""
        self._wait_for(self._client.feed(audio, final))

    def say(self, text: str, *, request_id: str | None = None) -> int:
        """Send a text; returns its number, which the results carry."""
        return self._wait_for(self._client.say(text, request_id=request_id))

    def utter(self, *, audio: bytes, request_id: str | None = None) -> int:
        """Send a whole spoken utterance; returns its number, which the results carry."""
        return self._wait_for(self._client.utter(audio=audio, request_id=request_id))

    @contextmanager
    def microphone(
        self, *, device: str | int | None = None, recorder: Recorder | None = None
    ) -> Iterator[Microphone]:
        """Speak into the machine's microphone: ``with session.microphone():``.

        What is said inside the block is fed to the session; read the results there too. Needs the
        extra `microphone`. `recorder` replaces the microphone.
        """
        listening = self._client.microphone(device=device, recorder=recorder)
        microphone = self._wait_for(_entered(listening))
        try:
            yield microphone
        except BaseException as error:
            # What is still to be said matters less than why the block ended.
            with suppress(Exception):
                self._wait_for(_left(listening, error))
            raise
        self._wait_for(_left(listening, None))

    def results(self) -> Iterator[Result]:
        """Results as they come, until the session is closed and all are read."""
        while (result := self.next_result()) is not None:
            yield result

    def next_result(self) -> Result | None:
        """The next result; None when the session is closed and all are read."""
        return self._wait_for(self._client.next_result())

    def close(self) -> None:
        """End the speech, and wait until every result has come; they can be read afterwards."""
        self._wait_for(self._client.close())

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise SessionClosed(
                "The session is not open; use it inside `with talk(...) as session:`."
            )
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()  # Ctrl-C ends the wait here, and shall end it there too
            raise

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None


async def _entered(listening: AbstractAsyncContextManager[Microphone]) -> Microphone:
    return await listening.__aenter__()


async def _left(
    listening: AbstractAsyncContextManager[Microphone], error: BaseException | None
) -> None:
    kind = None if error is None else type(error)
    await listening.__aexit__(kind, error, None if error is None else error.__traceback__)
