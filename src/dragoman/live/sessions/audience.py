"""Those who listen to a session: each result is encoded once for all who get the same frame.

A thousand sends in one turn of the event loop would hold up every other session, so they are made
a few at a time. Each listener gets its results in order and once, whenever it came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from dragoman.errors import RateLimited
from dragoman.live.protocol import (
    MissingResult,
    SubProtocol,
    TranslationResult,
    encode,
    normal_language,
)
from dragoman.randomness import token_hash

SENDS_A_TURN = 50
"""Listeners that are sent to before other work of the event loop has its turn."""

_ENVELOPE_BYTES = 512
_RETRY_MS = 1_000
_PREFIX = "lt-"

Frame = bytes | str
Delivery = TranslationResult | MissingResult


def listen_token(secret_hash: str) -> str:
    """The token of those who listen to a session, from what proves the speaker's own token."""
    return _PREFIX + token_hash(secret_hash, "listen")


def is_listen_token(token: str) -> bool:
    """Whether a text has the form of such a token."""
    return token.startswith(_PREFIX)


class Form(NamedTuple):
    """What listeners have in common that get the same frames."""

    language: str
    """In the form in which languages are compared."""
    sub: SubProtocol
    audio: bool


class Listener(Protocol):
    """One who listens."""

    form: Form

    def send_frame(self, frame: Frame) -> bool:
        """Send what was encoded before; False when the connection is closed."""
        ...

    def admitted(self, last_delivery_seq: int, *, complete: bool) -> None:
        """Tell the listener that results after this number follow."""
        ...

    def finished(self) -> None:
        """The session is over."""
        ...

    def moved(self) -> None:
        """Another instance has the session."""
        ...


class _Kept:
    """A result, and the frames that were made of it."""

    __slots__ = ("_frames", "language", "message", "weight")

    def __init__(self, message: Delivery) -> None:
        self.message = message
        self.language = None if message.tgt_lang is None else normal_language(message.tgt_lang)
        """None: it is for the listeners of every language."""
        self.weight = _weight(message)
        self._frames: dict[tuple[SubProtocol, bool], Frame] = {}

    def is_for(self, form: Form) -> bool:
        return self.language is None or self.language == form.language

    def frame(self, form: Form) -> Frame:
        key = (form.sub, form.audio)
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = encode(_shown(self.message, audio=form.audio), form.sub)
        return found


class Audience:
    """The listeners of one session, and the results that they may still ask for."""

    def __init__(
        self,
        most: int,
        keep_messages: int,
        keep_bytes: int,
        next_seq: int,
        known: Iterable[Delivery] = (),
    ) -> None:
        """`known` are results before `next_seq`, the number that comes next, in their order."""
        self._most = most
        self._keep_messages = keep_messages
        self._keep_bytes = keep_bytes
        self.size_bytes = 0
        self._kept: deque[_Kept] = deque()
        self._kept_from = next_seq
        """The lowest number that can still be asked for."""
        self._latest = next_seq - 1
        self._groups: dict[Form, dict[Listener, int]] = {}
        """Who gets the same frames, and up to which number each was sent what was kept."""
        self._count = 0
        self._outgoing: deque[_Kept] = deque()
        self._sending: Iterator[tuple[Listener, Frame]] | None = None
        """The rest of a result that is being sent; None: nothing is."""
        for message in known:
            if not self._kept:
                self._kept_from = message.delivery_seq
            self._keep(_Kept(message))

    def __len__(self) -> int:
        return self._count

    def join(self, listener: Listener, last_delivery_seq: int | None) -> None:
        """Let a listener in: what is kept after a number comes first, then each new result."""
        if self._most and self._count >= self._most:
            raise RateLimited(
                f"The session has {self._count:,} listeners, which is "
                "limits.listeners_per_session; try again later.",
                retry_after_ms=_RETRY_MS,
            )
        form = listener.form
        self._groups.setdefault(form, {})[listener] = self._latest
        self._count += 1
        asked = self._latest if last_delivery_seq is None else last_delivery_seq
        listener.admitted(asked, complete=asked + 1 >= self._kept_from)
        for kept in self._kept:
            if kept.message.delivery_seq > asked and kept.is_for(form):
                listener.send_frame(kept.frame(form))

    def leave(self, listener: Listener) -> None:
        """A listener is gone; harmless when it never was let in."""
        group = self._groups.get(listener.form)
        if group is None or group.pop(listener, None) is None:
            return
        self._count -= 1
        if not group:
            del self._groups[listener.form]

    def deliver(self, message: Delivery) -> None:
        """Send a result to all who listen in its language, and keep it for those who come late."""
        kept = _Kept(message)
        self._keep(kept)
        if not self._groups:
            return
        self._outgoing.append(kept)
        if self._sending is None:
            self._begin_next()
            self._send_some()

    def close(self, *, moved: bool) -> None:
        """The session is over here, or everywhere: everything is sent, then the sockets close."""
        for listener, frame in self._rest():
            listener.send_frame(frame)
        self._sending = None
        for group in self._groups.values():
            for listener in list(group):
                (listener.moved if moved else listener.finished)()
        self._groups.clear()
        self._kept.clear()
        self.size_bytes = self._count = 0

    def _keep(self, kept: _Kept) -> None:
        self._latest = kept.message.delivery_seq
        self._kept.append(kept)
        self.size_bytes += kept.weight
        while len(self._kept) > self._keep_messages or self.size_bytes > self._keep_bytes:
            oldest = self._kept.popleft()
            self.size_bytes -= oldest.weight
            self._kept_from = oldest.message.delivery_seq + 1

    def _begin_next(self) -> None:
        self._sending = self._sends_of(self._outgoing.popleft()) if self._outgoing else None

    def _send_some(self) -> None:
        """Send to a few listeners; the rest have their turn after other work of the loop."""
        left = SENDS_A_TURN
        while self._sending is not None:
            for listener, frame in self._sending:
                listener.send_frame(frame)
                left -= 1
                if not left:
                    asyncio.get_running_loop().call_soon(self._send_some)
                    return
            self._begin_next()

    def _sends_of(self, kept: _Kept) -> Iterator[tuple[Listener, Frame]]:
        seq = kept.message.delivery_seq
        for form, group in list(self._groups.items()):
            if kept.is_for(form):
                frame = kept.frame(form)
                for listener, has_upto in list(group.items()):
                    # A listener that came meanwhile was sent what was kept, this one too.
                    if has_upto < seq:
                        yield listener, frame

    def _rest(self) -> Iterator[tuple[Listener, Frame]]:
        """All that is still to be sent, in order."""
        while self._sending is not None:
            yield from self._sending
            self._begin_next()


def _shown(message: Delivery, *, audio: bool) -> Delivery:
    """A result as listeners may see it: not which machine made it."""
    if isinstance(message, MissingResult):
        return message
    sound = message.tts_audio if audio else None
    return msgspec.structs.replace(message, node_id=None, tts_audio=sound)


def _weight(message: Delivery) -> int:
    if isinstance(message, MissingResult):
        return _ENVELOPE_BYTES
    texts = (message.text_asr, message.text_translated)
    # Once as it is, and once as the frame that is made of it.
    return 2 * (
        _ENVELOPE_BYTES + len(message.tts_audio or b"") + sum(len(text or "") for text in texts)
    )
