"""The lab's tables.

Three layers. What was asked for: datasets, experiments, runs. What scheduling sees, appended per
run: the thin `item_run_log` and the fat `turn_run_log`. What users see, one row an item or turn:
`item_result` and `turn_result`, which refer to outputs and scores that are written once. In all of
them an item that is tried several times in a run has a row for every repetition.
"""

from __future__ import annotations

import sqlalchemy as sa

from dragoman.store import long_text, metadata, real, short_text, time_ms

_ID = 64
_STATE = 16
_CODE = 64
_RECORD = 120


def _tenant() -> sa.Column[str]:
    return sa.Column("tenant", short_text(), nullable=False)


def _id(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, short_text(_ID), nullable=null)


def _repetition(*, key: bool = False) -> sa.Column[int]:
    """Which time the item is tried in a run, from 0; users count from 1."""
    return sa.Column(
        "repetition",
        sa.Integer,
        primary_key=key,
        autoincrement=False,
        nullable=False,
        server_default=sa.text("0"),
    )


# --- what was asked for ---------------------------------------------------------------------------

dataset = sa.Table(
    "dataset",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    sa.Column("name", short_text(), nullable=False),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.UniqueConstraint("tenant", "name"),
)

dataset_version = sa.Table(
    "dataset_version",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    _id("dataset_id"),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("schema_json", long_text(), nullable=False),
    sa.Column("item_count", sa.Integer, nullable=False),
    sa.Column("max_turns", sa.Integer, nullable=False),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("content", short_text(_ID)),
    sa.UniqueConstraint("dataset_id", "version"),
)
"""Written last: the items of a version that is not here are leftovers of a broken import.

`content` is the hash of the items in their order and of the schema.
"""

dataset_item = sa.Table(
    "dataset_item",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    _id("version_id", null=True),
    _id("experiment_id", null=True),
    sa.Column("turn_count", sa.Integer, nullable=False),
    sa.Column("turns_json", long_text(), nullable=False),
    sa.Column("content_id", short_text(_ID)),
    # The start of a run reads these three and never the turns themselves.
    sa.Index(None, "version_id", "id", "turn_count"),
    sa.Index(None, "experiment_id", "id", "turn_count"),
)
"""One row an item and version. `id` sorts as the items were given and is the `item_id` of every
table below, so that the rows of a run lie together in the order they are worked on. Users know an
item by its `content_id`, which is the same in every version that has it.
"""

dataset_content = sa.Table(
    "dataset_content",
    metadata,
    sa.Column("version_id", short_text(_ID), primary_key=True),
    sa.Column("content_id", short_text(_ID), primary_key=True),
    _id("item_id"),
    sqlite_with_rowid=False,
)
"""Which item of a version holds what. Filled in the order of the contents, after the items."""

dataset_audio = sa.Table(
    "dataset_audio",
    metadata,
    sa.Column("version_id", short_text(_ID), primary_key=True),
    sa.Column("sha256", short_text(_ID), primary_key=True),
    sa.Column("media_type", short_text(_ID), nullable=False),
    sa.Index(None, "sha256"),
    sqlite_with_rowid=False,
)
"""The audio files that a version refers to. The files themselves are in the data folder."""

experiment = sa.Table(
    "experiment",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    sa.Column("name", short_text(), nullable=False),
    _id("dataset_version_id", null=True),
    sa.Column("spec_json", long_text(), nullable=False),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("reason", long_text()),
    _id("run_id", null=True),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("started_at_ms", time_ms()),
    sa.Column("ended_at_ms", time_ms()),
    sa.Column("next_run_at_ms", time_ms()),
    sa.UniqueConstraint("tenant", "name"),
    sa.Index(None, "tenant", "created_at_ms", "id"),
    sa.Index(None, "dataset_version_id"),
    sa.Index(None, "ended_at_ms"),
    sa.Index(None, "next_run_at_ms"),
)

run_log = sa.Table(
    "run_log",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    _id("experiment_id"),
    sa.Column("mode", short_text(_STATE), nullable=False),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("reason", long_text()),
    sa.Column("item_ids_json", long_text(), nullable=False),
    sa.Column("trial_items", sa.Integer),
    sa.Column("start_cursor", short_text(_ID), nullable=False),
    sa.Column("start_done", sa.Boolean, nullable=False),
    sa.Column("item_count", sa.Integer, nullable=False),
    sa.Column("embedded", sa.Boolean, nullable=False),
    sa.Column("evaluators_json", long_text()),
    sa.Column("let_finish", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("stop_code", short_text(_CODE)),
    sa.Column("fingerprints_json", long_text()),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("started_at_ms", time_ms()),
    sa.Column("ended_at_ms", time_ms()),
    sa.Column("due_at_ms", time_ms()),
    sa.Index(None, "status", "tenant"),
    sa.Index(None, "experiment_id", "created_at_ms"),
)
"""`evaluators_json`: the evaluators of the run. NULL: stored before they could change.

`stop_code`: the code of the items that a run that was stopped did not come to. NULL: it was killed.
`due_at_ms`: the time for which it started by itself. NULL: a user started it.
"""

# --- what scheduling sees -------------------------------------------------------------------------

item_run_log = sa.Table(
    "item_run_log",
    metadata,
    sa.Column("run_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    _repetition(key=True),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("result_state", short_text(_STATE), nullable=False),
    sa.Column("try_no", sa.Integer, nullable=False),
    sa.Column("first_try_no", sa.Integer, nullable=False),
    sa.Column("archived_try_no", sa.Integer, nullable=False),
    sa.Column("lineage", short_text(_RECORD), nullable=False),
    sa.Column("lease_owner", short_text(_ID)),
    sa.Column("lease_token", sa.BigInteger, nullable=False),
    sa.Column("lease_expires_at", time_ms()),
    # Every scan names run, result_state and status: what is archived is out of its sight.
    sa.Index(None, "run_id", "result_state", "status", "item_id", "repetition"),
    sqlite_with_rowid=False,
)
"""One row a repetition of an item and run.

`lineage` says since which try outputs and scores may be reused.
"""

turn_run_log = sa.Table(
    "turn_run_log",
    metadata,
    sa.Column("run_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    _repetition(key=True),
    sa.Column("turn_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("try_no", sa.Integer, primary_key=True, autoincrement=False),
    _tenant(),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("target_record_id", short_text(_RECORD)),
    sa.Column("error_code", short_text(_CODE)),
    sa.Column("error_message", long_text()),
    sa.Column("logged_at_ms", time_ms(), nullable=False),
)
"""One row a turn and try, never changed."""

turn_score = sa.Table(
    "turn_score",
    metadata,
    sa.Column("run_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    _repetition(key=True),
    sa.Column("turn_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("try_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("evaluator_no", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("evaluator_record_id", short_text(_RECORD), nullable=False),
    sqlite_with_rowid=False,
)
"""Which scores a try has; a score that was reused is referred to again."""

# --- what users see -------------------------------------------------------------------------------

item_result = sa.Table(
    "item_result",
    metadata,
    sa.Column("experiment_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    _repetition(key=True),
    _tenant(),
    _id("run_id"),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("try_no", sa.Integer, nullable=False),
    sa.Column("lineage", short_text(_RECORD), nullable=False),
    sa.Index(None, "experiment_id", "status", "item_id", "repetition"),
    sqlite_with_rowid=False,
)

turn_result = sa.Table(
    "turn_result",
    metadata,
    sa.Column("experiment_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    _repetition(key=True),
    sa.Column("turn_no", sa.Integer, primary_key=True, autoincrement=False),
    _tenant(),
    _id("run_id"),
    sa.Column("try_no", sa.Integer, nullable=False),
    sa.Column("status", short_text(_STATE), nullable=False),
    sa.Column("target_record_id", short_text(_RECORD)),
    sa.Column("error_code", short_text(_CODE)),
    sa.Column("error_message", long_text()),
)

target_record = sa.Table(
    "target_record",
    metadata,
    sa.Column("id", short_text(_RECORD), primary_key=True),
    _tenant(),
    _id("run_id"),
    _id("item_id"),
    _repetition(),
    sa.Column("turn_no", sa.Integer, nullable=False),
    sa.Column("output_json", long_text(), nullable=False),
    sa.Column("main", short_text(), nullable=False),
    sa.Column("latency_ms", real()),
    sa.Column("tokens", sa.BigInteger),
    sa.Column("cost", real()),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("cached", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("first_token_ms", real()),
    sa.Index(None, "run_id"),
)

evaluator_record = sa.Table(
    "evaluator_record",
    metadata,
    sa.Column("id", short_text(_RECORD), primary_key=True),
    _tenant(),
    _id("run_id"),
    _id("item_id"),
    _repetition(),
    sa.Column("turn_no", sa.Integer, nullable=False),
    sa.Column("name", short_text(), nullable=False),
    sa.Column("score", real()),
    sa.Column("label", long_text()),
    sa.Column("reason", long_text()),
    sa.Column("statistics_json", long_text()),
    sa.Column("error_code", short_text(_CODE)),
    sa.Column("error_message", long_text()),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Index(None, "run_id"),
)
"""`statistics_json` is a list of numbers; corpus scores are computed from their sums over turns."""

experiment_stats = sa.Table(
    "experiment_stats",
    metadata,
    sa.Column("run_id", short_text(_ID), primary_key=True),
    _id("experiment_id"),
    _tenant(),
    *(
        sa.Column(name, sa.Integer, nullable=False)
        for name in ("queueing", "processing", "success", "fail", "terminated")
    ),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", real(), nullable=False),
    sa.Index(None, "tenant"),
    sa.Index(None, "experiment_id"),
)
"""What runs used up, added as it is used; their final counts, written at the end."""

experiment_aggregate = sa.Table(
    "experiment_aggregate",
    metadata,
    sa.Column("run_id", short_text(_ID), primary_key=True),
    _id("experiment_id"),
    _tenant(),
    sa.Column("aggregates_json", long_text(), nullable=False),
    sa.Index(None, "experiment_id"),
)
"""The experiment's aggregates as they were when a run of it ended."""

# --- who may do what ------------------------------------------------------------------------------

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("name", short_text(), primary_key=True),
    sa.Column("owner", short_text(_ID), nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("expires_at", time_ms(), nullable=False),
)
"""Who drives a run; the token grows with every new owner."""

worker = sa.Table(
    "worker",
    metadata,
    sa.Column("owner", short_text(_ID), primary_key=True),
    sa.Column("host", short_text(), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("version", short_text(_CODE), nullable=False),
    sa.Column("schedules", sa.Boolean, nullable=False),
    sa.Column("mirror", short_text(), nullable=False),
    sa.Column("is_draining", sa.Boolean, nullable=False),
    sa.Column("capacity", sa.Integer, nullable=False),
    sa.Column("items_done", sa.BigInteger, nullable=False),
    sa.Column("items_per_second", real(), nullable=False),
    sa.Column("doing_json", long_text(), nullable=False),
    sa.Column("started_at_ms", time_ms(), nullable=False),
    sa.Column("seen_at_ms", time_ms(), nullable=False),
)
"""The lab's processes on all machines, as each last reported itself. Only shown, never relied on:
who holds what is in the leases."""

target_pace = sa.Table(
    "target_pace",
    metadata,
    sa.Column("target", short_text(_ID), primary_key=True),
    _tenant(),
    sa.Column("title", long_text(), nullable=False),
    sa.Column("most", sa.Integer),
    sa.Column("learned_json", long_text()),
    sa.Index(None, "tenant"),
)
"""How many calls at once a target takes, over all workers, and what they learned of its limit."""

target_share = sa.Table(
    "target_share",
    metadata,
    sa.Column("target", short_text(_ID), primary_key=True),
    sa.Column("claimant", short_text(), primary_key=True),
    sa.Column("wanted", sa.Integer, nullable=False),
    sa.Column("granted", sa.Integer, nullable=False),
    sa.Column("seen_at_ms", time_ms(), nullable=False),
    sa.Index(None, "claimant"),
)
"""How many calls at once a run of a worker may make of what its target takes."""

quota = sa.Table(
    "quota",
    metadata,
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("running_experiments", sa.Integer),
    sa.Column("tokens", sa.BigInteger),
    sa.Column("cost", real()),
)
"""Limits of one tenant; NULL where the settings hold. Also the row that its starts lock."""

annotation = sa.Table(
    "annotation",
    metadata,
    sa.Column("id", short_text(_ID), primary_key=True),
    _tenant(),
    _id("experiment_id"),
    _id("item_id"),
    sa.Column("turn_no", sa.Integer, nullable=False),
    sa.Column("name", short_text(), nullable=False),
    sa.Column("score", real()),
    sa.Column("label", long_text()),
    sa.Column("correction", long_text()),
    sa.Column("author", short_text(), nullable=False),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    _repetition(),
    sa.Column("target_record_id", short_text(_RECORD), nullable=False, server_default=""),
    sa.Index(None, "experiment_id", "item_id", "turn_no"),
    sa.Index(
        "ix_annotation_who_said_what",
        *("experiment_id", "item_id", "repetition", "turn_no", "target_record_id"),
        *("name", "author"),
        unique=True,
    ),
)
"""People's judgements of a row.

One is about the output that the row had when it was given, `target_record_id`, empty where it had
none: when the row gets another output, the judgement is not about that.
"""

calibration = sa.Table(
    "calibration",
    metadata,
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("fingerprint", short_text(_ID), primary_key=True),
    sa.Column("annotation", short_text(), primary_key=True),
    sa.Column("experiment_id", short_text(_ID), primary_key=True),
    sa.Column("model", long_text(), nullable=False),
    sa.Column("prompt", short_text(_ID), nullable=False),
    sa.Column("compared", sa.Integer, nullable=False),
    *(sa.Column(name, real()) for name in ("same_label", "kappa", "pearson", "spearman", "alpha")),
    sa.Column("measured_at_ms", time_ms(), nullable=False),
)
"""How far judges agree with people; a judge is known by its fingerprint in every experiment."""

response_cache = sa.Table(
    "response_cache",
    metadata,
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("key", short_text(_ID), primary_key=True),
    sa.Column("output_json", long_text(), nullable=False),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Index(None, "tenant", "created_at_ms"),
)
"""Answers of targets and judges by what was asked, for experiments that want them again."""

pending_removal = sa.Table(
    "pending_removal",
    metadata,
    sa.Column("kind", short_text(_STATE), primary_key=True),
    sa.Column("id", short_text(_ID), primary_key=True),
)
"""Experiments and dataset versions that users no longer see and whose rows are not all gone."""

# --- what the columnar mirror lacks ---------------------------------------------------------------

mirror_state = sa.Table(
    "mirror_state",
    metadata,
    sa.Column("name", short_text(_STATE), primary_key=True),
    _id("mirror_id"),
    sa.Column("flush_no", sa.BigInteger, nullable=False),
)
"""Which mirror follows this database, and how often it was written to; without a row, none does."""

mirror_change = sa.Table(
    "mirror_change",
    metadata,
    sa.Column("experiment_id", short_text(_ID), primary_key=True),
    sa.Column("item_id", short_text(_ID), primary_key=True),
    sa.Column("change_no", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Items that changed since the mirror was written to; triggers note them, in the transaction of the
change. `change_no` grows when an item changes again while its last change is being copied. An empty
item stands for an experiment that was deleted.
"""
