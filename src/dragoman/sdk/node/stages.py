"""One function per service, put together to a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.clock import Clock
from dragoman.errors import InvalidCapabilitySchema
from dragoman.live.protocol import STAGES, ServiceType, Timings, Usage
from dragoman.sdk.node.job import Answer, Job, ModelMissing
from dragoman.sdk.node.work import Work, WorkFunction, as_work

_TIMED = frozenset(kind for kind in ServiceType if f"{kind}_ms" in Timings.__struct_fields__)


def pipeline_of(
    functions: Mapping[str, WorkFunction], clock: Clock, *, threads: bool = True
) -> Work:
    """A function that leads a job through the services its pipeline asks for, and times each.

    Each function is given the job as the services before it left it: ``text`` is what was
    recognised, then what was translated; ``audio`` is the input, and for tone what was spoken. It
    answers with what it adds.
    """
    unknown = set(functions) - set(ServiceType)
    if unknown:
        raise InvalidCapabilitySchema(
            f"`services` names {', '.join(sorted(unknown))}, which is not a service; there are"
            f" {', '.join(ServiceType)}"
        )
    stages = {
        ServiceType(name): as_work(function, f'services["{name}"]', threads=threads)
        for name, function in functions.items()
    }

    async def work(job: Job) -> Answer:
        answer = Answer()
        times_ms: dict[str, float] = {}
        for flag, kind in STAGES.items():
            if not getattr(job.pipeline, flag):
                continue
            if kind not in stages:
                raise ModelMissing(kind.value, "the node has no function for it")
            started_at = clock.monotonic()
            added = await stages[kind](job)
            if kind in _TIMED:
                times_ms[f"{kind}_ms"] = (clock.monotonic() - started_at) * 1000
            answer = _merge(answer, added)
            job = _onward(job, added, kind)
        return msgspec.structs.replace(answer, timings=Timings(**times_ms))

    return work


def _merge(answer: Answer, added: Answer) -> Answer:
    """What is known so far, with what a service added to it; usage adds up."""
    fields: dict[str, Any] = {
        name: value
        for name, value in msgspec.structs.asdict(added).items()
        if value is not None and name != "timings"
    }
    if answer.usage is not None and added.usage is not None:
        fields["usage"] = Usage(
            answer.usage.tokens_in + added.usage.tokens_in,
            answer.usage.tokens_out + added.usage.tokens_out,
            answer.usage.audio_seconds + added.usage.audio_seconds,
            answer.usage.characters + added.usage.characters,
        )
    if answer.extra is not None and added.extra is not None:
        fields["extra"] = {**answer.extra, **added.extra}
    return msgspec.structs.replace(answer, **fields)


def _onward(job: Job, added: Answer, kind: ServiceType) -> Job:
    """The job as the next service should see it."""
    changed: dict[str, Any] = {}
    text = added.text_translated if kind is ServiceType.NMT else added.text_asr
    if text is not None:
        changed["text"] = text
    if added.src_lang_detected is not None:
        changed["src_lang"] = added.src_lang_detected
    if added.tgt_lang is not None:
        changed["tgt_lang"] = added.tgt_lang
    if kind is ServiceType.TTS and added.tts_audio is not None:
        changed["audio"] = added.tts_audio
    return msgspec.structs.replace(job, **changed) if changed else job
