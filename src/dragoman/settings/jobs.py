"""Settings of jobs: how long a request is bound, how long a job may take, which node it gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dragoman.settings import forms
from dragoman.settings.section import (
    Count,
    CountOrZero,
    Ratio,
    Seconds,
    SecondsOrZero,
    Section,
    Text,
)

LARGEST_CELL = 100
MOST_CELLS = 1000

CellNumber = Annotated[int, Field(ge=0, lt=MOST_CELLS)]
CellNumbers = Annotated[tuple[CellNumber, ...], AfterValidator(forms.not_empty)]


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
        "(`power_of_two`), the least loaded (`least_loaded`), or faster nodes more often "
        "(`latency_weighted`).",
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
