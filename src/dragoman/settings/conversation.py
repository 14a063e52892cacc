"""Settings of sessions: how speech is cut into utterances and how results come back."""

from __future__ import annotations

from pydantic import Field

from dragoman.settings.section import (
    Bytes,
    Count,
    Milliseconds,
    MillisecondsOrZero,
    Seconds,
    SecondsOrZero,
    Section,
)


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
