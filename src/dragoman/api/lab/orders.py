"""What callers may ask of the lab, as they write it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from dragoman.errors import InvalidFilter, InvalidMessage
from dragoman.lab.annotations import NewAnnotation
from dragoman.lab.comparison import CompareAsk
from dragoman.lab.cron import DEFAULT_TIMEZONE
from dragoman.lab.estimates import Sample
from dragoman.lab.experiments import StartAsk
from dragoman.lab.filters import MAX_DEPTH, parse_filter
from dragoman.lab.model import (
    Annotation,
    Budget,
    EvaluatorSpec,
    ExperimentSpec,
    JsonValue,
    TargetSpec,
    VersionId,
)
from dragoman.lab.states import RunMode
from dragoman.live.protocol import decode_body

_CURSOR_DIGITS = 15

Order = TypeVar("Order", bound=msgspec.Struct)

MOST_TURNS = 10**12
"""More items or turns than any dataset has: what is reckoned with them still fits."""


class ExperimentOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A new experiment. Target and evaluators are a `kind` with the settings of that kind."""

    name: str
    target: dict[str, JsonValue]
    dataset_version_id: str | None = None
    evaluators: list[dict[str, JsonValue]] = []
    description: str = ""
    mapping: dict[str, str] = {}
    concurrency: int | None = None
    evaluator_concurrency: int | None = None
    retries: int | None = None
    item_timeout_seconds: float | None = None
    time_limit_seconds: float | None = None
    budget: Budget | None = None
    cron: str | None = None
    cron_timezone: str = DEFAULT_TIMEZONE
    cache: bool | None = None
    repetitions: int = 1
    weight: float = 1.0
    """How much its runs count beside the tenant's others when workers are busy."""

    def spec(self) -> ExperimentSpec:
        """What the lab stores."""
        version_id = self.dataset_version_id
        asked = ExperimentSpec(
            name=self.name,
            dataset_version_id=None if version_id is None else VersionId(version_id),
            target=_target(self.target),
            evaluators=tuple(
                _evaluator(number, given) for number, given in enumerate(self.evaluators)
            ),
            description=self.description,
            mapping=self.mapping,
            concurrency=self.concurrency,
            evaluator_concurrency=self.evaluator_concurrency,
            item_timeout_seconds=self.item_timeout_seconds,
            time_limit_seconds=self.time_limit_seconds,
            budget=self.budget or Budget(),
            cron=self.cron,
            cron_timezone=self.cron_timezone,
            repetitions=self.repetitions,
            weight=self.weight,
            cache=bool(self.cache),
        )
        if self.retries is None:
            return asked
        return msgspec.structs.replace(asked, retries=self.retries)


class SubmitOrder(ExperimentOrder, forbid_unknown_fields=True):
    """A new experiment that is started at once."""

    mode: RunMode | None = None
    """Left out: append with `cron` or without a dataset, else submit."""
    trial_items: int | None = None

    def ask(self) -> StartAsk:
        """How it is started."""
        appends = self.cron is not None or self.dataset_version_id is None
        default = RunMode.APPEND if appends else RunMode.SUBMIT
        return StartAsk(self.mode or default, trial_items=self.trial_items)


class InvokedItem(msgspec.Struct, forbid_unknown_fields=True):
    """An item for an append experiment."""

    turns: list[dict[str, JsonValue]]


class InvokeOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Items for an append experiment; all of them are taken, or none."""

    items: list[InvokedItem]


class SampleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Some items of a dataset that the lab does not have, and what is known of the others."""

    items: list[list[dict[str, JsonValue]]]
    """The turns of each item."""
    total_items: Annotated[int, msgspec.Meta(ge=1, le=MOST_TURNS)]
    total_turns: Annotated[int, msgspec.Meta(ge=1, le=MOST_TURNS)]
    schema: dict[str, JsonValue] = {}
    """The JSON-schema of a turn; left out, the columns of the items are all there are."""

    def sample(self) -> Sample:
        """What the lab estimates from."""
        columns: dict[str, JsonValue] = {
            name: {} for turns in self.items for turn in turns for name in turn
        }
        items = tuple(tuple(turns) for turns in self.items)
        schema = self.schema or {"type": "object", "properties": columns}
        return Sample(items, self.total_items, self.total_turns, schema)


class EstimateOrder(ExperimentOrder, forbid_unknown_fields=True):
    """An experiment to estimate; with `sample` the dataset need not be in the lab."""

    sample: SampleOrder | None = None


class RunOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A new run of an experiment."""

    mode: RunMode = RunMode.SUBMIT
    item_ids: list[str] = []
    trial_items: int | None = None


class ScoreOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Evaluators for outputs that are stored; one of the same name replaces the former one."""

    evaluators: list[dict[str, JsonValue]]

    def specs(self) -> list[EvaluatorSpec]:
        return [_evaluator(number, given) for number, given in enumerate(self.evaluators)]


class ChangeOrder(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to an experiment, even while it runs; a field that is left out stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    budget: Budget | msgspec.UnsetType = msgspec.UNSET
    concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    retries: int | msgspec.UnsetType = msgspec.UNSET
    weight: float | msgspec.UnsetType = msgspec.UNSET

    def changes(self) -> dict[str, object]:
        """The fields that were given."""
        every = msgspec.structs.asdict(self)
        return {name: value for name, value in every.items() if value is not msgspec.UNSET}


class CloneOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A copy of an experiment; without a name, it gets the original's with a number."""

    name: str | None = None


class InFlight(StrEnum):
    """What becomes of calls that are being made when a run is killed."""

    CANCEL = "cancel"
    FINISH = "finish"


class KillOrder(msgspec.Struct, forbid_unknown_fields=True):
    """How a run is ended."""

    in_flight: InFlight = InFlight.CANCEL


class SortOrder(msgspec.Struct, forbid_unknown_fields=True):
    """One field that results are sorted by."""

    field: str
    order: str = "asc"


class ResultsOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Which results are wanted."""

    filter: JsonValue = None
    sort: list[SortOrder] = []
    cursor: str | None = None
    limit: int = 100
    columns: list[str] | None = None
    run_id: str | None = None


class AnnotationOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says of a row: a score, a label, a correction, or several of them."""

    item_id: str
    name: str
    """What is judged, such as the name of the score that the person gives, too."""
    score: float | None = None
    label: str | None = None
    correction: str | None = None
    """What the output should have been."""
    turn: int = 0
    repetition: int = 1
    annotator: str | None = None
    """Who says it; the caller's key when it is left out."""

    def annotation(self, caller: str) -> NewAnnotation:
        """What the lab stores."""
        who = caller if self.annotator is None else self.annotator
        said = Annotation(self.name, who, self.score, self.label, self.correction)
        return NewAnnotation(self.item_id, said, self.turn, self.repetition)


class AnnotationsOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What people say of many rows; all of it is stored, or nothing."""

    annotations: list[AnnotationOrder]


class _Form(msgspec.Struct):
    annotations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read_annotations(body: bytes) -> tuple[list[AnnotationOrder], bool]:
    """The annotations in a body, and whether it lists several."""
    if read_order(body, _Form).annotations is msgspec.UNSET:
        return [read_order(body, AnnotationOrder)], False
    return read_order(body, AnnotationsOrder).annotations, True


class CompareOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Which runs to compare: experiments by name or id, or runs by id."""

    others: list[str]
    baseline: str | None = None
    """Left out: the last finished run of the same experiment, before the first of the others."""
    filter: JsonValue = None
    """Which turns count, by the rows of the baseline."""
    cluster: str | None = None
    """A column whose values name what belongs together, such as a speaker or a document."""
    sort_by: str | None = None
    """The score whose biggest losses come first; left out: the first that was compared."""
    limit: int = 20
    cursor: str | None = None

    def ask(self) -> CompareAsk:
        cursor = self.cursor or "0"
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < _CURSOR_DIGITS):
            raise InvalidMessage(
                "The cursor is not one of this comparison; take `next` from the page before."
            )
        return CompareAsk(
            others=tuple(self.others),
            baseline=self.baseline,
            wanted=parse_filter(self.filter),
            cluster=self.cluster,
            sort_by=self.sort_by,
            rows=self.limit,
            skip=int(cursor),
        )


class TryOrder(msgspec.Struct, forbid_unknown_fields=True):
    """An evaluator to try, and the values to try it on."""

    evaluator: dict[str, JsonValue]
    turn: dict[str, JsonValue] = {}
    output: JsonValue = None
    """The main output, or an object with every column of it."""
    latency_ms: float | None = None
    """How long the target took, for evaluators of that."""
    scores: dict[str, float] = {}
    """What other evaluators said, for a composite."""


def read_order(body: bytes, kind: type[Order]) -> Order:
    """The order in a body; one that does not have the form is refused by the field's name."""
    try:
        return decode_body(body or b"{}", kind)
    except InvalidMessage as error:
        if kind is ResultsOrder and isinstance(error.__cause__, RecursionError):
            raise _too_deep() from None  # nothing else of it can be deep
        raise


def read_filter(text: str | None) -> JsonValue:
    """The filter of a query, which is JSON in text."""
    if not text:
        return None
    try:
        tree: JsonValue = msgspec.json.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.MsgspecError as error:
        raise InvalidFilter(
            f"`filter` is not valid JSON ({error}).", details={"field": "filter"}
        ) from None
    return tree


def _too_deep() -> InvalidFilter:
    return InvalidFilter(
        f"`filter` does not fit: it is nested deeper than {MAX_DEPTH} levels.",
        details={"field": "filter"},
    )


def evaluator_spec(given: dict[str, JsonValue], where: str = "evaluator") -> EvaluatorSpec:
    """The evaluator that a caller describes."""
    settings = dict(given)
    kind = _taken(settings, "kind", str, where)
    if kind is None:
        raise InvalidMessage(f"`{where}.kind` is missing; GET /evaluators lists the kinds.")
    name = _taken(settings, "name", str, where)
    weight = _taken(settings, "weight", float, where)
    return EvaluatorSpec(kind, name or kind, 1.0 if weight is None else weight, settings)


def _evaluator(number: int, given: dict[str, JsonValue]) -> EvaluatorSpec:
    return evaluator_spec(given, f"evaluators[{number}]")


def _target(given: dict[str, JsonValue]) -> TargetSpec:
    settings = dict(given)
    kind = _taken(settings, "kind", str, "target")
    if kind is None:
        raise InvalidMessage("`target.kind` is missing; GET /targets lists the kinds.")
    return TargetSpec(kind, settings)


Wanted = TypeVar("Wanted", str, float)


def _taken(
    settings: dict[str, JsonValue], key: str, wanted: type[Wanted], where: str
) -> Wanted | None:
    value = settings.pop(key, None)
    try:
        return None if value is None else msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise InvalidMessage(
            f"`{where}.{key}` does not fit: {error}.", details={"field": f"{where}.{key}"}
        ) from None
