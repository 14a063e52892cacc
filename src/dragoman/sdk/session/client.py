"""A session: sends speech or text, and receives translations, through lost connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec

from dragoman.clock import SystemClock
from dragoman.errors import InvalidMessage, InvalidSession, RateLimited, SessionClosed
from dragoman.ids import SessionId
from dragoman.live.protocol import (
    FROM_CLIENT,
    NOT_PLAIN,
    AudioFormat,
    Mode,
    Pipeline,
    SessionInitAck,
    SubProtocol,
    Utterance,
    check_utterance,
    unencodable,
)
from dragoman.sdk.connecting import SessionConnect, WebSocketSessionConnect
from dragoman.sdk.parameters import (
    language_fault,
    own_words,
    pipeline_fault,
    plain,
    shortened,
    unsendable_fault,
)
from dragoman.sdk.session.chunks import pieces
from dragoman.sdk.session.conversation import Conversation
from dragoman.sdk.session.dialogue import Dialogue
from dragoman.sdk.session.ending import (
    TOO_MUCH,
    SessionConnectionEnding,
    final_error,
    wait_asked_for_seconds,
)
from dragoman.sdk.session.events import SessionEvent, SessionInterrupted, SessionOpened
from dragoman.sdk.session.microphone import Microphone, Recorder, SoundDevice, listening
from dragoman.sdk.session.options import SessionOptions, opening
from dragoman.sdk.session.pace import Pace
from dragoman.sdk.session.results import Result
from dragoman.sdk.transport import Backoff, Unreachable

_CHUNK_MS = 100
_KEEP_BYTES = 8 * 1024 * 1024
_MAX_IN_FLIGHT = 16
_MOST_UNREAD = 1000
_RECONNECT_SECONDS = 120.0
_PCM16_BYTES_PER_SAMPLE = 2


class SessionClient:
    """A conversation with a scheduler: ``async with SessionClient(url, ...) as session``.

    Speak either with `feed`, which takes audio as it comes and lets the scheduler cut it into
    utterances, or with `say` and `utter`, which take whole utterances. Each utterance ends once for
    each target language, in order, in a `TranslationResult` or a `Missing`. A lost connection is
    made again; no result is lost or delivered twice.
    """

    def __init__(self, url: str | SessionConnect, **options: Unpack[SessionOptions]) -> None:
        """Set the languages and options; nothing is connected yet.

        `url` is the scheduler's, or a connector of your own. `SessionOptions` lists the options.
        """
        self._init = opening(options)
        self._connect = (
            WebSocketSessionConnect(url, token=options.get("token"))
            if isinstance(url, str)
            else url
        )
        self._if_gone = options.get("if_gone", "raise")
        self._max_in_flight = options.get("max_in_flight", _MAX_IN_FLIGHT)
        self._keep_bytes = options.get("keep_bytes", _KEEP_BYTES)
        self._reconnect_seconds = options.get("reconnect_seconds", _RECONNECT_SECONDS)
        self._tell: Callable[[SessionEvent], None] = options.get("on_event", _nobody_watches)
        self._clock = options.get("clock") or SystemClock()
        self._backoff = Backoff(options.get("random") or secrets.SystemRandom())
        self._longest_chunk_bytes = self._chunk_bytes(options.get("chunk_ms", _CHUNK_MS))
        self._dialogue = Dialogue(
            1 if self._init.mode is Mode.TWO_WAY_AUTO else len(self._init.targets)
        )
        self._pace = Pace(self._clock)
        self._resume_token: str | None = None
        self._starts_anew = False
        """The session cannot go on; the next connection opens another."""
        self._connected_now = False
        self._leading: asyncio.Task[None] | None = None
        self._conversation: Conversation | None = None
        self._closed = False
        self._failure: Exception | None = None
        self._readers = 0
        self.session_id: SessionId | None = None
        """The scheduler's name for the session; another one after a restart."""
        self.listen_token: str | None = None
        """Lets others `listen` to the session, and do nothing else with it."""

    async def __aenter__(self) -> Self:
        self._leading = asyncio.create_task(self._lead())
        try:
            await self._dialogue.bell.until(lambda: self._is_over or self.session_id is not None)
            if self._failure is not None:
                raise self._failure
        except BaseException:
            await self._hang_up()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self.close()
        finally:
            await self._hang_up()

    # --- speaking --------------------------------------------------------------------------------

    async def feed(self, audio: bytes | bytearray | memoryview, final: bool = False) -> None:
        """Send audio as it is spoken; `final` says that an utterance ends here.

        Waits while the scheduler's queue or this client's buffer is full.
        """
        chunks = self._dialogue.in_chunks()
        if type(audio) is not bytes:
            audio = _as_bytes(audio)
        if not audio and not final:
            return
        rest = list(pieces(audio, self._longest_chunk_bytes))
        for number, piece in enumerate(rest, 1):
            if not self._has_room():
                await self._wait_for_room()
            chunks.add(piece, is_final=final and number == len(rest))
            self._speak()

    async def say(self, text: str, *, request_id: str | None = None) -> int:
        """Send a text; returns its number, which the results carry."""
        return await self.utter(text=text, request_id=request_id)

    async def utter(
        self,
        *,
        text: str | None = None,
        audio: bytes | None = None,
        request_id: str | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        pipeline: Pipeline | None = None,
        features: tuple[str, ...] | None = None,
        services: Mapping[str, str] | None = None,
    ) -> int:
        """Send a whole utterance, as text or audio; returns its number, which the results carry.

        What is left out comes from the session's options. Waits while too much is in flight.
        """
        utterances = self._dialogue.in_utterances()
        said = _checked(
            utterances.next_number,  # another one is put in when it is sent, if it is another then
            {
                "request_id": request_id,
                "audio": audio,
                "text": text,
                "src_lang": src_lang,
                "tgt_lang": tgt_lang,
                "pipeline": pipeline,
                "features": features,
                "services": services,
            },
        )
        if not self._has_room():
            await self._wait_for_room()
        index = utterances.add(said)
        self._speak()
        return index

    def microphone(
        self, *, device: str | int | None = None, recorder: Recorder | None = None
    ) -> AbstractAsyncContextManager[Microphone]:
        """Speak into the machine's microphone: ``async with session.microphone():``.

        What is said inside the block is fed to the session, which must be one of PCM16; results
        are read beside it. Needs the extra `microphone`. `recorder` replaces the microphone.
        """
        if self._init.audio_format is not AudioFormat.PCM16:
            raise InvalidMessage(
                f"`audio_format` is {self._init.audio_format}; a microphone gives pcm16"
            )
        source = SoundDevice(device) if recorder is None else recorder
        return listening(self.feed, self._init.sample_rate, source)

    # --- hearing ---------------------------------------------------------------------------------

    async def results(self) -> AsyncIterator[Result]:
        """Results as they come, until the session is closed and all are read."""
        while (result := await self.next_result()) is not None:
            yield result

    async def next_result(self) -> Result | None:
        """The next result; None when the session is closed and all are read."""
        unread = self._dialogue.results.unread
        if not unread:
            self._readers += 1
            try:
                await self._dialogue.bell.until(lambda: bool(unread) or self._is_over)
            finally:
                self._readers -= 1
        if unread:
            result = unread.popleft()
            if len(unread) == _MOST_UNREAD - 1:
                self._dialogue.bell.ring()  # there is room again
            return result
        if self._failure is not None:
            raise self._failure
        return None

    async def close(self) -> None:
        """End the speech, and wait until every result has come; they can be read afterwards."""
        self._dialogue.closing = True
        self._dialogue.bell.ring()
        await self._dialogue.bell.until(lambda: self._is_over)
        if self._failure is not None:
            raise self._failure

    # --- bounds ----------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        return self._closed or self._failure is not None

    @property
    def _nobody_reads(self) -> bool:
        return len(self._dialogue.results.unread) >= _MOST_UNREAD and not self._readers

    async def _wait_for_room(self) -> None:
        await self._dialogue.bell.until(self._has_room_or_never_will)
        if self._failure is not None:
            raise self._failure
        if self._leading is None or self._closed or self._dialogue.closing:
            raise SessionClosed("The session is not open; open one with `async with`.")
        if self._nobody_reads:
            raise RateLimited(
                f"{_MOST_UNREAD} results wait to be read; read results() while you speak."
            )

    def _has_room_or_never_will(self) -> bool:
        if self._is_over or self._dialogue.closing or self._leading is None or self._nobody_reads:
            return True
        return self._has_room()

    def _has_room(self) -> bool:
        dialogue, speech = self._dialogue, self._dialogue.speech
        return (
            not (self._closed or dialogue.closing or dialogue.paused)
            and self._leading is not None
            and self._failure is None
            and len(dialogue.results.unread) < _MOST_UNREAD
            and (speech is None or speech.kept_bytes < self._keep_bytes)
            and (speech is None or speech.in_flight < self._max_in_flight)
        )

    def _speak(self) -> None:
        """Send what was just said, or let the connection's own task do it when it can."""
        if self._conversation is None or not self._conversation.speak_now():
            self._dialogue.bell.ring()

    def _chunk_bytes(self, chunk_ms: int) -> int | None:
        """Only samples can be split anywhere; the other formats stay as they are fed."""
        if self._init.audio_format is not AudioFormat.PCM16:
            return None
        samples = max(1, self._init.sample_rate * chunk_ms // 1000)
        return samples * _PCM16_BYTES_PER_SAMPLE

    # --- its connections -------------------------------------------------------------------------

    async def _lead(self) -> None:
        try:
            await self._stay_connected()
            self._closed = True
        except Exception as error:
            self._failure = error
        finally:
            self._dialogue.bell.ring()

    async def _stay_connected(self) -> None:
        """Lead the conversation over one connection after another, until it is closed."""
        lost_at = self._clock.monotonic()
        while True:
            ending = await self._one_connection()
            if ending.in_peace:
                return
            error = final_error(ending, was_open=self._resume_token is not None)
            if error is not None:
                raise error
            if self._resume_token is None:
                raise Unreachable(ending.reason)
            if self._connected_now:
                lost_at = self._clock.monotonic()
                self._backoff.reset()
                if ending.code == TOO_MUCH:
                    self._pace.was_too_fast()
            await self._wait_to_reconnect(ending, lost_at)

    async def _wait_to_reconnect(self, ending: SessionConnectionEnding, lost_at: float) -> None:
        wait_seconds = self._backoff.next_seconds(at_least_seconds=wait_asked_for_seconds(ending))
        gone_seconds = self._clock.monotonic() + wait_seconds - lost_at
        if gone_seconds > self._reconnect_seconds:
            raise Unreachable(
                f"the scheduler was lost and not found again within {self._reconnect_seconds:g} s:"
                f" {ending.reason or ending.code}"
            )
        self._tell(SessionInterrupted(ending.code, ending.reason, wait_seconds))
        await asyncio.sleep(wait_seconds)

    async def _one_connection(self) -> SessionConnectionEnding:
        self._connected_now = False
        try:
            link = await self._connect()
        except Unreachable as error:
            return SessionConnectionEnding(str(error))
        conversation = Conversation(
            link,
            self._dialogue,
            self._pace,
            self._clock,
            keep_bytes=self._keep_bytes,
            acknowledged=self._on_acknowledged,
            tell=self._tell,
        )
        init = msgspec.structs.replace(
            self._init,
            resume_token=None if self._starts_anew else self._resume_token,
            last_delivery_seq=self._dialogue.results.last_delivery_seq,
        )
        try:
            self._conversation = conversation
            return await conversation.hold(init)
        except _Forgotten as forgotten:
            self._starts_anew = True
            return SessionConnectionEnding(str(forgotten))
        finally:
            self._conversation = None
            await link.close()

    def _on_acknowledged(self, ack: SessionInitAck) -> None:
        dialogue = self._dialogue
        is_gone = self._resume_token is not None and not ack.resumed
        has_forgotten = (
            not is_gone and dialogue.speech is not None and not dialogue.speech.resume(ack)
        )
        if self._if_gone == "raise" and (has_forgotten or (is_gone and not dialogue.has_heard_all)):
            raise InvalidSession(
                f"The scheduler no longer has session {self.session_id}, so what was under way"
                " is lost; open a new one, or use if_gone='restart'."
            )
        if has_forgotten:
            raise _Forgotten("the scheduler asks again for what it had stored before")
        if is_gone:
            dialogue.restart()
        self._starts_anew = False
        self._resume_token, self.session_id = ack.resume_token, ack.session_id
        self.listen_token = ack.listen_token
        self._connected_now = True
        self._tell(SessionOpened(ack.session_id, resumed=ack.resumed, restarted=is_gone))
        dialogue.bell.ring()

    async def _hang_up(self) -> None:
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.gather(self._leading, return_exceptions=True)
            self._closed = True
            self._dialogue.bell.ring()


class _Forgotten(Exception):
    """The scheduler resumed a session of an earlier time, which this client cannot go on with."""


def _as_bytes(audio: object) -> bytes:
    """Audio as bytes of its own: a buffer may be filled anew while it waits to be sent."""
    if isinstance(audio, bytes | bytearray | memoryview):
        return bytes(audio)
    raise InvalidMessage(f"`audio` is {type(audio).__name__} {shortened(audio)}; give bytes")


_read = FROM_CLIENT.reader(SubProtocol.MSGPACK)


def _checked(number: int, given: Mapping[str, Any]) -> Utterance:
    """The utterance, checked as the scheduler will: mistakes are reported where they are made."""
    for name in ("src_lang", "tgt_lang"):
        if given[name] is not None and (fault := language_fault(name, given[name])) is not None:
            raise InvalidMessage(fault)
    if given["pipeline"] is not None and (fault := pipeline_fault(given["pipeline"])) is not None:
        raise InvalidMessage(fault)
    fields = {name: value for name, value in given.items() if value is not None}
    said = {"type": "utterance", "utterance_index": number, **fields}
    try:
        frame = msgspec.msgpack.encode(said, enc_hook=plain)
    except UnicodeEncodeError as error:
        raise unencodable(Utterance(number, **fields)) from error
    except Exception as error:  # the values are the caller's, and may raise anything
        raise InvalidMessage(unsendable_fault(fields) or str(error)) from error
    try:
        read = _read(frame)
        assert isinstance(read, Utterance)
        check_utterance(read)
    except (*NOT_PLAIN, InvalidMessage):
        with own_words():
            read = FROM_CLIENT.decode(frame, SubProtocol.MSGPACK)
            assert isinstance(read, Utterance)
            check_utterance(read)
    return read


def _nobody_watches(event: SessionEvent) -> None:
    """Events are ignored."""
