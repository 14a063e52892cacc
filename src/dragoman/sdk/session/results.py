"""The results of a session: each once, in order, with a reason where there is none."""

from __future__ import annotations

from collections import deque

import msgspec
from cachetools import FIFOCache

from dragoman.ids import JobId
from dragoman.live.protocol import Error, MissingResult, TranslationResult
from dragoman.sdk.session.speech import ClientSpeech

_MOST_ERRORS_KEPT = 1024
"""Errors that wait for the `missing_result` they explain; one that is lost explains nothing."""


class Missing(msgspec.Struct, frozen=True):
    """An utterance has no result in one language, and will have none."""

    utterance_index: int
    reason: str
    """An error code, or gap_timeout."""
    tgt_lang: str | None = None
    job_id: JobId | None = None
    error: Error | None = None
    """What the scheduler said about it; None when that was lost with a connection."""


Result = TranslationResult | Missing


class SessionResults:
    """The results of a conversation, from their arrival until they are read."""

    def __init__(self) -> None:
        self.last_delivery_seq = 0
        """Everything up to it has arrived; the scheduler is told so that it can forget."""
        self.unacknowledged = 0
        self.unread: deque[Result] = deque()
        """What came and was not read yet."""
        self._errors: FIFOCache[int, list[Error]] = FIFOCache(_MOST_ERRORS_KEPT)

    def explain(self, error: Error) -> None:
        """Keep an error for the missing result that follows."""
        if error.utterance_index is None:
            return
        self._errors.setdefault(error.utterance_index, []).append(error)

    def arrived(self, message: TranslationResult | MissingResult, speech: ClientSpeech) -> None:
        """Take an end, unless it came before: after a lost connection some come again."""
        # Counted also when it came before: the scheduler does not know yet that it did.
        self.unacknowledged += 1
        if message.delivery_seq <= self.last_delivery_seq:
            return
        self.last_delivery_seq = message.delivery_seq
        result = self._as_result(message, speech.index_of(message.utterance_index))
        if speech.ended(result.utterance_index, result.tgt_lang):
            self.unread.append(result)

    def restart(self) -> None:
        """A new session numbers its deliveries from 1, and knows no old errors."""
        self.last_delivery_seq = self.unacknowledged = 0
        self._errors.clear()

    def _as_result(self, message: TranslationResult | MissingResult, index: int) -> Result:
        if isinstance(message, TranslationResult):
            if message.utterance_index == index:
                return message
            return msgspec.structs.replace(message, utterance_index=index)
        error = self._take_error(message)
        return Missing(index, message.reason, message.tgt_lang, message.job_id, error)

    def _take_error(self, missing: MissingResult) -> Error | None:
        errors = self._errors.get(missing.utterance_index, [])
        found = next((error for error in errors if error.code == missing.reason), None)
        if found is not None:
            errors.remove(found)
            if not errors:
                del self._errors[missing.utterance_index]
        return found
