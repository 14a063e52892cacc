"""Settings of the live plane: sessions, jobs, nodes, and how the scheduler is watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dragoman.settings.kinds import (
    Bytes,
    Count,
    CountOrZero,
    HttpUrlOrEmpty,
    Milliseconds,
    MillisecondsOrZero,
    Pair,
    PercentOrZero,
    Ratio,
    Seconds,
    SecondsOrZero,
    Section,
    Text,
    not_empty,
)

SpeechMilliseconds = Annotated[int, Field(ge=0, le=10_000)]
"""As long as a session may ask for, too."""


class SegmentationSettings(Section):
    """Where a speaker's audio is cut into utterances."""

    pause_ms: Milliseconds = Field(
        default=1000, description="Time without audio that ends an utterance, in milliseconds."
    )
    max_duration_ms: Milliseconds = Field(
        default=10000, description="Longest utterance, in milliseconds; a longer one is cut."
    )
    max_bytes: Bytes = Field(
        default=524288, description="Largest utterance, in bytes of audio; a larger one is cut."
    )
    hangover_auto_ms: MillisecondsOrZero = Field(
        default=150,
        description="How long the scheduler waits for missing chunks after it cut an utterance, "
        "in milliseconds.",
    )
    hangover_manual_ms: MillisecondsOrZero = Field(
        default=200,
        description="How long the scheduler waits for missing chunks after the client ended an "
        "utterance, in milliseconds.",
    )
    padding_auto_ms: MillisecondsOrZero = Field(
        default=220,
        description="Silence a node adds to an utterance cut by the scheduler, in milliseconds.",
    )
    padding_manual_ms: MillisecondsOrZero = Field(
        default=280,
        description="Silence a node adds to an utterance ended by the client, in milliseconds.",
    )
    vad: Literal["off", "webrtc", "silero"] = Field(
        default="off",
        description="Voice activity of PCM16 sessions that do not ask for it themselves: none "
        "(`off`), WebRTC's detector (`webrtc`), or Silero's network (`silero`), which is better in "
        "noise and takes 300 times as long.",
    )
    min_speech_ms: SpeechMilliseconds = Field(
        default=120,
        description="With voice activity, how much voice begins an utterance, in milliseconds.",
    )
    pre_roll_ms: SpeechMilliseconds = Field(
        default=200,
        description="With voice activity, how much audio before the voice is kept, in "
        "milliseconds.",
    )
    speech_pause_ms: Milliseconds = Field(
        default=500,
        ge=40,
        description="With voice activity, how long a pause in speech ends an utterance, in "
        "milliseconds.",
    )
    max_silero_sessions: CountOrZero = Field(
        default=8,
        description="Maximum sessions of one instance with voice activity by `silero`; each takes "
        "about 3 % of a core.",
    )


class SessionSettings(Section):
    """Heartbeats: how the server notices that a client is gone."""

    heartbeat_interval_seconds: Seconds = Field(
        default=30, description="How often a client must send a heartbeat, in seconds."
    )
    heartbeat_timeout_seconds: Seconds = Field(
        default=90,
        description="Silence after which a session's socket is closed (4408), in seconds.",
    )


class DeliverySettings(Section):
    """How results are put in order, and how long a lost client may take to reconnect."""

    reorder_window: Count = Field(
        default=200, description="Maximum utterances held back to deliver results in order."
    )
    gap_grace_ms: MillisecondsOrZero = Field(
        default=10000,
        description="How long an utterance without a running job may block later ones before the "
        "client is told that it is missing, in milliseconds.",
    )
    resume_grace_seconds: SecondsOrZero = Field(
        default=60,
        description="How long a session waits for a lost client to resume it, in seconds.",
    )
    timeline_max: CountOrZero = Field(
        default=20000,
        description="How many of the latest results of all sessions an instance remembers, without "
        "their words, to show where the time went; each takes about half a kilobyte.",
    )


LARGEST_CELL = 100
MOST_CELLS = 1000

CellNumber = Annotated[int, Field(ge=0, lt=MOST_CELLS)]
CellNumbers = Annotated[tuple[CellNumber, ...], AfterValidator(not_empty)]


class TaskBindingSettings(Section):
    """How long a request stays bound to its job, and a session to one node."""

    lease_seconds: Seconds = Field(
        default=90, description="How long a repeated request returns its finished job, in seconds."
    )
    reserved_ttl_seconds: Seconds = Field(
        default=90, description="How long a slot stays held without a sign of its job, in seconds."
    )
    spread_enabled: bool = Field(
        default=False,
        description="Leave out the node that served the session last, so that no single node gets "
        "a whole conversation.",
    )
    spread_window_seconds: SecondsOrZero = Field(
        default=30, description="How long after serving a session a node is left out, in seconds."
    )


class JobTimeoutSettings(Section):
    """How long each step of a job may take, and how often it is tried."""

    pending_seconds: SecondsOrZero = Field(
        default=10, description="How long a job may wait for a free node, in seconds."
    )
    ack_seconds: Seconds = Field(
        default=5, description="How long a node may take to accept a job, in seconds."
    )
    run_seconds: Seconds = Field(
        default=30, description="How long a node may work on a job it accepted, in seconds."
    )
    total_seconds: Seconds = Field(
        default=60,
        description="How long a job may take in all, in seconds: from the request for live jobs, "
        "from each dispatch for batch jobs.",
    )
    cancel_grace_seconds: SecondsOrZero = Field(
        default=5, description="How long a node may take to confirm a cancel, in seconds."
    )
    failover_max_attempts: Count = Field(
        default=3, description="How many nodes may try a job before it fails."
    )


class PoolSettings(Section):
    """Which nodes can serve a language pair, and how nodes are grouped."""

    rule: Literal["asr_tts", "semantic_f2f", "semantic_one_way"] = Field(
        default="asr_tts",
        description="Which nodes serve a pair: `asr_tts`: those that recognise the source and "
        "speak the target; `semantic_f2f`: those with both as semantic languages; "
        "`semantic_one_way`: those with the source as a semantic language that translate into and "
        "speak the target.",
    )
    cell_size: Count = Field(
        default=LARGEST_CELL,
        le=LARGEST_CELL,
        description="Maximum nodes in one cell, the part of the fleet that changes in one step.",
    )
    max_cells: Count = Field(
        default=MOST_CELLS,
        le=MOST_CELLS,
        description="Maximum cells; times cell_size, the largest fleet.",
    )
    choice: Literal["random", "session_hash"] = Field(
        default="random",
        description="Which cell is tried first: any (`random`), or always the same one for a "
        "tenant or session (`session_hash`).",
    )
    tenant_cells: Mapping[Text, CellNumbers] = Field(
        default={},
        description="Cells to try first for a tenant, as a table from tenant to cell numbers, such "
        "as `{ acme = [0, 1] }`.",
    )


class SelectionSettings(Section):
    """Which of the fitting nodes gets the job."""

    strategy: Literal["random", "power_of_two", "least_loaded", "latency_weighted"] = Field(
        default="random",
        description="How to choose a node: at random (`random`), the less loaded of two "
        "(`power_of_two`), the least loaded (`least_loaded`), or the one that is expected "
        "to be done first (`latency_weighted`).",
    )
    affinity_ttl_seconds: SecondsOrZero = Field(
        default=10,
        description="How long the rest of an utterance that was cut for length goes to the same "
        "node, in seconds.",
    )
    batch_headroom: Ratio = Field(
        default=0.25,
        description="Share of the slots that batch work leaves free for live work, 0 to 1.",
    )
    batch_max_preemptions: CountOrZero = Field(
        default=3,
        description="How often live work may preempt a batch job.",
    )
    prefer_local: bool = Field(
        default=True,
        description="In a cluster, nodes of the instance that has the job come first, while one of "
        "them has a free slot that no waiting instance was just woken for.",
    )


_ALL = 100

ResourceName = Literal["cpu", "mem", "gpu", "gpu_mem"]

DEFAULT_THRESHOLDS: Mapping[ResourceName, float] = {
    "cpu": 85.0,
    "mem": 85.0,
    "gpu": 85.0,
    "gpu_mem": 0.0,
}


def _all_four(value: Any) -> Any:
    """A plain number sets every resource; a resource that a table leaves out keeps its default."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _ALL:
            raise ValueError(f"must be at least 0 and at most {_ALL}")
        return dict.fromkeys(DEFAULT_THRESHOLDS, value)
    return {**DEFAULT_THRESHOLDS, **value} if isinstance(value, Mapping) else value


ResourceThresholds = Annotated[Mapping[ResourceName, PercentOrZero], BeforeValidator(_all_four)]


class NodeHealthSettings(Section):
    """When a node gets jobs, when it is degraded, and when it is forgotten."""

    heartbeat_interval_seconds: Seconds = Field(
        default=15, description="How often a node must send a heartbeat, in seconds."
    )
    heartbeat_timeout_seconds: Seconds = Field(
        default=45, description="Silence after which a node is offline, in seconds."
    )
    reconnect_grace_seconds: SecondsOrZero = Field(
        default=2,
        description="How long a lost node may take to reconnect before its jobs go to other nodes, "
        "in seconds.",
    )
    ready_after: Count = Field(
        default=1, description="Good heartbeats in a row before a new or degraded node gets jobs."
    )
    window: Count = Field(
        default=5, description="How many of a node's last heartbeats window_failures looks at."
    )
    window_failures: Count = Field(
        default=3, description="Bad heartbeats within the window that degrade a node."
    )
    consecutive_failures: Count = Field(
        default=3, description="Bad heartbeats in a row that degrade a node."
    )
    resource_threshold_percent: ResourceThresholds = Field(
        default=DEFAULT_THRESHOLDS,
        description="Mean use of each resource over the last three heartbeats from which a node "
        "gets no more jobs, in percent; 0: never. A plain number sets all four.",
    )
    breaker_failures: Ratio = Field(
        default=0.6,
        description="Share of failures and timeouts in a node's last jobs from which it gets only "
        "one job at a time; 0: never.",
    )
    breaker_window: Count = Field(
        default=10, description="How many of a node's last jobs breaker_failures looks at."
    )
    forget_offline_seconds: Seconds = Field(
        default=3600, description="How long an offline node is remembered, in seconds."
    )


class ModelNotAvailableSettings(Section):
    """What the scheduler does when a node reports a missing model."""

    unavailable_ttl_seconds: Seconds = Field(
        default=60,
        description="How long the scheduler leaves out the node's service after a report, in "
        "seconds.",
    )
    debounce_window_seconds: SecondsOrZero = Field(
        default=5,
        description="Time within which reports about one service and version are handled once, "
        "in seconds.",
    )
    node_ratelimit_window_seconds: Seconds = Field(
        default=10, description="Time over which a node's reports are counted, in seconds."
    )
    node_ratelimit_max: Count = Field(
        default=30, description="Maximum reports of one node in that time; more are only counted."
    )
    queue: Count = Field(default=10000, description="Maximum reports waiting to be handled.")


class ServiceCatalogSettings(Section):
    """Where the list of known services comes from."""

    url: HttpUrlOrEmpty = Field(
        default="", description="Address of the catalog server; empty: none."
    )
    refresh_seconds: Seconds = Field(
        default=30, description="How often the catalog is fetched, in seconds."
    )
    timeout_seconds: Seconds = Field(
        default=5, description="How long one fetch of the catalog may take, in seconds."
    )
    backoff_after: Count = Field(
        default=3, description="Failed fetches in a row after which the time between them grows."
    )
    max_refresh_seconds: Seconds = Field(
        default=300, description="Longest time between fetches while they fail, in seconds."
    )
    local_index: str = Field(
        default="", description="Catalog file used until the first fetch succeeds; empty: none."
    )


class StatsSettings(Section):
    """How often the dashboard's figures are computed."""

    snapshot_seconds: Seconds = Field(
        default=5, description="How often the stats snapshot is computed, in seconds."
    )
    stale_after_seconds: Seconds = Field(
        default=10, description="Age from which a stats snapshot counts as stale, in seconds."
    )
    cold_window_seconds: SecondsOrZero = Field(
        default=30,
        description="Before the first snapshot, requests compute at most one within this time, in "
        "seconds.",
    )


class ObservabilitySettings(Section):
    """When the scheduler warns about its own slowness."""

    lock_wait_warn_ms: Milliseconds = Field(
        default=10,
        description="Wait for a lock from which it is logged and counted, in milliseconds.",
    )
    path_warn_ms: Milliseconds = Field(
        default=50,
        description="Duration from which a step is logged and counted as slow, in milliseconds.",
    )
    top_k: Count = Field(
        default=20, description="How many entries each top list in the metrics has."
    )


class GlossarySettings(Section):
    """The words of tenants: how many there may be, and how many a job carries."""

    terms_per_tenant: Count = Field(
        default=1000, description="Maximum terms in the glossary of one tenant."
    )
    terms_per_job: CountOrZero = Field(
        default=100,
        description="Maximum terms that a node is told with a job; 0: none. Of more, a text takes "
        "those that are in it, and speech those that were set last.",
    )
    bytes_per_job: Bytes = Field(
        default=8192, description="Maximum bytes of the terms that a node is told with a job."
    )
    refresh_seconds: Seconds = Field(
        default=2,
        description="How often an instance looks for terms that others changed, in seconds.",
    )


class ContextSettings(Section):
    """What nodes are told of the utterances before."""

    utterances: CountOrZero = Field(
        default=3,
        description="How many earlier utterances of its session a job carries, with their results; "
        "0: none.",
    )
    max_bytes: Bytes = Field(
        default=2048, description="Maximum bytes of their texts together; the oldest go first."
    )
    tenants_without: tuple[Text, ...] = Field(
        default=(), description="Tenants whose jobs carry none."
    )


def _service_name(name: str) -> str:
    if name[0] in " @" or name[-1] in " @":
        raise ValueError("must be service_id, or service_id@version")
    return name


class CanaryRouteSettings(Section):
    """A share of one pair's jobs, and the service that it is for."""

    pair: Pair
    stage: Literal["asr", "semantic", "nmt", "tts", "tone"]
    service: Annotated[Text, AfterValidator(_service_name)]
    share: Ratio


class CanarySettings(Section):
    """Versions of services that are tried out on a share of the jobs."""

    routes: tuple[CanaryRouteSettings, ...] = Field(
        default=(),
        description="Which share of a pair's jobs goes to which service, such as "
        '`[{ pair = "en:es", stage = "asr", service = "whisper@2", share = 0.1 }]`.',
    )


class SchedulerSettings(Section):
    """How the scheduler assigns jobs to nodes."""

    max_concurrent_jobs_per_node: Count = Field(
        default=4, description="Slots of a node that does not state its number; not a maximum."
    )
    job_retention_seconds: SecondsOrZero = Field(
        default=600, description="How long an ended job can still be looked up, in seconds."
    )
    explain_max: CountOrZero = Field(
        default=10000,
        description="How many recent jobs one instance keeps explanations for.",
    )
    task_binding: TaskBindingSettings = TaskBindingSettings()
    web_task_segmentation: SegmentationSettings = SegmentationSettings()
    session: SessionSettings = SessionSettings()
    delivery: DeliverySettings = DeliverySettings()
    job_timeout: JobTimeoutSettings = JobTimeoutSettings()
    node_health: NodeHealthSettings = NodeHealthSettings()
    pools: PoolSettings = PoolSettings()
    selection: SelectionSettings = SelectionSettings()
    model_not_available: ModelNotAvailableSettings = ModelNotAvailableSettings()
    service_catalog: ServiceCatalogSettings = ServiceCatalogSettings()
    stats: StatsSettings = StatsSettings()
    observability: ObservabilitySettings = ObservabilitySettings()
    canary: CanarySettings = CanarySettings()
    glossary: GlossarySettings = GlossarySettings()
    context: ContextSettings = ContextSettings()
