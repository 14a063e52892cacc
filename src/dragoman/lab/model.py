"""The lab's nouns: datasets, experiments, runs, and their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple, NewType

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.cron import DEFAULT_TIMEZONE
from dragoman.lab.states import WORKING, ItemStatus, RunMode, RunStatus
from dragoman.observability import REDACTED, redact_text
from dragoman.openai_client import KEY_IN_SETTINGS
from dragoman.outbound import JsonValue as JsonValue

DatasetId = NewType("DatasetId", str)
VersionId = NewType("VersionId", str)
ItemId = NewType("ItemId", str)
"""The row of an item in one dataset version, in the tables and between the lab's rooms."""
ContentId = NewType("ContentId", str)
"""An item as users know it: the same content has the same id in every version and run."""
ExperimentId = NewType("ExperimentId", str)
RunId = NewType("RunId", str)
RecordId = NewType("RecordId", str)
"""The id of an output or a score: where it was made, so that a retry can name it again."""


class ItemKey(NamedTuple):
    """One repetition of an item: what is handed out, leased, logged and archived."""

    item_id: ItemId
    repetition: int = 0
    """From 0; users count from 1."""


Turn = Mapping[str, JsonValue]
"""One exchange of an item: its columns by name."""

_HEADERS, _URL = "headers", "url"
"""Settings that may hold secrets."""

_BATCH_BITS = 48
_CONTENT_BYTES = 12

_canonical = msgspec.json.Encoder(order="sorted").encode


def new_item_batch(random: Random) -> str:
    """A new prefix for the ids of items that are stored together."""
    return f"{random.getrandbits(_BATCH_BITS):012x}"


def item_id(batch: str, position: int) -> ItemId:
    """The id of an item; ids of one batch sort as the items were given."""
    return ItemId(f"i-{batch}{position:08x}")


def content_id(turns: Sequence[Turn]) -> ContentId:
    """The id of an item's content; the order of its columns does not matter."""
    return ContentId(f"i-{blake2b(_canonical(turns), digest_size=_CONTENT_BYTES).hexdigest()}")


def repeated_id(first: ContentId, occurrence: int) -> ContentId:
    """The id of an item whose content the version already has; `occurrence` counts from 1."""
    return first if occurrence == 1 else ContentId(f"{first}-{occurrence}")


class Item(msgspec.Struct, frozen=True):
    """One case of a dataset: a conversation of one or more turns."""

    item_id: ItemId
    turns: tuple[Turn, ...]
    content_id: ContentId | None = None
    """None of items that were stored before contents were known, which go by their own id."""

    @property
    def shown_id(self) -> str:
        """The id that users know."""
        return self.content_id or self.item_id


def shown_settings(settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The settings of a target or an evaluator without secrets, for others than its user."""
    return {name: _shown(name, value) for name, value in settings.items()}


def _shown(name: str, value: JsonValue) -> JsonValue:
    if name == KEY_IN_SETTINGS:  # of an experiment that was stored when keys were not refused
        return REDACTED
    if name == _HEADERS and isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    if name == _URL and isinstance(value, str):
        return redact_text(value)
    return value


class TargetSpec(msgspec.Struct, frozen=True):
    """What is tried: a kind of target and its settings, as the user wrote them."""

    kind: str
    settings: dict[str, JsonValue] = {}

    def __repr__(self) -> str:
        return f"TargetSpec({self.kind!r}, {shown_settings(self.settings)!r})"


class EvaluatorSpec(msgspec.Struct, frozen=True):
    """How an output is judged; the name is that of the score."""

    kind: str
    name: str
    weight: float = 1.0
    settings: dict[str, JsonValue] = {}

    def __repr__(self) -> str:
        told = (self.kind, self.name, self.weight, shown_settings(self.settings))
        return f"EvaluatorSpec{told!r}"


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an experiment may use up; None: as much as its tenant may."""

    tokens: int | None = None
    cost: float | None = None


DEFAULT_RETRIES = 2


class ExperimentSpec(msgspec.Struct, frozen=True):
    """The description of an experiment. None where the settings decide."""

    name: str
    dataset_version_id: VersionId | None
    target: TargetSpec
    evaluators: tuple[EvaluatorSpec, ...] = ()
    description: str = ""
    mapping: dict[str, str] = {}
    """Column names that the target and the evaluators use -> the dataset's own."""
    concurrency: int | None = None
    evaluator_concurrency: int | None = None
    retries: int = DEFAULT_RETRIES
    item_timeout_seconds: float | None = None
    time_limit_seconds: float | None = None
    budget: Budget = Budget()
    cron: str | None = None
    """When an append run starts by itself, such as `0 3 * * *`; None: never."""
    cron_timezone: str = DEFAULT_TIMEZONE
    """The time zone of `cron`, by its name in the IANA database."""
    cache: bool = False
    """Whether a question that the target was asked before is answered as it was then."""
    modules: str | None = None
    """The folder that functions of the user's own are imported from; None on a server."""
    repetitions: int = 1
    """How often each item is tried in a run."""
    weight: float = 1.0
    """How much its runs count beside the tenant's others when workers are busy."""
    evaluator_numbers: tuple[int, ...] = ()
    """What the evaluators' scores are stored under; empty: their places in the list.

    A number is never used again: the scores of an evaluator that another one replaced stay what
    they were.
    """

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each evaluator by its name."""
        numbers = self.evaluator_numbers or range(len(self.evaluators))
        named = zip(self.evaluators, numbers, strict=True)
        return {evaluator.name: number for evaluator, number in named}


class Experiment(msgspec.Struct, frozen=True):
    """A stored experiment, with its status."""

    experiment_id: ExperimentId
    tenant: TenantId
    spec: ExperimentSpec
    status: RunStatus
    reason: str | None
    run_id: RunId | None
    """The latest run; None before the first."""
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    next_run_at_ms: int | None


class Run(msgspec.Struct, frozen=True):
    """One execution of an experiment."""

    run_id: RunId
    experiment_id: ExperimentId
    tenant: TenantId
    mode: RunMode
    status: RunStatus
    reason: str | None
    item_ids: tuple[ItemId, ...]
    """The items named by retry_items; empty in other modes."""
    trial_items: int | None
    start_cursor: str
    """Items up to here have their rows; the start goes on after it."""
    start_done: bool
    items: int
    """How many repetitions of items the start has made rows for so far."""
    embedded: bool
    """Driven by the program that started it, which alone may know its functions."""
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    let_finish: bool = False
    """Of a run that is terminating: workers may finish the items they hold."""
    evaluators: tuple[EvaluatorSpec, ...] | None = None
    """Those of the experiment when the run started; None of runs before they could change."""
    stop_code: str | None = None
    """The code of items that a run that was stopped did not come to; None of one killed."""

    @property
    def is_worked_on(self) -> bool:
        """Whether a worker goes on with the run's items that it holds."""
        return self.status in WORKING or (self.status is RunStatus.TERMINATING and self.let_finish)


class Stats(msgspec.Struct, frozen=True):
    """How many items are in each state, each repetition for itself, and what they used up."""

    queueing: int = 0
    processing: int = 0
    success: int = 0
    fail: int = 0
    terminated: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def items(self) -> int:
        return self.queueing + self.processing + self.ended

    @property
    def ended(self) -> int:
        return self.success + self.fail + self.terminated

    @property
    def progress(self) -> float:
        """The share of the items that ended; 1 when there are none."""
        return self.ended / self.items if self.items else 1.0


class ScoreSummary(msgspec.Struct, frozen=True):
    """One score of an experiment as it was when a run ended."""

    count: int
    mean: float | None
    ci95: tuple[float, float] | None = None
    corpus: float | None = None
    """The score of all texts together, of evaluators that have one."""
    pass_rate: float | None = None


class Dataset(msgspec.Struct, frozen=True):
    """A named collection of cases, in versions that never change."""

    dataset_id: DatasetId
    tenant: TenantId
    name: str
    created_at_ms: int
    latest: DatasetVersion


class DatasetVersion(msgspec.Struct, frozen=True):
    """A dataset as it was stored at one time."""

    version_id: VersionId
    dataset_id: DatasetId
    version: int
    schema: dict[str, JsonValue]
    """The JSON-schema that every turn holds to."""
    items: int
    max_turns: int
    created_at_ms: int
    content: str | None = None
    """The hash of the items and the schema: the same content is the same version."""


class ResultRow(msgspec.Struct, frozen=True):
    """A turn as users see it: what went in, what came out, how it was judged."""

    item_id: ContentId
    turn: int
    run_id: RunId
    status: ItemStatus
    input: Turn
    output: Turn
    scores: dict[str, ScoreCell]
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    error_code: str | None
    error_message: str | None
    repetition: int = 1
    """Which of the item's repetitions, from 1."""
    cached: bool = False
    """Whether the output is the answer to the same question of an earlier call."""
    first_token_ms: float | None = None
    annotations: tuple[Annotation, ...] = ()
    """What people said of this output, in the order of names, each name's latest last."""

    @property
    def annotated(self) -> dict[str, Annotation]:
        """What was said last under each name."""
        return {one.name: one for one in self.annotations}


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person said of an output: a score, a label, a correction, or several of them."""

    name: str
    annotator: str
    score: float | None = None
    label: str | None = None
    correction: str | None = None

    @property
    def text(self) -> str | None:
        """What filters compare as text: the label, or else the correction."""
        return self.correction if self.label is None else self.label


class Agreement(msgspec.Struct, frozen=True):
    """How far an evaluator agrees with people, on the rows that both judged.

    Where several people judged a row, the label of most of them counts, and the mean of their
    scores. A figure is None where it cannot be computed, as when all labels are the same.
    """

    rows: int
    """Rows on which a label or a score could be compared."""
    same_label: float | None
    """The share of labels that are the same."""
    kappa: float | None
    """Cohen's kappa of the labels: agreement beyond chance."""
    pearson: float | None
    spearman: float | None
    """Correlations of the scores."""
    alpha: float | None
    """Krippendorff's alpha of all people and the evaluator, where there are several people."""


class AnnotatedName(msgspec.Struct, frozen=True):
    """What people said under one name, and how far they and the evaluators agree."""

    rows: int
    annotations: int
    annotators: int
    alpha: float | None
    """Krippendorff's alpha of the people; None where no two of them judged the same row."""
    evaluators: dict[str, Agreement]
    """By the names of scores; those that cannot be compared are left out."""


class Calibration(msgspec.Struct, frozen=True):
    """How far a judge agreed with people when it was measured."""

    annotation: str
    """The name under which people judged."""
    rows: int
    same_label: float | None
    kappa: float | None
    pearson: float | None
    spearman: float | None
    alpha: float | None
    model: str
    prompt: str
    """The hash of the words that the judge is asked in."""
    fingerprint: str
    """What identifies the judge: model, settings and prompt together."""
    experiment_id: ExperimentId
    """Where people judged its scores."""
    measured_at_ms: int

    @property
    def agreement(self) -> float | None:
        """The one figure for people and gates: kappa of labels, else Spearman's correlation."""
        return self.spearman if self.kappa is None else self.kappa


class ScoreCell(msgspec.Struct, frozen=True):
    """What one evaluator said of a turn."""

    score: float | None = None
    label: str | None = None
    reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    statistics: tuple[float, ...] | msgspec.UnsetType | None = msgspec.UNSET
    """What corpus scores are computed from; only in rows that were asked for with it."""
