"""Random results in a database, a mirror that follows it, and the answers of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from random import Random
from typing import Any, ParamSpec

import msgspec
import sqlalchemy as sa

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.mirror import Following
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    JsonValue,
    TargetSpec,
    VersionId,
)
from dragoman.lab.repository import experiments
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
from dragoman.store import Connection, Store, open_store

TENANT = TenantId("acme")
NAMES = ("exact", "chrf", "a.b")
EVALUATORS = tuple(EvaluatorSpec("exact", name) for name in NAMES)
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


Test = ParamSpec("Test")


def in_a_loop(test: Callable[Test, Coroutine[Any, Any, None]]) -> Callable[Test, None]:
    """A test that waits for things."""

    @wraps(test)
    def run(*args: Test.args, **kwargs: Test.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class World:
    """A database with experiments that no run made."""

    def __init__(self, store: Store, random: Random) -> None:
        self.store = store
        self.random = random
        self._number = 0

    async def new_experiment(self, items: int) -> ExperimentId:
        self._number += 1
        experiment_id = ExperimentId(f"e-{self._number}")
        spec = ExperimentSpec(
            f"experiment {self._number}",
            VersionId("v-1"),
            TargetSpec("python"),
            EVALUATORS,
        )
        made = Experiment(
            experiment_id, TENANT, spec, RunStatus.PENDING, None, None, 0, None, None, None
        )
        await self.store.write(lambda c: experiments.insert_experiment(c, made))
        await self.add_items(experiment_id, items)
        return experiment_id

    async def add_items(self, experiment_id: ExperimentId, items: int) -> list[str]:
        """Items of one to three turns that have got anywhere."""
        added: list[str] = []

        def add(connection: Connection) -> None:
            for _ in range(items):
                added.append(self._add_item(connection, experiment_id))

        await self.store.write(add)
        return added

    def _add_item(self, connection: Connection, experiment_id: ExperimentId) -> str:
        random = self.random
        self._number += 1
        item_id = f"i-{self._number:06d}"
        turns = [self._columns() for _ in range(random.choice((1, 1, 1, 2, 3)))]
        connection.execute(
            sa.insert(dataset_item),
            {
                "id": item_id,
                "tenant": TENANT,
                "turn_count": len(turns),
                "turns_json": msgspec.json.encode(turns).decode(),
                "content_id": random.choice((None, f"c-{random.randrange(10**9)}")),
            },
        )
        for turn_no in range(len(turns)):
            self._add_turn(connection, experiment_id, item_id, turn_no)
        return item_id

    def _columns(self) -> dict[str, JsonValue]:
        random = self.random
        values: tuple[Any, ...] = (*TEXTS, *NUMBERS, None, True, ["a", 1], {"k": "a"})
        names = ("domain", "source", "a.b", 'q"uote', "n")
        found = {name: random.choice(values) for name in names if random.random() < 0.8}
        return {**found, "domain": random.choice(("news", "chat", None, 3))}

    def _add_turn(
        self, connection: Connection, experiment_id: ExperimentId, item_id: str, turn_no: int
    ) -> None:
        random = self.random
        status = random.choice(STATUSES)
        code = random.choice(CODES) if status in ("fail", "terminated") else None
        record = None
        if status == "success" or (status == "fail" and random.random() < 0.5):
            record = f"t-{item_id}-{turn_no}"
            connection.execute(
                sa.insert(target_record),
                {
                    "id": record,
                    "tenant": TENANT,
                    "run_id": "r-1",
                    "item_id": item_id,
                    "turn_no": turn_no,
                    "output_json": msgspec.json.encode(self._columns()).decode(),
                    "main": "output",
                    "latency_ms": random.choice((None, *NUMBERS)),
                    "tokens": random.choice((None, 0, 1, 7)),
                    "cost": random.choice((None, *NUMBERS)),
                    "created_at_ms": 0,
                },
            )
        connection.execute(
            sa.insert(turn_result),
            {
                "experiment_id": experiment_id,
                "item_id": item_id,
                "turn_no": turn_no,
                "tenant": TENANT,
                "run_id": "r-1",
                "try_no": 1,
                "status": status,
                "target_record_id": record,
                "error_code": code,
                "error_message": None if code is None else random.choice((None, *TEXTS)),
            },
        )
        if record is not None:
            for number, name in enumerate(NAMES):
                if random.random() < 0.8:
                    self._add_score(connection, item_id, turn_no, number, name)
        if random.random() < 0.3:
            connection.execute(
                sa.insert(annotation),
                {
                    "id": f"a-{item_id}-{turn_no}",
                    "tenant": TENANT,
                    "experiment_id": experiment_id,
                    "item_id": item_id,
                    "turn_no": turn_no,
                    "name": random.choice(("good", "bad")),
                    "score": random.choice((None, *NUMBERS)),
                    "label": random.choice((None, *TEXTS)),
                    "author": "ann",
                    "created_at_ms": 0,
                },
            )

    def _add_score(
        self, connection: Connection, item_id: str, turn_no: int, number: int, name: str
    ) -> None:
        random = self.random
        failed = random.random() < 0.1
        record = f"s-{item_id}-{turn_no}-{number}"
        connection.execute(
            sa.insert(evaluator_record),
            {
                "id": record,
                "tenant": TENANT,
                "run_id": "r-1",
                "item_id": item_id,
                "turn_no": turn_no,
                "name": name,
                "score": None if failed else random.choice((None, random.random(), *NUMBERS)),
                "label": None if failed else random.choice((None, "pass", "fail", *TEXTS)),
                "reason": random.choice((None, "why")),
                "error_code": "EVALUATOR_ERROR" if failed else None,
                "error_message": "no" if failed else None,
                "created_at_ms": 0,
                "statistics_json": None
                if failed or name == "exact"
                else msgspec.json.encode([random.randrange(50) for _ in range(4)]).decode(),
            },
        )
        connection.execute(
            sa.insert(turn_score),
            {
                "run_id": "r-1",
                "item_id": item_id,
                "turn_no": turn_no,
                "try_no": 1,
                "evaluator_no": number,
                "evaluator_record_id": record,
            },
        )

    async def change_some(self, experiment_id: ExperimentId) -> None:
        """Let some rows change, as the end of an item does."""
        status, code = self.random.choice((("fail", "WORKER_LOST"), ("success", None)))
        share = self.random.randrange(2, 5)
        statement = (
            "UPDATE turn_result SET status = :status, error_code = :code "
            "WHERE experiment_id = :e AND length(item_id || error_message) % :share = 0"
        )
        values = {"status": status, "code": code, "e": experiment_id, "share": share}

        def change(connection: Connection) -> None:
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
    numbers = ("latency_ms", "tokens", "cost", *(f"score.{name}" for name in NAMES))
    either: tuple[str, ...] = (
        "input.domain",
        "input.source",
        "input.a.b",
        'input.q"uote',
        "input.none",
    )
    either += ("output.n", "output.source", "annotation.good", "annotation.none")
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
    fields += ("label.exact", "input.domain", "input.n", "output.source", "annotation.good")
    return [(field, random.random() < 0.5) for field in random.sample(fields, random.randrange(4))]


def rounded(value: Any) -> Any:
    """Numbers without what the order of an addition decides."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value
