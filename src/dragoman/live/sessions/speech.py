"""From an utterance to what its jobs ask for: worked out once for each way of asking."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.errors import DragomanError
from dragoman.ids import RequestId, SessionId, TenantId
from dragoman.live.dispatch import NOT_CUT, demand_hash
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    Cut,
    ErrorInfo,
    SessionInit,
    Utterance,
    check_in_session,
    check_utterance,
)
from dragoman.live.sessions.orders import (
    WholeUtterance,
    job_spec,
    targets_for,
    targets_of,
    whole_utterance,
)
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.snapshot import JobRequirement

_REMEMBERED = 64
"""Ways of asking that a session remembers; each utterance may ask in one of its own."""

RequirementOf = Callable[[JobSpec], JobRequirement]


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What an utterance asks for, for one target."""

    target: str
    """The order that its result belongs to."""
    target_key: str
    """The target as requests are bound by it."""
    spec: JobSpec
    """Complete but for what differs from one utterance to the next."""
    requirement: JobRequirement
    demand_hash: bytes


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What an utterance asks for, for all its targets."""

    asks: tuple[Ask, ...]
    targets: tuple[str, ...]


class Speech(msgspec.Struct, frozen=True, gc=False):
    """One utterance, however it came."""

    index: int
    targets: tuple[str, ...]
    """The orders that its ends belong to."""
    asks: tuple[Ask, ...]
    """Nothing, of one that is refused."""
    input: JobInput
    size_bytes: int
    """What it takes in memory while it is in flight."""
    cut: Cut = NOT_CUT
    request_id: RequestId | None = None
    began: float | None = None
    """When its first audio came, in monotonic seconds."""
    speech_ended: float | None = None
    """When its last speech came."""
    next_chunk_seq: int = 0
    """The first chunk after it."""
    half_sample: bytes = b""
    """The part of a sample that the chunks up to there end with, and the next one completes."""
    refusal: ErrorInfo | None = None
    """Why no job is made of it."""


class Asks:
    """What the utterances of a session ask for. An utterance that asks as one before is not
    looked into again."""

    def __init__(
        self,
        session_id: SessionId,
        tenant: TenantId,
        init: SessionInit,
        rules: SessionRules,
        requirement: RequirementOf,
    ) -> None:
        self._session_id = session_id
        self._tenant = tenant
        self._init = init
        self._rules = rules
        self._requirement = requirement
        self._known: dict[tuple[object, ...], Asked] = {}
        self._of_audio: Asked | None = None
        self.get = self._known.get
        """What is asked for in a way that is known; None: `work_out` looks into it."""

    def work_out(self, message: Utterance, way: tuple[object, ...]) -> Asked:
        """What the utterance asks for; raises InvalidMessage when that makes no sense.

        way is everything by which two utterances of a session may ask for different things.
        """
        check_utterance(message)
        check_in_session(self._init, message)
        # Its number and its name are not part of the way it asks.
        whole = msgspec.structs.replace(
            whole_utterance(self._init, message), index=0, request_id=None
        )
        found = self._ask(whole)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[way] = found
        return found

    def of_audio(self) -> Asked:
        """What every utterance asks for that is cut out of audio."""
        found = self._of_audio
        if found is None:
            whole = WholeUtterance(0, targets_of(self._init), JobInput(audio=b""))
            found = self._of_audio = self._ask(whole)
        return found

    def targets_of(self, message: Utterance) -> tuple[str, ...]:
        """The orders that an utterance belongs to, whether or not it makes sense."""
        return targets_for(self._init, message)

    def _ask(self, whole: WholeUtterance) -> Asked:
        asks = []
        for target in whole.targets:
            spec = job_spec(self._session_id, self._tenant, self._init, self._rules, whole, target)
            requirement = self._requirement(spec)
            asks.append(Ask(target, spec.target_key, spec, requirement, demand_hash(spec)))
        return Asked(tuple(asks), whole.targets)


def refusal_info(error: DragomanError) -> ErrorInfo:
    return ErrorInfo(error.code, error.message, details=error.details or None)
