"""What a node's function is given, and what it may answer."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from dragoman.errors import DragomanError, InvalidMessage
from dragoman.ids import AttemptId, JobId
from dragoman.live.protocol import (
    Cut,
    ErrorInfo,
    JobAssign,
    JobClass,
    JobTerms,
    Mode,
    Pipeline,
    Produced,
)
from dragoman.sdk.parameters import shortened


class Channel(Protocol):
    """How a running job talks to its node."""

    @property
    def cancelled(self) -> bool: ...

    def partial(self, text: str, is_final: bool) -> None: ...


class Job(JobTerms, frozen=True, kw_only=True):
    """One piece of work: what came in, and what is wanted.

    Every field but the languages has a default, so that a function can be tried without a
    scheduler: ``await translate(Job(src_lang="en", tgt_lang="es", text="hello"))``. Between the
    services of a node, `text` is what the last one made of it.
    """

    job_id: JobId = JobId("")
    attempt_id: AttemptId = AttemptId("")
    trace_id: str = ""
    job_class: JobClass = JobClass.LIVE
    mode: Mode = Mode.ONE_WAY
    pipeline: Pipeline = Pipeline()
    """The services that are wanted."""
    features: tuple[str, ...] = ()
    padding_ms: int = 0
    """Silence to add after the audio, so that the last word is not clipped."""
    cut: Cut = Cut.NONE
    deadline_ms: int = 60_000
    """How much time was left when the job was assigned."""
    channel: Channel | None = None
    """Set by the node that runs the job."""

    @property
    def cancelled(self) -> bool:
        """Whether the job is no longer wanted.

        An async function need not look: it is cancelled. A plain one cannot be, and a long one
        should look now and then.
        """
        return self.channel is not None and self.channel.cancelled

    def partial(self, text: str, is_final: bool = False) -> None:
        """Show the speaker what has been recognised so far; may be called from any thread."""
        if self.channel is not None:
            self.channel.partial(text, is_final)


def job_from(assign: JobAssign, channel: Channel) -> Job:
    """The job as the node's function sees it."""
    return Job(channel=channel, **msgspec.structs.asdict(assign))


class Answer(Produced, frozen=True, kw_only=True):
    """The result of a job. Fill in what there is; missing timings are measured."""


class JobFailed(DragomanError):
    """Raised by a node's function when it cannot do a job.

    With ``retryable=False`` no other node is asked, because the job itself is at fault.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = True,
        details: dict[str, Any] | None = None,
    ) -> None:
        given: object = code
        if not isinstance(given, str) or not given:
            raise InvalidMessage(
                f'`code` of a JobFailed is {shortened(given)}; give a word, as in "TOO_LOUD"'
            )
        words = str(message or "no message was given")
        super().__init__(words, details=details)
        self.error = ErrorInfo(str.__str__(code), words, retryable=bool(retryable), details=details)


class WrongAnswer(DragomanError):
    """Raised for a node's function that returned something other than an Answer that fits."""

    def __init__(self, message: str, *, fault: str) -> None:
        super().__init__(message)
        self.fault = fault
        """What is wrong, the same for every job that it is wrong with."""


class ModelMissing(DragomanError):
    """Raised by a node's function when one of its models cannot be used for a while.

    The scheduler gives the job to another node, and no job that needs the model to this one,
    until a little later.
    """

    code = "MODEL_NOT_AVAILABLE"
    status = 503

    def __init__(self, service_id: str, reason: str, *, version: str | None = None) -> None:
        super().__init__(f"{service_id} cannot be used: {reason}")
        self.service_id = service_id
        self.reason = reason
        self.version = version
