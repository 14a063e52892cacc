"""What nodes and the scheduler say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, SessionId
from dragoman.live.protocol.fields import (
    LONGEST_LIST,
    AttemptIdField,
    FreeForm,
    JobIdField,
    Label,
    Name,
    NodeIdField,
    Number,
    Slots,
    Token,
)
from dragoman.live.protocol.languages import Language
from dragoman.live.protocol.message import Error, Message
from dragoman.live.protocol.parts import (
    Capability,
    ErrorInfo,
    GlossaryTerm,
    Hardware,
    Languages,
    PastUtterance,
    Pipeline,
    ResourceUsage,
    RunningJob,
    Service,
    Timings,
    Usage,
)
from dragoman.live.protocol.vocabulary import (
    AudioFormat,
    Command,
    Cut,
    JobClass,
    Mode,
    NodeHealth,
)

SCHEMA_VERSION = "2.0"
"""The form of a registration; a node that speaks another one is refused."""

Services = Annotated[tuple[Service, ...], Meta(max_length=256)]
Capabilities = Annotated[tuple[Capability, ...], Meta(max_length=16)]
RunningJobs = Annotated[tuple[RunningJob, ...], Meta(max_length=LONGEST_LIST)]

# --- node to scheduler --------------------------------------------------------------------------


class NodeRegister(Message, frozen=True):
    """A node says what it is and what it can do; its first message."""

    version: Label
    schema_version: Label
    """``2.0``."""
    platform: Label
    hardware: Hardware
    services: Services
    languages: Languages
    node_id: NodeIdField | None = None
    """Chosen by the scheduler when it is left out."""
    registration_token: Token | None = None
    """From an earlier acknowledgement; shows that the node_id is this node's own."""
    capability_by_type: Capabilities | None = None
    """When it is left out: a type is ready when a service of it runs."""
    features: Annotated[tuple[Label, ...], Meta(max_length=64)] = ()
    """Names the scheduler does not know are ignored."""
    max_concurrent_jobs: Slots | None = None
    """When it is left out: the scheduler's setting."""
    accept_public_jobs: bool = True
    """False: only jobs that name the node and share its key's tenant."""
    running: RunningJobs = ()
    """What the node is still working on, from an earlier connection."""


class NodeHeartbeat(Message, frozen=True):
    """A node says that it lives, how busy it is, and what has changed."""

    resource_usage: ResourceUsage
    running: RunningJobs
    services: Services | None = None
    capability_by_type: Capabilities | None = None
    languages: Languages | None = None
    max_concurrent_jobs: Slots | None = None


class JobAck(Message, frozen=True):
    """A node has taken a job; its run time counts from here."""

    job_id: JobIdField
    attempt_id: AttemptIdField


class JobStarted(Message, frozen=True):
    """A node has begun to work on a job."""

    job_id: JobIdField
    attempt_id: AttemptIdField


class JobPartial(Message, frozen=True):
    """What a node has recognised so far."""

    job_id: JobIdField
    attempt_id: AttemptIdField
    text: str
    is_final: bool


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt brought back; the answer of a function in the SDK has these fields too."""

    text_asr: str | None = None
    """What was said."""
    text_translated: str | None = None
    src_lang_detected: Label | None = None
    """For people to read: no result is refused because of it."""
    tgt_lang: Language | None = None
    """Which way a two_way_auto job went."""
    tts_audio: bytes | None = None
    tts_format: Label | None = None
    timings: Timings | None = None
    usage: Usage | None = None
    quality_score: Number | None = None
    extra: FreeForm | None = None
    """Passed on to the client as it is: whatever JSON can hold."""


class JobResult(Produced, Message, frozen=True, omit_defaults=True, gc=False):
    """An attempt is over, well or not."""

    job_id: JobIdField
    attempt_id: AttemptIdField
    success: bool
    error: ErrorInfo | None = None


class ModelNotAvailable(Message, frozen=True):
    """A service of the node cannot be used for a while."""

    service_id: Name
    reason: str
    version: Label | None = None
    job_id: JobIdField | None = None
    attempt_id: AttemptIdField | None = None
    """With it, the message also ends that attempt."""


class NodeDrain(Message, frozen=True):
    """A node wants no more jobs; those it runs are finished."""

    reason: str | None = None


class NodeError(Message, frozen=True):
    """Something is wrong with the node; counts as one bad heartbeat and touches no job."""

    code: Label
    message: str
    details: FreeForm | None = None


# --- scheduler to node --------------------------------------------------------------------------


class NodeRegisterAck(Message, frozen=True):
    """The node is known; its first heartbeat is due at once."""

    node_id: NodeId
    registration_token: str
    instance_id: InstanceId
    status: NodeHealth
    heartbeat_interval_ms: int
    cell: int
    pools: int
    """How many language pairs the node serves."""
    cancel: tuple[RunningJob, ...]
    """Reported as running, but no longer wanted."""
    max_frame_bytes: int = 0
    """The largest frame that the scheduler reads; a node sends no larger one. 0: not told."""


class NodeStatus(Message, frozen=True):
    """The node's health has changed."""

    status: NodeHealth
    reason: str | None = None


class JobTerms(msgspec.Struct, frozen=True):
    """What a node is told of a job; the job that the SDK gives to a function has these fields too.

    A field that may be left out is added here alone, with its default.
    """

    job_id: JobId
    attempt_id: AttemptId
    """Opaque: echo it."""
    trace_id: str
    job_class: JobClass = msgspec.field(name="class")
    src_lang: str
    """The language that comes in, or ``auto``."""
    tgt_lang: str
    mode: Mode
    pipeline: Pipeline
    features: tuple[str, ...]
    padding_ms: int
    """Silence to add after the audio, so that the last word is not clipped."""
    cut: Cut
    deadline_ms: int
    """Time left."""
    lang_a: str | None = None
    lang_b: str | None = None
    """In two_way_auto, what is said in one of lang_a and lang_b is wanted in the other."""
    auto_langs: tuple[str, ...] = ()
    audio: bytes | None = None
    audio_format: AudioFormat | None = None
    sample_rate: int | None = None
    text: str | None = None
    session_id: SessionId | None = None
    utterance_index: int | None = None
    services: Mapping[str, str] = {}
    """The services that the job asks for: for each stage ``service_id`` or
    ``service_id@version``."""
    context: tuple[PastUtterance, ...] = ()
    """What was said last in the session, the oldest first."""
    glossary: tuple[GlossaryTerm, ...] = ()
    """The tenant's words for these languages."""
    traceparent: str | None = None
    """The job's span, as a W3C header; there while the scheduler traces."""


class JobAssign(JobTerms, Message, frozen=True, omit_defaults=True, gc=False):
    """A job for the node; it holds one of the node's slots from now on."""


class JobCancel(Message, frozen=True):
    """The attempt is no longer wanted; answered by a job_result with JOB_CANCELLED."""

    job_id: JobId
    attempt_id: AttemptId
    reason: str


class NodeControl(Message, frozen=True):
    """A command for the node itself."""

    command: Command
    reason: str | None = None


NodeToScheduler = (
    NodeRegister
    | NodeHeartbeat
    | JobAck
    | JobStarted
    | JobPartial
    | JobResult
    | ModelNotAvailable
    | NodeDrain
    | NodeError
)
SchedulerToNode = NodeRegisterAck | NodeStatus | JobAssign | JobCancel | NodeControl | Error
