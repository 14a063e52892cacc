"""Settings of the lab plane: experiments, their limits and what they may reach."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dragoman.settings.forms import AnalyticsUrl
from dragoman.settings.section import Count, CountOrZero, Milliseconds, Seconds, Section, Text

Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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
        default=0, description="Tokens after which a tenant can make no experiments; 0: no limit."
    )
    tenant_cost: Cost = Field(
        default=0, description="Cost after which a tenant can make no experiments; 0: no limit."
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
    cache_days: CountOrZero = Field(
        default=30,
        description="How long the answer cache keeps an answer, in days; 0: until it is too large.",
    )
    cache_answers: Count = Field(
        default=1000000,
        description="Maximum answers of one tenant in the answer cache; the oldest are removed.",
    )
