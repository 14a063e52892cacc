"""What a conversation knows, whichever connection it is led over."""

from __future__ import annotations

from dragoman.errors import InvalidMessage
from dragoman.sdk.session.bell import Bell
from dragoman.sdk.session.chunks import Chunks
from dragoman.sdk.session.results import SessionResults
from dragoman.sdk.session.speech import ClientSpeech
from dragoman.sdk.session.utterances import Utterances


class Dialogue:
    """The state of one conversation; the bell rings when it changes."""

    def __init__(self, targets: int) -> None:
        self.bell = Bell()
        self.results = SessionResults()
        self.speech: ClientSpeech | None = None
        """How the caller speaks, once they have said the first thing."""
        self.paused = False
        """The scheduler has enough for now."""
        self.closing = False
        """The caller has nothing more to say."""
        self._targets = targets

    @property
    def may_close(self) -> bool:
        """Whether the scheduler may be told that this is all.

        Results of whole utterances are waited for first. A connection that is lost between the
        last result and the end of the session then costs nothing.
        """
        speech = self.speech
        return self.closing and (speech is None or (speech.all_sent and not speech.in_flight))

    @property
    def has_heard_all(self) -> bool:
        """Whether a session that is over has nothing left to give."""
        in_chunks = isinstance(self.speech, Chunks)
        return self.may_close and not in_chunks

    def in_chunks(self) -> Chunks:
        """Speak in chunks, from the first thing said to the last."""
        if self.speech is None:
            self.speech = Chunks()
        if not isinstance(self.speech, Chunks):
            raise InvalidMessage(
                "This session says whole utterances; open another one to feed audio in chunks."
            )
        return self.speech

    def in_utterances(self) -> Utterances:
        """Speak in whole utterances, from the first thing said to the last."""
        if self.speech is None:
            self.speech = Utterances(self._targets)
        if not isinstance(self.speech, Utterances):
            raise InvalidMessage(
                "This session feeds audio in chunks; open another one to say whole utterances."
            )
        return self.speech

    def restart(self) -> None:
        """Another session goes on with what can be said again."""
        self.results.restart()
        if self.speech is not None:
            self.speech.restart()
