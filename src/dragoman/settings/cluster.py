"""Settings of a cluster: several instances that share Redis."""

from __future__ import annotations

from pydantic import Field

from dragoman.settings.forms import KeyPart, RedisUrl
from dragoman.settings.section import Count, Milliseconds, Seconds, Section


class ClusterSettings(Section):
    """How instances find each other and share the fleet."""

    enabled: bool = Field(
        default=False,
        description="Share nodes, jobs and sessions with other instances through Redis.",
    )
    redis_url: RedisUrl = Field(
        default="redis://127.0.0.1:6379",
        description="Redis or Valkey server: `redis://`, `rediss://` (TLS) or `unix://`.",
    )
    redis_cluster: bool = Field(default=False, description="The server is a Redis Cluster.")
    key_prefix: KeyPart = Field(
        default="dragoman:v1", description="Prefix of every key of this cluster in Redis."
    )
    instance_id: KeyPart = Field(
        default="auto",
        description="Name of this instance, unique in the cluster; `auto` generates one.",
    )
    redis_timeout_ms: Milliseconds = Field(
        default=1000, description="How long one call to Redis may take, in milliseconds."
    )
    presence_ttl_seconds: Seconds = Field(
        default=30, description="Silence after which an instance counts as gone, in seconds."
    )
    owner_ttl_seconds: Seconds = Field(
        default=45,
        description="How long an instance owns a node or a session after it last renewed it, in "
        "seconds.",
    )
    reconcile_seconds: Seconds = Field(
        default=5, description="How often an instance reconciles its view of the fleet, in seconds."
    )
    stream_maxlen: Count = Field(
        default=10000,
        description="Maximum messages in an instance's inbox; a full inbox refuses more.",
    )
    reclaim_idle_ms: Milliseconds = Field(
        default=5000,
        description="How long a handler may take for a message before the message is delivered "
        "again, in milliseconds.",
    )
    dlq_max_deliveries: Count = Field(
        default=10, description="How often a message is delivered before it becomes a dead letter."
    )
    dlq_maxlen: Count = Field(default=10000, description="Maximum dead letters kept.")
