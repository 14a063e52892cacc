"""What was said last in a session, for the nodes that hear what comes next.

Consecutive utterances may go to different nodes, and to other instances. The session remembers the
last few with their results, for each target, and tells them with each job.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

import msgspec

from dragoman.live.protocol import (
    AUTO,
    JobResult,
    PastUtterance,
    SessionInit,
    TranslationResult,
    same_language,
)

_MOST_TARGETS = 32
"""Targets that are remembered; utterances may name targets of their own without end."""

_WRITE_SECONDS = 0.25
"""How soon the record has what was said last."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, list[PastUtterance]]).decode


class PastRules(msgspec.Struct, frozen=True):
    """How much of the past a job carries; from the settings."""

    utterances: int
    """0: none."""
    max_bytes: int
    tenants_without: frozenset[str]

    def hold_for(self, tenant: str) -> bool:
        """Whether the sessions of a tenant remember anything."""
        return self.utterances > 0 and tenant not in self.tenants_without


class Past:
    """What was said last for one target, the oldest first, and how large each is."""

    __slots__ = ("sizes_bytes", "total_bytes", "utterances")

    def __init__(self) -> None:
        self.utterances: deque[PastUtterance] = deque()
        self.sizes_bytes: deque[int] = deque()
        self.total_bytes = 0


class PastUtterances:
    """The last utterances of one session, by target."""

    def __init__(
        self, init: SessionInit, rules: PastRules, store: Callable[[bytes], None] | None
    ) -> None:
        """store has the session's record told; None: there is no record."""
        self._init = init
        self._store = store
        self._most = rules.utterances
        self._max_bytes = rules.max_bytes
        self.texts: dict[int, str] = {}
        """Texts of utterances in flight: a node that was sent a text does not send it back."""
        self.by_target: OrderedDict[str, Past] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        """Set while the record lacks something that was heard."""

    def heard(
        self, target: str, src_lang: str, message: TranslationResult, output: JobResult
    ) -> None:
        """An utterance of a language, which may be open, has its result for a target."""
        text = output.text_asr or self.texts.get(message.utterance_index)
        translated = output.text_translated
        if not text or not translated:
            return
        past = self.by_target.get(target)
        if past is None:
            past = self._begin(target)
        if output.src_lang_detected:
            src_lang = output.src_lang_detected
        elif self._init.lang_a is not None or src_lang == AUTO:
            src_lang = self._source(message)
        size_bytes = len(text.encode()) + len(translated.encode())
        past.utterances.append(PastUtterance(text, translated, src_lang, message.tgt_lang))
        past.sizes_bytes.append(size_bytes)
        past.total_bytes += size_bytes
        while past.total_bytes > self._max_bytes or len(past.utterances) > self._most:
            past.utterances.popleft()
            past.total_bytes -= past.sizes_bytes.popleft()
        if self._store is not None and self._timer is None:
            # Results in quick succession go together.
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self.store_now)

    def store_now(self) -> None:
        """Have the record told what it lacks, if it lacks something."""
        if self._timer is not None and self._store is not None:
            self.stop()
            self._store(self.written())

    def stop(self) -> None:
        """Tell the record nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, target: str) -> Past:
        while len(self.by_target) >= _MOST_TARGETS:
            self.by_target.popitem(last=False)
        past = self.by_target[target] = Past()
        return past

    def written(self) -> bytes:
        """All of it, as a record keeps it; empty where there is nothing."""
        kept = {target: list(past.utterances) for target, past in self.by_target.items()}
        found = {target: utterances for target, utterances in kept.items() if utterances}
        return _encode(found) if found else b""

    def read(self, written: bytes) -> None:
        """Go on from what an earlier owner of the session wrote."""
        if not written:
            return
        try:
            found = _decode(written)
        except msgspec.DecodeError:
            return  # Another version wrote it: the session begins without a past.
        for target, utterances in found.items():
            past = self._begin(target)
            for one in utterances[-self._most :]:
                size_bytes = len(one.text_asr.encode()) + len(one.text_translated.encode())
                past.utterances.append(one)
                past.sizes_bytes.append(size_bytes)
                past.total_bytes += size_bytes

    def _source(self, message: TranslationResult) -> str:
        """The language that was spoken, where the node does not say; empty: it is not known."""
        init = self._init
        if init.lang_a is None or init.lang_b is None:
            return ""
        return init.lang_a if same_language(message.tgt_lang, init.lang_b) else init.lang_b
