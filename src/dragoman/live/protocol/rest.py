"""The bodies and answers of the HTTP API that concern jobs, nodes and pools.

Answers name every field, null where there is nothing to say. Times are RFC 3339, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from dragoman.ids import (
    AttemptId,
    InstanceId,
    JobId,
    NodeId,
    RequestId,
    SessionId,
    TenantId,
)
from dragoman.live.protocol.client_messages import FeatureNames
from dragoman.live.protocol.fields import (
    FreeForm,
    NodeIdField,
    RequestIdField,
    SampleRate,
    SessionIdField,
    TenantIdField,
)
from dragoman.live.protocol.languages import Language, SourceLanguage, normal_source
from dragoman.live.protocol.parts import (
    ErrorInfo,
    Languages,
    Part,
    Pipeline,
    Scheduling,
    Service,
    Timings,
    Usage,
)
from dragoman.live.protocol.services import ChosenServices
from dragoman.live.protocol.vocabulary import (
    AttemptState,
    AudioFormat,
    ExclusionReason,
    JobClass,
    JobState,
    NodeHealth,
    Outcome,
    PoolKind,
    Resource,
    ResultAudio,
    SessionState,
)

T = TypeVar("T")

MAX_WAIT_MS = 3_600_000


def utc_time(at_ms: int) -> str:
    """A time as the API writes it: ``2026-01-31T12:00:00.000Z``."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RequestedPipeline(Pipeline, frozen=True, forbid_unknown_fields=True):
    """The pipeline of ``POST /api/v1/jobs``, where unknown fields are refused."""


class JobRequest(Part, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/jobs``.

    Unknown fields are refused: a misspelt one would silently be a job that was not asked for.
    """

    src_lang: SourceLanguage
    tgt_lang: Language
    text: str | None = None
    """Either this or audio."""
    audio: bytes | None = None
    audio_format: AudioFormat = AudioFormat.PCM16
    sample_rate: SampleRate = 16_000
    request_id: RequestIdField | None = None
    """The same id again, while the job is bound to it, gets the same job."""
    pipeline: RequestedPipeline | None = None
    features: FeatureNames = ()
    services: ChosenServices | None = None
    """For each stage ``service_id`` or ``service_id@version``: only nodes that run it are asked."""
    job_class: JobClass = msgspec.field(name="class", default=JobClass.LIVE)
    preferred_node_id: NodeIdField | None = None
    exclude_node_id: NodeIdField | None = None
    session_id: SessionIdField | None = None
    """Used for spread, affinity and the choice of a shard only."""
    tenant_id: TenantIdField | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] | None = None
    """How long to wait for a slot and for the end of the job."""
    result_audio: ResultAudio = ResultAudio.INCLUDE
    """``omit`` leaves tts_audio out of the answer to this request; the job keeps it."""

    def __post_init__(self) -> None:
        normal_source(self, self.src_lang)


class View(msgspec.Struct, frozen=True, gc=False):
    """A piece of an answer, every field of it named."""


class ListPage(View, Generic[T], frozen=True):
    """One page of a list; ``next`` is the cursor of the page after it."""

    items: list[T]
    next: str | None = None


class JobOutput(View, frozen=True):
    """What a job that succeeded brought back."""

    text_asr: str | None = None
    text_translated: str | None = None
    src_lang_detected: str | None = None
    tgt_lang: str | None = None
    tts_audio: bytes | None = None
    tts_format: str | None = None
    timings: Timings | None = None
    usage: Usage | None = None
    quality_score: float | None = None
    extra: FreeForm | None = None


class AttemptTimes(View, frozen=True):
    """When an attempt entered each state."""

    dispatched: str | None = None
    accepted: str | None = None
    running: str | None = None
    finished: str | None = None


class AttemptView(View, frozen=True):
    """One try of a job on one node."""

    attempt: int
    attempt_id: AttemptId
    node_id: NodeId
    state: AttemptState
    at: AttemptTimes
    outcome: Outcome | None = None
    error: ErrorInfo | None = None


class LiveSampleView(View, frozen=True):
    """Whether a job was scored as a sample of live traffic, or why not."""

    scored: bool
    reason: str | None = None
    experiment_id: str | None = None
    item_id: str | None = None
    scores: dict[str, float | None] = {}


class JobView(View, frozen=True):
    """A job, with its attempts and what came of it."""

    job_id: JobId
    request_id: RequestId
    state: JobState
    job_class: JobClass = msgspec.field(name="class")
    src_lang: str
    tgt_lang: str
    attempts: tuple[AttemptView, ...] = ()
    services: Mapping[str, str] = {}
    """The services that it asks for, by stage."""
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    node_id: NodeId | None = None
    result: JobOutput | None = None
    scheduling: Scheduling | None = None
    """Of a job that succeeded: the time it waited for a slot apart from the time its node took."""
    preemptions: int = 0
    """How often a batch job gave its slot to live work and was queued again."""
    live_sample: LiveSampleView | None = None
    """Only where one job is asked for."""


class ServedView(View, frozen=True):
    """That a job would be served, as ``POST /api/v1/jobs/check`` answers."""

    pool: str
    """The language pair, such as ``zh:en``."""
    nodes: int
    """Nodes that could carry the job, each as soon as it has a free slot."""


class LeftOutNodes(View, frozen=True):
    """How many nodes were left out for one reason, and which (at most 100)."""

    count: int
    nodes: tuple[NodeId, ...]


class CandidateNodes(View, frozen=True):
    """How many nodes could carry the job, and which (at most 100)."""

    count: int
    nodes: tuple[NodeId, ...]


class AttemptExplanation(View, frozen=True):
    """How the node of one attempt was chosen, or why none was."""

    attempt: int
    snapshot_version: int
    pool: str
    """The language pair, such as ``zh:en``."""
    shards_tried: tuple[int, ...]
    """Cells, in the order in which they were drawn."""
    reasons: Mapping[ExclusionReason, LeftOutNodes]
    chosen: NodeId | None = None
    services: Mapping[str, str] = {}
    """The services that a node had to run, by stage: those the job asks for, or a canary's."""
    local: bool | None = None
    """In a cluster, whether the node chosen is connected to the instance that has the job; such
    nodes come first. Absent where they do not."""
    candidates: CandidateNodes | None = None
    """Nodes of the cell of the chosen one that could have got the job as well, with the chosen one
    among them. Null where none was chosen: then each is left out for a reason."""


class WaitingView(View, frozen=True):
    """A job that stands in line for a slot."""

    pool: str
    """The language pair whose line it stands in."""
    in_line: int
    """Jobs that wait for this pair on the instance that drives the job, this one among them."""
    code: str | None = None
    """What it found when it last looked; null while jobs before it wait for the same."""
    message: str | None = None


class ExplainView(View, frozen=True):
    """Why a job went where it went, or why it waits."""

    job_id: JobId
    attempts: tuple[AttemptExplanation, ...]
    waiting: WaitingView | None = None
    """Null once the job has left the line."""


class NodeSlots(View, frozen=True):
    """How many jobs a node may run, and runs."""

    total: int
    used: int
    free: int


class MarkView(View, frozen=True):
    """A service of a node that is left alone until a time."""

    service_id: str
    reason: str
    expires_at: str
    version: str | None = None
    """The version that is left alone; null: all of the service."""


class NodePoolView(View, frozen=True):
    """A language pair that a node serves."""

    pair: str
    """Such as ``zh:en``, in the node's own spelling."""
    kinds: tuple[PoolKind, ...]
    """For which jobs: by what they bring and what they want."""


class ResourceView(View, frozen=True):
    """How busy one resource of a node's machine is, and whether that leaves the node out."""

    mean_percent: float
    """Over the last three heartbeats. Of a node at another instance: when its facts last
    changed."""
    threshold_percent: float
    """0: none."""
    over: bool


class NodeView(View, frozen=True):
    """A node, as the registry and the ledger know it."""

    node_id: NodeId
    status: NodeHealth
    reason: str | None
    """Why it gets no jobs, or fewer than it could."""
    resources: Mapping[Resource, ResourceView]
    slots: NodeSlots
    pools: tuple[NodePoolView, ...]
    """Every pool the node is in; at most 1,000 pairs of each node in a list, 10,000 alone."""
    pools_total: int
    """How many pools that are, over all kinds."""
    cell: int | None
    services: tuple[Service, ...]
    languages: Languages
    features: tuple[str, ...]
    marks: tuple[MarkView, ...]
    last_seen: str
    instance_id: InstanceId | None


class ShardView(View, frozen=True):
    """The part of a pool that lies in one cell."""

    cell: int
    nodes: int


class PoolSlots(View, frozen=True):
    """How many jobs the nodes of a pool may run, and could still take."""

    total: int
    free: int


class PoolView(View, frozen=True):
    """The nodes that serve one language pair, for jobs of any kind."""

    pair: str
    kinds: Mapping[PoolKind, int]
    """How many of the nodes serve jobs of each kind."""
    shards: tuple[ShardView, ...]
    nodes: int
    ready: int
    slots: PoolSlots


class PoolNodesView(View, frozen=True):
    """Which nodes serve one language pair, for jobs of any kind."""

    pair: str
    node_ids: tuple[NodeId, ...]


class SessionView(View, frozen=True):
    """A session, without anything that was said in it."""

    session_id: SessionId
    tenant_id: TenantId
    src_lang: str
    tgt_langs: tuple[str, ...]
    """Both languages of two_way_auto."""
    state: SessionState
    instance_id: InstanceId
    utterances: int
    """How many there were so far."""
    in_flight: int
    """Of them, how many are not yet delivered or announced for every target."""
