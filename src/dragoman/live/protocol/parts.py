"""The pieces that messages are made of."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from dragoman.live.protocol.fields import (
    Amount,
    AttemptIdField,
    Count,
    FreeForm,
    JobIdField,
    Label,
    Name,
    Percent,
)
from dragoman.live.protocol.languages import LanguageList
from dragoman.live.protocol.vocabulary import Device, ServiceStatus, ServiceType


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A piece of a message; a field that has its default is not sent.

    Messages are trees and are never changed, so the garbage collector need not look at them.
    """


class Gpu(Part, frozen=True):
    """A graphics processor of a node."""

    name: Label
    memory_gb: Amount


class Hardware(Part, frozen=True):
    """What a node runs on."""

    cpu_cores: Count
    memory_gb: Amount
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=64)] = ()


class Service(Part, frozen=True):
    """A model that a node has loaded, or could load."""

    service_id: Name
    type: ServiceType
    device: Device
    status: ServiceStatus
    version: Label | None = None
    model_id: Label | None = None


class Capability(Part, frozen=True):
    """Whether a node can do one kind of work just now."""

    type: ServiceType
    ready: bool
    reason: str | None = None


class Languages(Part, frozen=True, omit_defaults=False):
    """The languages each stage of a node knows; a stage that is left out knows none."""

    asr_langs: LanguageList = ()
    semantic_langs: LanguageList = ()
    nmt_langs: LanguageList = ()
    tts_langs: LanguageList = ()

    @property
    def all_tags(self) -> frozenset[str]:
        """Every language that any stage knows."""
        return frozenset(self.asr_langs + self.semantic_langs + self.nmt_langs + self.tts_langs)


class ResourceUsage(Part, frozen=True):
    """How busy a node's machine is."""

    cpu_percent: Percent
    mem_percent: Percent
    gpu_percent: Percent | None = None
    gpu_mem_percent: Percent | None = None


class RunningJob(Part, frozen=True):
    """An attempt of a job, as the node that runs it knows it."""

    job_id: JobIdField
    attempt_id: AttemptIdField


class Pipeline(Part, frozen=True):
    """The stages that a job goes through.

    A client sets the stages that it wants or does not want. A stage that it leaves out has the
    default for the input and the languages. A `job_assign` names every stage.
    """

    use_asr: bool | None = None
    use_semantic: bool | None = None
    use_nmt: bool | None = None
    use_tts: bool | None = None
    use_tone: bool | None = None


class GlossaryTerm(Part, frozen=True):
    """A word of the job's tenant: one to hear, and perhaps how it is translated."""

    term: str
    translation: str | None = None
    """What it must be in the target language; null: only listen for it."""


class PastUtterance(Part, frozen=True):
    """What was said before in the same session, and how it was translated."""

    text_asr: str
    text_translated: str
    src_lang: str
    tgt_lang: str


class Timings(Part, frozen=True):
    """How long each stage took, as the node measured it."""

    asr_ms: Amount | None = None
    semantic_ms: Amount | None = None
    nmt_ms: Amount | None = None
    tts_ms: Amount | None = None
    total_ms: Amount | None = None


class Usage(Part, frozen=True, omit_defaults=False):
    """What a job used."""

    tokens_in: Count = 0
    tokens_out: Count = 0
    audio_seconds: Amount = 0.0
    """Seconds of speech that were recognised."""
    characters: Count = 0
    """Characters of text that were translated."""


class Scheduling(Part, frozen=True):
    """Where the time of an utterance went, as the scheduler saw it."""

    queued_ms: float
    """Waiting for a slot."""
    dispatch_ms: float
    """From the decision to the node's acknowledgement."""
    node_ms: float
    """From the acknowledgement to the result."""
    total_ms: float
    """From the end of the input to the delivery."""
    attempts: int
    speech_end_to_result_ms: float | None = None
    """From the last speech of an utterance to its delivery, where that is known."""
    speech_end_to_text_ms: float | None = None
    """To its final recognised text."""
    speech_end_to_translation_ms: float | None = None
    """To its first translated text."""
    speech_end_to_audio_ms: float | None = None
    """To its first translated audio."""


class ErrorInfo(Part, frozen=True):
    """Why a job or an attempt failed."""

    code: Label
    message: str
    retryable: bool = True
    """Whether another node may succeed where this one failed."""
    details: FreeForm | None = None
