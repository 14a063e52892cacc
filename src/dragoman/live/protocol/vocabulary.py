"""The words of the wire: every value that is one of a fixed list."""

from __future__ import annotations

from enum import StrEnum


class ServiceType(StrEnum):
    """What a service on a node does."""

    ASR = "asr"
    SEMANTIC = "semantic"
    NMT = "nmt"
    TTS = "tts"
    TONE = "tone"


class ServiceStatus(StrEnum):
    """Whether a service on a node runs."""

    RUNNING = "running"
    STOPPED = "stopped"
    ERROR = "error"


class Device(StrEnum):
    """What a service computes on."""

    CPU = "cpu"
    GPU = "gpu"


class NodeHealth(StrEnum):
    """How a node is doing; only ready nodes get jobs."""

    REGISTERING = "registering"
    READY = "ready"
    DEGRADED = "degraded"
    DRAINING = "draining"
    OFFLINE = "offline"


class Command(StrEnum):
    """What the scheduler asks of a node besides jobs; report means: send a heartbeat now."""

    DRAIN = "drain"
    RESUME = "resume"
    SHUTDOWN = "shutdown"
    REPORT = "report"


class JobClass(StrEnum):
    """Live work may use every slot; batch work uses what live work leaves free."""

    LIVE = "live"
    BATCH = "batch"


class Mode(StrEnum):
    """One direction, or two speakers whose direction the node finds out."""

    ONE_WAY = "one_way"
    TWO_WAY_AUTO = "two_way_auto"


class Cut(StrEnum):
    """Why an utterance ended where it did; none when it came whole."""

    FINAL = "final"
    PAUSE = "pause"
    MAX_DURATION = "max_duration"
    MAX_BYTES = "max_bytes"
    CLOSE = "close"
    NONE = "none"


class SessionState(StrEnum):
    """Where a session stands."""

    ACTIVE = "active"
    DISCONNECTED = "disconnected"
    """Its client is gone, and may come back for a while."""
    CLOSING = "closing"
    """Its speaker is done; the last results are on their way."""
    OVER = "over"


class Vad(StrEnum):
    """How a session finds speech in its audio."""

    OFF = "off"
    WEBRTC = "webrtc"
    SILERO = "silero"


class AudioFormat(StrEnum):
    """How a client's audio is coded."""

    PCM16 = "pcm16"
    OPUS = "opus"
    WAV = "wav"


class Feature(StrEnum):
    """What a job may ask for besides the pipeline's stages."""

    EMOTION_DETECTION = "emotion_detection"
    SPEECH_RATE_DETECTION = "speech_rate_detection"
    SPEECH_RATE_CONTROL = "speech_rate_control"
    SPEAKER_IDENTIFICATION = "speaker_identification"
    VOICE_CLONING = "voice_cloning"
    VOICE_STYLE_DETECTION = "voice_style_detection"
    PERSONA_ADAPTATION = "persona_adaptation"


class JobState(StrEnum):
    """How far a job has come."""

    CREATED = "CREATED"
    DISPATCHED = "DISPATCHED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    RELEASED = "RELEASED"


class ResultAudio(StrEnum):
    """Whether the answer to a request for a job carries the sound of its result."""

    INCLUDE = "include"
    OMIT = "omit"


class AttemptState(StrEnum):
    """How far one attempt of a job has come; a cancelling one still holds its slot."""

    DISPATCHED = "DISPATCHED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    FINISHED = "FINISHED"
    RELEASED = "RELEASED"


class Outcome(StrEnum):
    """How a job or an attempt ended."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class UiEventName(StrEnum):
    """What happened to an utterance, for a page that shows it."""

    INPUT_STARTED = "INPUT_STARTED"
    INPUT_ENDED = "INPUT_ENDED"
    DISPATCHED = "DISPATCHED"
    NODE_ACCEPTED = "NODE_ACCEPTED"
    RUNNING = "RUNNING"
    ASR_PARTIAL = "ASR_PARTIAL"
    FAILOVER = "FAILOVER"
    DELIVERED = "DELIVERED"
    ERROR = "ERROR"


class UiStatus(StrEnum):
    """Whether a step shown to the user went well."""

    OK = "ok"
    ERROR = "error"


class BackpressureAction(StrEnum):
    """What a client should do about the work it has in flight."""

    SLOW_DOWN = "slow_down"
    PAUSE = "pause"
    RESUME = "resume"


class Resource(StrEnum):
    """A part of a node's machine whose use heartbeats tell."""

    CPU = "cpu"
    MEM = "mem"
    GPU = "gpu"
    GPU_MEM = "gpu_mem"


class PoolKind(StrEnum):
    """What a job brings and what it wants; each language pair has a pool of every kind."""

    SPEECH_TO_SPEECH = "speech_to_speech"
    SPEECH_TO_TEXT = "speech_to_text"
    TEXT_TO_SPEECH = "text_to_speech"
    TEXT_TO_TEXT = "text_to_text"


class ExclusionReason(StrEnum):
    """Why a node was left out of a choice; the first that holds, in this order, is reported."""

    EXCLUDED = "excluded"
    NOT_READY = "not_ready"
    NOT_PUBLIC = "not_public"
    PAIR_UNSUPPORTED = "pair_unsupported"
    SERVICE_MISSING = "service_missing"
    SERVICE_NOT_READY = "service_not_ready"
    FEATURE_UNSUPPORTED = "feature_unsupported"
    MODEL_UNAVAILABLE = "model_unavailable"
    RESOURCE_THRESHOLD = "resource_threshold"
    SPREAD = "spread"
    RESERVED_HEADROOM = "reserved_headroom"
    NO_FREE_SLOT = "no_free_slot"
