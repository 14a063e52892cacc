"""What clients and the scheduler say to each other in a session."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from dragoman.ids import InstanceId, JobId, NodeId, RequestId, SessionId
from dragoman.live.protocol.fields import (
    Count,
    FreeForm,
    Label,
    NodeIdField,
    RequestIdField,
    SampleRate,
    SpeechMs,
    TenantIdField,
    Token,
)
from dragoman.live.protocol.languages import (
    AUTO,
    Language,
    SourceLanguage,
    normal_source,
)
from dragoman.live.protocol.message import Error, Message
from dragoman.live.protocol.parts import Pipeline, Scheduling, Timings
from dragoman.live.protocol.services import ChosenServices
from dragoman.live.protocol.vocabulary import (
    AudioFormat,
    BackpressureAction,
    Mode,
    UiEventName,
    UiStatus,
    Vad,
)

PROTOCOL_VERSION = "1"

FewLanguages = Annotated[tuple[Language, ...], Meta(max_length=32)]
# Feature names stay text here: an utterance that asks for an unknown one is still an utterance,
# and is refused by its index (see ``features.known_features``).
FeatureNames = Annotated[tuple[Label, ...], Meta(max_length=64)]

# --- client to scheduler ------------------------------------------------------------------------


class SessionInit(Message, frozen=True):
    """A speaker opens a session, or resumes one; the first message."""

    src_lang: SourceLanguage = AUTO
    """``auto`` needs auto_langs."""
    tgt_lang: Language | None = None
    """Either this or tgt_langs; neither in two_way_auto."""
    tgt_langs: FewLanguages = ()
    mode: Mode = Mode.ONE_WAY
    lang_a: Language | None = None
    """With lang_b, the two languages of two_way_auto."""
    lang_b: Language | None = None
    auto_langs: FewLanguages = ()
    """What the speaker may be speaking when src_lang is ``auto``."""
    pipeline: Pipeline | None = None
    features: FeatureNames = ()
    tenant_id: TenantIdField | None = None
    preferred_node_id: NodeIdField | None = None
    audio_format: AudioFormat = AudioFormat.PCM16
    sample_rate: SampleRate = 16_000
    vad: Vad | None = None
    """Voice activity: audio chunks are cut at pauses of speech, and silence is not kept. For pcm16
    alone; left out: as the server's settings say."""
    min_speech_ms: SpeechMs | None = None
    """With vad: so much voice begins an utterance."""
    pre_roll_ms: SpeechMs | None = None
    """With vad: so much is kept from before the voice."""
    services: ChosenServices | None = None
    """The services that every utterance asks for: for each stage ``service_id``, or
    ``service_id@version`` for one version. A stage that an utterance does not use needs none."""
    ui_events: bool = False
    client_version: Label | None = None
    platform: Label | None = None
    trace_id: Label | None = None
    resume_token: Token | None = None
    last_delivery_seq: Count = 0
    """The last result the client has seen; a resume goes on after it."""

    def __post_init__(self) -> None:
        normal_source(self, self.src_lang)

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages the session is translated into; none in two_way_auto."""
        if self.mode is Mode.TWO_WAY_AUTO:
            return ()
        return self.tgt_langs if self.tgt_lang is None else (self.tgt_lang,)

    @property
    def heard(self) -> tuple[str, ...]:
        """The languages the session is translated into; both, where it goes either way."""
        return self.targets or tuple(lang for lang in (self.lang_a, self.lang_b) if lang)


class AudioChunk(Message, frozen=True):
    """A piece of the speaker's audio, which the scheduler cuts into utterances."""

    seq: Count
    """From 0; chunks may arrive out of order, repeated ones are ignored."""
    is_final: bool
    """The utterance ends with this chunk."""
    payload: bytes = b""


class Utterance(Message, frozen=True):
    """A whole utterance, as audio or as text; what it leaves out is as the session says."""

    utterance_index: Count
    """From 0, next after next."""
    request_id: RequestIdField | None = None
    audio: bytes | None = None
    text: str | None = None
    src_lang: SourceLanguage | None = None
    tgt_lang: Language | None = None
    """In two_way_auto, it says which way the utterance goes."""
    pipeline: Pipeline | None = None
    features: FeatureNames | None = None
    services: ChosenServices | None = None
    """Stage by stage, before what the session asks for."""

    def __post_init__(self) -> None:
        if self.src_lang is not None:
            normal_source(self, self.src_lang)


class ClientHeartbeat(Message, frozen=True):
    """The client lives, and has everything up to a delivery."""

    last_delivery_seq: Count | None = None


class SessionClose(Message, frozen=True):
    """The speaker is done: the last cut is made, all results are sent, then the socket closes."""

    reason: str | None = None


# --- scheduler to client ------------------------------------------------------------------------


class SessionInitAck(Message, frozen=True):
    """The session is open."""

    session_id: SessionId
    resume_token: str
    """Opens the same session again after a lost connection, on any instance."""
    resumed: bool
    next_chunk_seq: int
    next_utterance_index: int
    protocol_version: str
    instance_id: InstanceId
    heartbeat_interval_ms: int
    listen_token: str | None = None
    """Lets others listen to the session, at `/ws/listen/{session_id}`; it opens nothing else."""


class TranslationResult(Message, frozen=True):
    """An utterance, translated into one language."""

    delivery_seq: int
    """From 1, counted over the session; acknowledged by client_heartbeat."""
    session_id: SessionId
    utterance_index: int
    tgt_lang: str
    job_id: JobId
    request_id: RequestId
    scheduling: Scheduling
    text_asr: str | None = None
    text_translated: str | None = None
    src_lang_detected: str | None = None
    tts_audio: bytes | None = None
    tts_format: str | None = None
    node_id: NodeId | None = None
    timings: Timings | None = None
    quality_score: float | None = None
    extra: FreeForm | None = None


class MissingResult(Message, frozen=True):
    """An utterance has no result in one language, and will have none."""

    delivery_seq: int
    session_id: SessionId
    utterance_index: int
    reason: str
    """An error code, or gap_timeout."""
    tgt_lang: str | None = None
    job_id: JobId | None = None


class AsrPartial(Message, frozen=True):
    """What has been recognised of an utterance so far."""

    session_id: SessionId
    utterance_index: int
    job_id: JobId
    text: str
    is_final: bool


class UiEvent(Message, frozen=True):
    """Something happened to an utterance; sent when the session asked for ui_events."""

    session_id: SessionId
    utterance_index: int
    event: UiEventName
    elapsed_ms: float
    status: UiStatus
    job_id: JobId | None = None
    error_code: str | None = None


class Backpressure(Message, frozen=True):
    """The session has much in flight, or again less."""

    action: BackpressureAction
    resume_after_ms: int | None = None


class ServerHeartbeat(Message, frozen=True):
    """Answers each client_heartbeat."""

    next_chunk_seq: int
    """Chunks below it are stored; the client keeps the others for a resume."""


class SessionCloseAck(Message, frozen=True):
    """Everything has been sent; the socket closes now."""


class ListenAck(Message, frozen=True):
    """A listener was let in; results follow."""

    session_id: SessionId
    src_lang: str
    tgt_lang: str
    """The language that the listener gets."""
    tgt_langs: tuple[str, ...]
    """All languages that the session translates to."""
    last_delivery_seq: int
    """The number to resume from, until a result with a higher one has come."""
    complete: bool
    """False: results after the listener's last_delivery_seq are no longer kept."""


class ListenEnd(Message, frozen=True):
    """The session is over; the socket closes now."""


OnlyToListener = ListenAck | ListenEnd
SchedulerToListener = OnlyToListener | TranslationResult | MissingResult | Error
"""What comes over ``/ws/listen/{session_id}``."""

ClientToScheduler = SessionInit | AudioChunk | Utterance | ClientHeartbeat | SessionClose
SchedulerToClient = (
    SessionInitAck
    | TranslationResult
    | MissingResult
    | AsrPartial
    | UiEvent
    | Backpressure
    | Error
    | ServerHeartbeat
    | SessionCloseAck
)
