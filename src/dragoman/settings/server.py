"""Settings of the program itself: where it listens, who may use it, where it keeps its data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from dragoman.settings.forms import DatabaseUrl, HostName, Origin, ProxyAddress
from dragoman.settings.section import Port, SecondsOrZero, Section


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


class StoreSettings(Section):
    """Where API keys and experiments are kept."""

    database_url: DatabaseUrl = Field(
        default="sqlite:///{data_dir}/dragoman.db",
        description="Database of keys and experiments: `sqlite:///file` or `postgresql://...`; "
        "`{data_dir}` stands for server.data_dir.",
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
