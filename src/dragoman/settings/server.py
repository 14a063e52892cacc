"""Settings of the program itself: its server, its limits, its cluster and its lab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dragoman.settings.kinds import (
    AnalyticsUrl,
    Bytes,
    Count,
    CountOrZero,
    DatabaseUrl,
    HostName,
    Hours,
    KeyPart,
    Milliseconds,
    Origin,
    Pair,
    Port,
    ProxyAddress,
    QueueUrl,
    Ratio,
    RedisUrl,
    Seconds,
    SecondsOrZero,
    Section,
    Text,
)


class ServerSettings(Section):
    """Where the server listens and how it stops."""

    host: HostName = Field(default="127.0.0.1", description="Name or address to listen on.")
    port: Port = Field(default=8080, description="TCP port to listen on; 0 takes any free one.")
    data_dir: Path = Field(
        default=Path(".dragoman"),
        description="Folder for the database and the sockets of this server.",
    )
    drain_seconds: SecondsOrZero = Field(
        default=30, description="How long a stopping server waits for work in flight, in seconds."
    )
    drain_delay_seconds: SecondsOrZero = Field(
        default=0,
        description="How long a stopping server still serves new callers while `/readyz` reports "
        "that it is leaving, so that load balancers can stop sending them, in seconds.",
    )
    tls_cert: str = Field(
        default="", description="Certificate file (PEM), with its chain; empty: plain HTTP."
    )
    tls_key: str = Field(
        default="", description="Private key file (PEM) that belongs to the certificate."
    )
    trusted_proxies: tuple[ProxyAddress, ...] = Field(
        default=(),
        description="Addresses or networks whose X-Forwarded headers are trusted; `*` trusts every "
        "sender.",
    )
    allowed_origins: tuple[Origin, ...] = Field(
        default=(),
        description="Web origins whose pages may open sockets and call the API, such as "
        "`https://talk.example.org`; empty: the server's own pages only.",
    )


SignInRole = Literal["client", "evaluator", "operator", "viewer"]


class OidcSettings(Section):
    """Signing in to the console through an OpenID provider (extra `oidc`, mode `keys`)."""

    issuer: str = Field(
        default="",
        description="Address of the provider, such as `https://login.example.org`; empty: off.",
    )
    client_id: str = Field(default="", description="What the provider calls this server.")
    client_secret_file: str = Field(
        default="",
        description="File with the secret that the provider gave this server; the same on all "
        "instances.",
    )
    name: Text = Field(
        default="Single sign-on", description="What the button on the sign-in page says."
    )
    scopes: tuple[Text, ...] = Field(
        default=("profile", "email"), description="Scopes to ask for, besides `openid`."
    )
    role_claim: Text = Field(
        default="roles",
        description="Claim that holds a person's roles, a text or a list; dots lead into objects, "
        "as in `realm_access.roles`.",
    )
    roles: Mapping[Text, SignInRole] = Field(
        default={},
        description="Which value of the claim gives which role, such as "
        '`{ "dragoman-admins" = "operator" }`; a person without one is refused.',
    )
    tenant_claim: str = Field(
        default="", description="Claim that names a person's tenant; empty: `default` for all."
    )


class AuthSettings(Section):
    """Who may use the server."""

    mode: Literal["open", "keys"] = Field(
        default="open",
        description="`open`: every caller is an operator; `keys`: every caller needs an API key.",
    )
    insecure: bool = Field(
        default=False,
        description="Allow mode `open` on an address that other machines can reach.",
    )
    sign_in_hours: Hours = Field(
        default=12.0,
        description="How long a browser stays signed in to the console (mode `keys`).",
    )
    oidc: OidcSettings = OidcSettings()


class StoreSettings(Section):
    """Where API keys and experiments are kept."""

    database_url: DatabaseUrl = Field(
        default="sqlite:///{data_dir}/dragoman.db",
        description="Database of keys and experiments: `sqlite:///file`, `postgresql://...` or "
        "`mysql://...` (MariaDB and MySQL); `{data_dir}` stands for server.data_dir.",
    )


class AuditSettings(Section):
    """What operators did, kept in the database."""

    retention_days: CountOrZero = Field(
        default=365, description="How long an entry of the audit log is kept, in days; 0: for ever."
    )


class LogSettings(Section):
    """What the server logs, and in which format."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="`console`: lines for people; `json`: one object per line."
    )


class TracingSettings(Section):
    """Spans for a tracing system."""

    enabled: bool = Field(default=False, description="Send OpenTelemetry spans.")
    endpoint: str = Field(
        default="",
        description="OTLP address to send spans to; empty: use the `OTEL_` environment variables.",
    )


class LimitSettings(Section):
    """Limits on connections, messages, work in flight and memory."""

    max_frame_bytes: Bytes = Field(
        default=4194304,
        description="Largest message on a socket, in bytes; a larger one closes it (1009).",
    )
    max_sessions: Count = Field(
        default=10000,
        description="Maximum sessions open at once on one instance; the same number of sockets may "
        "wait for their session_init.",
    )
    sessions_per_tenant: CountOrZero = Field(
        default=0, description="Maximum sessions open at once for one tenant; 0: no limit."
    )
    max_inflight_per_session: Count = Field(
        default=64, description="Maximum utterances of one session without a delivered result."
    )
    max_inflight_per_tenant: CountOrZero = Field(
        default=0, description="Maximum unfinished jobs of one tenant; 0: no limit."
    )
    pending_per_pair: Count = Field(
        default=1000,
        description="Maximum jobs that wait for a node, per language pair on one instance.",
    )
    session_queue: Count = Field(
        default=256, description="Maximum results kept for a session until it acknowledges them."
    )
    session_queue_bytes: Bytes = Field(
        default=8388608,
        description="Maximum bytes kept for a session: audio, and results not yet acknowledged.",
    )
    listeners_per_session: CountOrZero = Field(
        default=10000,
        description="Maximum listeners of one session, on its instance; 0: no limit.",
    )
    node_queue: Count = Field(
        default=1024, description="Maximum messages waiting to be sent to one node."
    )
    node_queue_bytes: Bytes = Field(
        default=33554432, description="Maximum bytes waiting to be sent to one node."
    )
    buffered_bytes: Bytes = Field(
        default=1073741824,
        description=(
            "Maximum bytes that one instance keeps for all callers and nodes: audio, inputs, "
            "results, unfinished messages and requests. When it is reached, the instance drops "
            "results of ended jobs whose lease has passed, before their retention ends."
        ),
    )
    messages_per_second: Count = Field(
        default=500,
        description="Maximum messages per second on one session socket; each ping and each "
        "fragment counts as one; more closes it (4429).",
    )
    node_messages_per_second: Count = Field(
        default=20000,
        description="Maximum messages per second on one node socket, counted in the same way; "
        "more closes it (4429).",
    )
    sockets_per_address: CountOrZero = Field(
        default=20000,
        description="Maximum WebSockets open at once from one address; the same number of other "
        "connections is allowed; an IPv6 /64 network counts as one address; 0: no limit.",
    )
    sockets_per_key: CountOrZero = Field(
        default=20000,
        description="Maximum WebSockets open at once with one API key on one instance; 0: no "
        "limit.",
    )
    request_header_seconds: SecondsOrZero = Field(
        default=15,
        description="How long a caller may take from connecting to the end of its request headers, "
        "in seconds; 0: no limit.",
    )
    request_body_seconds: SecondsOrZero = Field(
        default=60,
        description="How long a caller may take to send its request body, plus one second for each "
        "kilobyte received, in seconds.",
    )
    auth_failures_per_minute: Count = Field(
        default=30,
        description="Wrong keys per minute from one address after which it is refused.",
    )
    sign_ins_per_minute: CountOrZero = Field(
        default=30,
        description="Sign-ins per minute from one address, right or wrong, after which it is "
        "refused; 0: no limit.",
    )
    open_requests_per_minute: CountOrZero = Field(
        default=1200,
        description="Requests and sockets per minute from one address that no key vouches for: "
        "pages, documents, sign-in, and calls without a key in mode `keys`; probes are not "
        "counted; 0: no limit.",
    )


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
    advertise_host: HostName | Literal[""] = Field(
        default="",
        description="Name or address at which other instances find this one; empty: server.host, "
        "or the name of the machine if the server listens on every address.",
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


Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False)]


class LiveSampleSettings(Section):
    """Which live jobs the lab scores; none unless a tenant is listed."""

    tenants: tuple[Text, ...] = Field(
        default=(), description="Tenants whose live jobs are sampled; empty: none."
    )
    share: Ratio = Field(
        default=0.01, description="Share of their jobs that is scored, from 0 to 1."
    )
    pairs: tuple[Pair, ...] = Field(
        default=(), description="Language pairs that are sampled, such as `en:es`; empty: all."
    )
    evaluators: tuple[Mapping[Text, Any], ...] = Field(
        default=(),
        description="Evaluators that score the sample, as in an experiment file, such as "
        '`[{ kind = "regex", pattern = "\\\\S" }]`; none that needs a reference.',
    )


class LabSettings(Section):
    """How experiments are run and what they may use."""

    enabled: bool = Field(default=True, description="Run experiments on this server.")
    analytics_url: AnalyticsUrl = Field(
        default="duckdb:///{data_dir}/lab.duckdb",
        description="Where the columnar copy of results is kept, which answers filters and "
        "aggregates fast: a DuckDB file, or a server as in `clickhouse://user:password@host:8123/"
        "database` (`clickhouses://` over TLS); `{data_dir}` stands for server.data_dir. Empty, or "
        "by default without the extra `lab`: results are read from store.database_url.",
    )
    queue_url: QueueUrl = Field(
        default="",
        description="How lab processes tell each other of work: empty: inside one process; "
        "`redis://host:6379` (or `rediss://`, `unix://`): through one Redis or Valkey server; "
        "`database`: through the notifications of the PostgreSQL database in store.database_url. "
        "Messages are hints: without them work is found every lab.safety_tick_ms.",
    )
    own_worker: bool = Field(
        default=True,
        description="The server works on items itself; false: it only schedules, and leaves the "
        "work to `dragoman worker`.",
    )
    item_concurrency: Count = Field(
        default=8, description="Items in progress at once in an experiment that sets no number."
    )
    max_item_concurrency: Count = Field(
        default=500, description="Maximum items of one experiment in progress at once."
    )
    running_experiments: Count = Field(
        default=200, description="Maximum experiments of one tenant that run at once."
    )
    lease_seconds: Seconds = Field(
        default=30,
        description="How long a worker keeps an item after it last renewed its lease, in seconds.",
    )
    safety_tick_ms: Milliseconds = Field(
        default=1000,
        description="How often the lab checks the database for work it got no message about, in "
        "milliseconds.",
    )
    item_timeout_seconds: Seconds = Field(
        default=600,
        description="How long one item may take in an experiment that sets no time, in seconds.",
    )
    tenant_tokens: CountOrZero = Field(
        default=0,
        description="Tokens that the experiments of one tenant may use up; then its runs stop and "
        "it can start none; 0: no limit.",
    )
    tenant_cost: Cost = Field(
        default=0,
        description="Cost that the experiments of one tenant may run up; then its runs stop and it "
        "can start none; 0: no limit.",
    )
    denied_words: tuple[Text, ...] = Field(
        default=(), description="Words that experiments may not have in their name or description."
    )
    max_items: Count = Field(default=10000000, description="Maximum items in one dataset version.")
    python_allow: tuple[Text, ...] = Field(
        default=(),
        description="Python functions that experiments may call over HTTP, as patterns such as "
        "`mytools.*`; empty: none.",
    )
    http_allow: tuple[Text, ...] = Field(
        default=(),
        description="Private hosts, addresses or networks that targets and judges may call; empty: "
        "none.",
    )
    key_env_allow: tuple[Text, ...] = Field(
        default=(),
        description="Environment variables of the server that experiments may send as API keys, "
        "each with the host that may receive it, such as `OPENAI_API_KEY@api.openai.com`; empty: "
        "none.",
    )
    ask_above_items: CountOrZero = Field(
        default=1000,
        description="Items of a run, each repetition for itself, above which `dragoman experiment "
        "run` estimates what the run takes and asks before it starts, if it is on a terminal; 0: "
        "never.",
    )
    retention_days: CountOrZero = Field(
        default=0,
        description="How long an experiment is kept after it ended, in days; then the lab removes "
        "it with all its results; 0: for ever. Of an experiment that never ends, runs that ended "
        "longer ago are removed, and items that were added and done longer ago. `dragoman lab "
        "prune` does it by hand.",
    )
    retention_experiments: CountOrZero = Field(
        default=0,
        description="How many experiments of one tenant are kept after they ended; the lab removes "
        "the oldest; 0: all.",
    )
    tenant_weights: Mapping[Text, Weight] = Field(
        default={},
        description="How much a tenant's experiments count beside those of others when workers are "
        "busy, as a table from tenant to weight, such as `{ acme = 2 }`; tenants that are not in "
        "it count 1.",
    )
    cache_days: CountOrZero = Field(
        default=30,
        description="How long the answer cache keeps an answer, in days; 0: until it is too large.",
    )
    live_sample: LiveSampleSettings = LiveSampleSettings()
    cache_answers: Count = Field(
        default=1000000,
        description="Maximum answers of one tenant in the answer cache; the oldest are removed.",
    )
