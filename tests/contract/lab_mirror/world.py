"""Random results in a database, a mirror that follows it, and the answers of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from random import Random
from typing import Any, ParamSpec

import msgspec
import sqlalchemy as sa

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.experiments.asking import with_evaluators
from dragoman.lab.mirror import Following, Mirror, Mirrored
from dragoman.lab.mirror.batches import Batch, Field, Slots, TurnRow, column_of
from dragoman.lab.mirror.queries import Query
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    ItemId,
    ItemKey,
    JsonValue,
    TargetSpec,
    VersionId,
)
from dragoman.lab.repository import Copied, experiments
from dragoman.lab.repository.result_rows import every_turn
from dragoman.lab.repository.tables import (
    annotation,
    dataset_item,
    evaluator_record,
    target_record,
    turn_result,
    turn_score,
)
from dragoman.lab.results import Results
from dragoman.lab.states import RunStatus
from dragoman.observability import Metrics
from dragoman.store import Store, StoreConnection, open_store

TENANT = TenantId("acme")
KINDS = {"exact": "exact", "chrf": "chrf", "a.b": "wer"}
"""The names of scores, and what gives them."""
NAMES = tuple(KINDS)
EVALUATORS = tuple(
    EvaluatorSpec(kind, name, settings={"reference": "reference"}) for name, kind in KINDS.items()
)
STATISTICS = {"exact": 0, "chrf": 18, "a.b": 4}
"""How many numbers each keeps of a turn."""
TEXTS = (
    "",
    "a",
    "Ab",
    "b",
    "ñandú",
    "日本語",
    "a\nb",
    "it's",
    "back\\slash",
    "tab\there",
    "z'\\n",
    "😀",
)
CODES = (None, None, "TARGET_ERROR", "EVALUATOR_ERROR", "WORKER_LOST", "RATE_LIMITED")
STATUSES = ("success", "success", "fail", "terminated", "queueing", "processing")
NUMBERS = (0.0, 1.0, -1.5, 0.1, 3.0, 100.0, 1e-9)


def asked_of(
    experiment_id: ExperimentId, evaluators: tuple[EvaluatorSpec, ...] = EVALUATORS
) -> Mirrored:
    """What a mirror is asked about, of an experiment whose evaluators never changed."""
    numbers = {one.name: number for number, one in enumerate(evaluators)}
    return Mirrored(experiment_id, evaluators, numbers)


def _listed(statistics: Sequence[float] | None) -> str | None:
    return msgspec.json.encode(statistics).decode() if statistics else None


Test = ParamSpec("Test")


def in_a_loop(test: Callable[Test, Coroutine[Any, Any, None]]) -> Callable[Test, None]:
    """A test that waits for things."""

    @wraps(test)
    def run(*args: Test.args, **kwargs: Test.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Scored(msgspec.Struct):
    """A turn, what came out, and of each evaluator the score and its statistics."""

    turn: Mapping[str, JsonValue]
    output: Mapping[str, JsonValue]
    scores: Sequence[tuple[float | None, Sequence[float] | None]]


class World:
    """A database with experiments that no run made."""

    def __init__(self, store: Store, random: Random) -> None:
        self.store = store
        self.random = random
        self._number = 0
        self._repetitions: dict[ExperimentId, int] = {}

    async def new_experiment(
        self,
        items: int,
        *,
        repetitions: int = 1,
        evaluators: tuple[EvaluatorSpec, ...] = EVALUATORS,
    ) -> ExperimentId:
        self._number += 1
        experiment_id = ExperimentId(f"e-{self._number}")
        spec = ExperimentSpec(
            f"experiment {self._number}",
            VersionId("v-1"),
            TargetSpec("python"),
            evaluators,
            repetitions=repetitions,
        )
        self._repetitions[experiment_id] = repetitions
        made = Experiment(
            experiment_id, TENANT, spec, RunStatus.PENDING, None, None, 0, None, None, None
        )
        await self.store.write(lambda c: experiments.insert_experiment(c, made))
        await self.add_items(experiment_id, items)
        return experiment_id

    async def add_items(self, experiment_id: ExperimentId, items: int) -> list[str]:
        """Items of one to three turns that have got anywhere."""
        added: list[str] = []

        def add(connection: StoreConnection) -> None:
            for _ in range(items):
                added.append(self._add_item(connection, experiment_id))

        await self.store.write(add)
        return added

    def _add_item(self, connection: StoreConnection, experiment_id: ExperimentId) -> str:
        random = self.random
        self._number += 1
        item_id = f"i-{self._number:06d}"
        turns = [self._columns() for _ in range(random.choice((1, 1, 1, 2, 3)))]
        self._insert_item(connection, item_id, turns)
        for repetition in range(self._repetitions.get(experiment_id, 1)):
            for turn_no in range(len(turns)):
                key = ItemKey(ItemId(item_id), repetition)
                self._add_turn(connection, experiment_id, key, turn_no)
        return item_id

    def _columns(self) -> dict[str, JsonValue]:
        random = self.random
        values: tuple[Any, ...] = (*TEXTS, *NUMBERS, None, True, ["a", 1], {"k": "a"})
        names = ("domain", "source", "a.b", 'q"uote', "n")
        found = {name: random.choice(values) for name in names if random.random() < 0.8}
        return {**found, "domain": random.choice(("news", "chat", None, 3))}

    def _add_turn(
        self, connection: StoreConnection, experiment_id: ExperimentId, key: ItemKey, turn_no: int
    ) -> None:
        random = self.random
        status = random.choice(STATUSES)
        code = random.choice(CODES) if status in ("fail", "terminated") else None
        record = None
        if status == "success" or (status == "fail" and random.random() < 0.5):
            record = self._insert_output(connection, key, turn_no, self._columns())
        self._insert_turn(connection, experiment_id, key, turn_no, status, record, code)
        for annotator in ("ann", "bob"):
            if random.random() < 0.3:
                self._annotate(connection, experiment_id, key, turn_no, record, annotator)
        if record is not None:
            for number, name in enumerate(NAMES):
                if random.random() < 0.8:
                    self._add_score(connection, key, turn_no, number, name)

    def _add_score(
        self, connection: StoreConnection, key: ItemKey, turn_no: int, number: int, name: str
    ) -> None:
        random = self.random
        failed = random.random() < 0.1
        kept = [random.randrange(50) for _ in range(STATISTICS[name])]
        values = {
            "name": name,
            "score": None if failed else random.choice((None, random.random(), *NUMBERS)),
            "label": None if failed else random.choice((None, "pass", "fail", *TEXTS)),
            "reason": random.choice((None, "why")),
            "error_code": "EVALUATOR_ERROR" if failed else None,
            "error_message": "no" if failed else None,
            "statistics_json": None if failed else _listed(kept),
        }
        self._insert_score(connection, key, turn_no, number, values)

    def _insert_item(
        self, connection: StoreConnection, item_id: str, turns: Sequence[Mapping[str, JsonValue]]
    ) -> None:
        connection.execute(
            sa.insert(dataset_item),
            {
                "id": item_id,
                "tenant": TENANT,
                "turn_count": len(turns),
                "turns_json": msgspec.json.encode(turns).decode(),
                "content_id": self.random.choice((None, f"c-{self.random.randrange(10**9)}")),
            },
        )

    def _insert_output(
        self,
        connection: StoreConnection,
        key: ItemKey,
        turn_no: int,
        output: Mapping[str, JsonValue],
    ) -> str:
        random = self.random
        record = f"t-{key.item_id}-{key.repetition}-{turn_no}"
        connection.execute(
            sa.insert(target_record),
            {
                "id": record,
                "tenant": TENANT,
                "run_id": "r-1",
                "item_id": key.item_id,
                "repetition": key.repetition,
                "turn_no": turn_no,
                "output_json": msgspec.json.encode(output).decode(),
                "main": "output",
                "latency_ms": random.choice((None, *NUMBERS)),
                "tokens": random.choice((None, 0, 1, 7)),
                "cost": random.choice((None, *NUMBERS)),
                "cached": random.random() < 0.2,
                "first_token_ms": random.choice((None, *NUMBERS)),
                "created_at_ms": 0,
            },
        )
        return record

    def _insert_turn(
        self,
        connection: StoreConnection,
        experiment_id: ExperimentId,
        key: ItemKey,
        turn_no: int,
        status: str,
        record: str | None,
        code: str | None,
    ) -> None:
        connection.execute(
            sa.insert(turn_result),
            {
                "experiment_id": experiment_id,
                "item_id": key.item_id,
                "repetition": key.repetition,
                "turn_no": turn_no,
                "tenant": TENANT,
                "run_id": "r-1",
                "try_no": 1,
                "status": status,
                "target_record_id": record,
                "error_code": code,
                "error_message": None if code is None else self.random.choice((None, *TEXTS)),
            },
        )

    def _insert_score(
        self,
        connection: StoreConnection,
        key: ItemKey,
        turn_no: int,
        number: int,
        values: Mapping[str, Any],
    ) -> None:
        record = f"s-{key.item_id}-{key.repetition}-{turn_no}-{number}"
        place = {
            "run_id": "r-1",
            "item_id": key.item_id,
            "repetition": key.repetition,
            "turn_no": turn_no,
        }
        connection.execute(
            sa.insert(evaluator_record),
            {"id": record, "tenant": TENANT, "created_at_ms": 0, **place, **values},
        )
        connection.execute(
            sa.insert(turn_score),
            {**place, "try_no": 1, "evaluator_no": number, "evaluator_record_id": record},
        )

    def _annotate(
        self,
        connection: StoreConnection,
        experiment_id: ExperimentId,
        key: ItemKey,
        turn_no: int,
        record: str | None,
        annotator: str,
    ) -> None:
        """What a person says of a turn's output; some of it is about an output before that."""
        random = self.random
        is_outdated = random.random() < 0.2
        connection.execute(
            sa.insert(annotation),
            {
                "id": f"a-{key.item_id}-{key.repetition}-{turn_no}-{annotator}",
                "tenant": TENANT,
                "experiment_id": experiment_id,
                "item_id": key.item_id,
                "repetition": key.repetition,
                "turn_no": turn_no,
                "target_record_id": "t-before" if is_outdated else record or "",
                "name": random.choice(("good", "bad", "a.b")),
                "score": random.choice((None, *NUMBERS)),
                "label": random.choice((None, "pass", "fail", *TEXTS)),
                "correction": random.choice((None, *TEXTS)),
                "author": annotator,
                "created_at_ms": random.randrange(3),
            },
        )

    async def change_annotations(self, experiment_id: ExperimentId) -> None:
        """Let people change some of what they said, and take some of it back."""
        random = self.random

        def change(connection: StoreConnection) -> None:
            of = annotation.c
            rows = connection.execute(sa.select(of.id).where(of.experiment_id == experiment_id))
            for annotation_id in rows.scalars().all():
                chance = random.random()
                if chance < 0.2:
                    connection.execute(sa.delete(annotation).where(of.id == annotation_id))
                elif chance < 0.5:
                    said = {"score": random.choice(NUMBERS), "label": random.choice(TEXTS)}
                    changed = sa.update(annotation).where(of.id == annotation_id)
                    connection.execute(changed.values(created_at_ms=9, **said))

        await self.store.write(change)

    async def add_scored(
        self, experiment_id: ExperimentId, names: Sequence[str], scored: Sequence[Scored]
    ) -> None:
        """Items of one turn that succeeded, each with its scores in order."""

        def add(connection: StoreConnection) -> None:
            for one in scored:
                self._number += 1
                key = ItemKey(ItemId(f"i-{self._number:06d}"))
                self._insert_item(connection, key.item_id, [one.turn])
                record = self._insert_output(connection, key, 0, one.output)
                self._insert_turn(connection, experiment_id, key, 0, "success", record, None)
                for number, (name, (score, kept)) in enumerate(zip(names, one.scores, strict=True)):
                    values = {"name": name, "score": score, "statistics_json": _listed(kept)}
                    self._insert_score(connection, key, 0, number, values)

        await self.store.write(add)

    async def replace_evaluator(self, experiment_id: ExperimentId, name: str) -> None:
        """Let another evaluator take a name over, as scoring again does."""

        def replace(connection: StoreConnection) -> None:
            found = experiments.find_experiment(connection, experiment_id)
            assert found is not None
            same = next(one for one in found.spec.evaluators if one.name == name)
            spec = with_evaluators(found.spec, [same])
            experiments.update_spec(connection, experiment_id, spec)

        await self.store.write(replace)

    async def score_anew(self, experiment_id: ExperimentId, name: str, most: int) -> None:
        """Give some turns a score of the evaluator that has the name now."""

        def score(connection: StoreConnection) -> None:
            found = experiments.find_experiment(connection, experiment_id)
            assert found is not None
            number = found.spec.numbers[name]
            shown = turn_result.c
            rows = connection.execute(
                sa.select(shown.item_id, shown.repetition, shown.turn_no)
                .where(shown.experiment_id == experiment_id, shown.status == "success")
                .limit(most)
            ).all()
            for row in rows:
                key = ItemKey(ItemId(row.item_id), row.repetition)
                self._add_score(connection, key, row.turn_no, number, name)
            connection.execute(
                sa.update(turn_result)
                .where(shown.experiment_id == experiment_id)
                .values(status=shown.status)
            )

        await self.store.write(score)

    async def change_some(self, experiment_id: ExperimentId) -> None:
        """Let some rows change, as the end of an item does."""
        status, code = self.random.choice((("fail", "WORKER_LOST"), ("success", None)))
        share = self.random.randrange(2, 5)
        statement = (
            "UPDATE turn_result SET status = :status, error_code = :code "
            "WHERE experiment_id = :e AND length(item_id || error_message) % :share = 0"
        )
        values = {"status": status, "code": code, "e": experiment_id, "share": share}

        def change(connection: StoreConnection) -> None:
            connection.execute(sa.text(statement), values)

        await self.store.write(change)


@asynccontextmanager
async def world(url: str, seed: int) -> AsyncIterator[World]:
    async with await open_store(url) as store:
        yield World(store, Random(seed))


@asynccontextmanager
async def followed(
    store: Store, url: str, *, owner: str = "w-1", mirror_id: str = "m-1"
) -> AsyncIterator[tuple[Following, Metrics]]:
    metrics = Metrics()
    following = Following(
        store, url, owner=owner, mirror_id=mirror_id, clock=SystemClock(), metrics=metrics
    )
    await following.start()
    try:
        yield following, metrics
    finally:
        await following.stop()


async def ready(following: Following, experiment_id: ExperimentId) -> Any:
    """Wait until the mirror can be asked."""
    async with asyncio.timeout(60):
        while (mirror := await following.up_to_date(experiment_id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return mirror


async def every_row(results: Results, experiment_id: str, **asked: Any) -> list[Any]:
    """Every row, page by page."""
    rows: list[Any] = []
    after = None
    while True:
        page, after = await results.page(TENANT, experiment_id, after=after, most=200, **asked)
        rows += page
        if after is None:
            return rows


def random_filter(random: Random, depth: int = 3) -> dict[str, Any]:
    """A tree of conditions on anything that a row may have or lack."""
    if depth and random.random() < 0.6:
        word = random.choice(("and", "or", "not"))
        if word == "not":
            return {"not": random_filter(random, depth - 1)}
        parts = [random_filter(random, depth - 1) for _ in range(random.randrange(4))]
        return {word: parts}
    return random_condition(random)


_ORDERED = ("=", "!=", "<", "<=", ">", ">=")
PATTERNS = ("a", "^a", "b$", "[ab]+", "日.語", "a.b", "(?i)AB", "\\\\", "^$", "z'")


def random_condition(random: Random) -> dict[str, Any]:
    texts = ("status", "item_id", "error_code", *(f"label.{name}" for name in NAMES))
    if random.random() < 0.05:
        op = random.choice((*_ORDERED, "in", "not_in"))
        return {"field": "repetition", "op": op, "value": _value(random, op, (0, 1, 2, 3))}
    numbers = ("latency_ms", "tokens", "cost", *(f"score.{name}" for name in NAMES))
    either: tuple[str, ...] = (
        "input.domain",
        "input.source",
        "input.a.b",
        'input.q"uote',
        "input.none",
    )
    either += ("output.n", "output.source", "annotation.none")
    either += ("annotation.good", "annotation.bad", "annotation.a.b")
    field = random.choice((*texts, *numbers, *either, *either, "text"))
    if random.random() < 0.15:
        return {"field": field, "op": random.choice(("is_null", "not_null"))}
    if field in numbers or (field in either and random.random() < 0.4):
        op = random.choice((*_ORDERED, "in", "not_in"))
        return {"field": field, "op": op, "value": _value(random, op, NUMBERS)}
    searches = ("contains", "not_contains", "matches")
    ops: tuple[str, ...] = searches if field == "text" else ("=", "!=", "in", "not_in", *searches)
    if field in either:
        ops += _ORDERED
    op = random.choice(ops)
    if op == "matches":
        return {"field": field, "op": op, "value": random.choice(PATTERNS)}
    values = ("success", "fail", "TARGET_ERROR", "pass", "news", "true", *TEXTS)
    return {"field": field, "op": op, "value": _value(random, op, values)}


def _value(random: Random, op: str, values: tuple[Any, ...]) -> Any:
    if op in ("in", "not_in"):
        return [random.choice(values) for _ in range(random.randrange(4))]
    return random.choice(values)


def random_sort(random: Random) -> list[tuple[str, bool]]:
    fields: tuple[str, ...] = (
        "item_id",
        "status",
        "error_code",
        "latency_ms",
        "tokens",
        "cost",
        "score.chrf",
    )
    fields += (
        "repetition",
        "label.exact",
        "input.domain",
        "input.n",
        "output.source",
        "annotation.good",
    )
    return [(field, random.random() < 0.5) for field in random.sample(fields, random.randrange(4))]


def rounded(value: Any) -> Any:
    """Numbers without what the order of an addition decides."""
    if isinstance(value, float):
        return 0.0 if abs(value) < 1e-12 else float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value


def plain(found: object) -> Any:
    """Aggregates as they can be compared."""
    return rounded(msgspec.to_builtins(found))


# --- what a mirror holds --------------------------------------------------------------------------

Contents = dict[tuple[str, int, int], dict[str, Any]]
"""By item, repetition and turn: what there is of it, by the names of fields."""

_FIXED = tuple(
    name
    for name in TurnRow.__struct_fields__
    if name not in ("experiment_id", "row_no", "numbers", "texts")
)


def contents_of(mirror: Mirror, experiment_id: ExperimentId) -> Contents:
    """Everything that a mirror has of an experiment."""
    known = mirror.slots(experiment_id).known
    columns = [*_FIXED, *(column_of(slot, is_text=text) for (_, text), slot in known.items())]
    names = [*_FIXED, *(f"{field} as text" if text else field for field, text in known)]
    query = Query(
        f"SELECT {', '.join(columns)} FROM {mirror.dialect.turns} "
        f"WHERE experiment_id = '{experiment_id}'",
        (),
    )
    return _by_turn([dict(zip(names, row, strict=True)) for row in mirror.ask(query)])


async def contents_wanted(store: Store, experiment_id: ExperimentId) -> Contents:
    """Everything that a mirror should have of it, as the database is now."""

    def read(connection: StoreConnection) -> Batch:
        batch, slots = Batch(1), Slots()
        for turns in every_turn(connection, experiment_id, None):
            batch.add(Copied(experiment_id, turns), [], slots)
        return batch

    batch = await store.read(read)
    fields = {(slot, text): field for (field, text), slot in _known(batch, experiment_id).items()}
    rows: list[dict[str, Any]] = []
    for turn in batch.turns:
        row = {name: getattr(turn, name) for name in _FIXED}
        row |= {fields[slot, False]: value for slot, value in turn.numbers.items()}
        row |= {f"{fields[slot, True]} as text": value for slot, value in turn.texts.items()}
        rows.append(row)
    return _by_turn(rows)


def _known(batch: Batch, experiment_id: ExperimentId) -> Mapping[Field, int]:
    return batch.slots.get(experiment_id, {})


def _by_turn(rows: list[dict[str, Any]]) -> Contents:
    found: Contents = {}
    for row in rows:
        key = (row["item_id"], row["repetition"], row["turn_no"])
        assert key not in found, "one wide row a turn"
        found[key] = {name: value for name, value in row.items() if value is not None}
    return found


async def agree(store: Store, following: Following, experiment_id: ExperimentId) -> None:
    """The mirror has what the database has."""
    mirror = await ready(following, experiment_id)
    assert contents_of(mirror, experiment_id) == await contents_wanted(store, experiment_id)
    rows = await every_row(Results(store), experiment_id)
    assert rows == await every_row(Results(store, following), experiment_id)
    scores = sum(len(row.scores) for row in rows)
    turns = mirror.dialect.turns
    query = mirror_query(
        mirror,
        f"SELECT count(*) FROM lab_score WHERE row_no IN (SELECT row_no FROM {turns} "
        f"WHERE experiment_id = '{experiment_id}')",
    )
    assert query == [(scores,)], "one long row for each score of a wide row"


def mirror_query(mirror: Any, text: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = mirror.ask(Query(text, ()))
    return rows
