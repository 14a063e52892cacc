"""What a node is told of a job."""

from __future__ import annotations

from dragoman.ids import AttemptId, JobId
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import JobAssign, Mode, same_language


def assignment_of(
    job_id: JobId,
    spec: JobSpec,
    job_input: JobInput,
    attempt_id: AttemptId,
    deadline_ms: int,
    traceparent: str | None = None,
) -> JobAssign:
    """The message that gives an attempt of any job to a node."""
    return JobAssign(
        job_id=job_id,
        attempt_id=attempt_id,
        trace_id=spec.trace_id or job_id,
        job_class=spec.job_class,
        src_lang=spec.src_lang,
        tgt_lang=spec.tgt_lang if spec.mode is Mode.ONE_WAY else _target(spec),
        mode=spec.mode,
        pipeline=spec.pipeline,
        features=spec.features,
        padding_ms=spec.padding_ms,
        cut=spec.cut,
        deadline_ms=deadline_ms,
        lang_a=spec.lang_a,
        lang_b=spec.lang_b,
        auto_langs=spec.auto_langs,
        audio=job_input.audio,
        audio_format=spec.audio_format,
        sample_rate=spec.sample_rate,
        text=job_input.text,
        session_id=spec.session_id,
        utterance_index=spec.utterance_index,
        traceparent=traceparent,
    )


def _target(spec: JobSpec) -> str:
    """What the node translates into; of two ways, the one that the source is not."""
    if spec.mode is not Mode.TWO_WAY_AUTO or not (spec.lang_a and spec.lang_b):
        return spec.tgt_lang
    return spec.lang_a if same_language(spec.src_lang, spec.lang_b) else spec.lang_b
