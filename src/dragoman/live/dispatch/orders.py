"""What an entry into the scheduler asks for: sessions, `POST /jobs` and experiments alike."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

import msgspec
from opentelemetry.trace import SpanContext

from dragoman.ids import JobId, RequestId, SessionId
from dragoman.live.ledger import JobInput, JobRecord, JobSpec
from dragoman.live.protocol import JobPartial, Mode, normal_language
from dragoman.live.snapshot import Pair

AUTO_TARGET = "*"
"""The target a two_way_auto job is claimed under: one job, whichever way it goes."""

_encoder = msgspec.msgpack.Encoder()


class Progress(StrEnum):
    """Steps of a job that a client may watch."""

    DISPATCHED = "dispatched"
    ACCEPTED = "accepted"
    RUNNING = "running"
    FAILOVER = "failover"


OnEnd = Callable[[JobRecord], None]
OnPartial = Callable[[JobPartial], None]
OnProgress = Callable[[Progress, JobId], None]


class JobOrder(msgspec.Struct, frozen=True):
    """A job that a caller asks for."""

    spec: JobSpec
    input: JobInput
    may_wait: bool = False
    """Wait in line when no slot is free. Batch work always does."""
    began: float | None = None
    """When its input began, in monotonic seconds: a sentence that goes on stays with its node,
    however long its rest is."""
    on_end: OnEnd | None = None
    """Called once, when the job has its end."""
    on_partial: OnPartial | None = None
    """Called with what the node has recognised so far."""
    on_progress: OnProgress | None = None
    """Called when the job takes a step."""
    parent_span: SpanContext | None = None
    """The span the job is a part of, for tracing."""


def pairs_of(spec: JobSpec) -> tuple[Pair, ...]:
    """The language pairs whose pools a node must be in, as they were written."""
    if spec.mode is Mode.TWO_WAY_AUTO and spec.lang_a and spec.lang_b:
        return (spec.lang_a, spec.lang_b), (spec.lang_b, spec.lang_a)
    if spec.auto_langs:
        return tuple((source, spec.tgt_lang) for source in spec.auto_langs)
    return ((spec.src_lang, spec.tgt_lang),)


def utterance_request_id(session_id: SessionId, utterance_index: int) -> RequestId:
    """The request_id of an utterance whose client gave none."""
    return RequestId(f"{session_id}/{utterance_index}")


def body_hash(spec: JobSpec, job_input: JobInput) -> bytes:
    """What must be the same for a repeated request_id to be the same request."""
    # A session sends an utterance under this name once, and always with the same input, unless
    # another instance cuts its audio anew; the length tells. Hashing seconds of audio would cost
    # about half as much as a whole job of text.
    if (
        spec.session_id is not None
        and spec.utterance_index is not None
        and spec.request_id == utterance_request_id(spec.session_id, spec.utterance_index)
    ):
        return named_hash(demand_hash(spec), job_input)
    return blake2b(_encoder.encode((*_demand(spec), job_input)), digest_size=16).digest()


def demand_hash(spec: JobSpec) -> bytes:
    """What a job asks for, apart from its input."""
    return _hash_of(_demand(spec))


def named_hash(demand: bytes, job_input: JobInput) -> bytes:
    """The body of an utterance that its session named."""
    audio = job_input.audio
    return demand if audio is None else demand + len(audio).to_bytes(8, "big")


def _demand(spec: JobSpec) -> tuple[object, ...]:
    return (
        normal_language(spec.src_lang),
        spec.pipeline,
        spec.features,
        spec.job_class,
        spec.mode,
        normal_language(spec.lang_a) if spec.lang_a else None,
        normal_language(spec.lang_b) if spec.lang_b else None,
        tuple(map(normal_language, spec.auto_langs)),
    )


@lru_cache(maxsize=1024)
def _hash_of(demand: tuple[object, ...]) -> bytes:
    """Most utterances ask for the same as the one before."""
    return blake2b(_encoder.encode(demand), digest_size=16).digest()
