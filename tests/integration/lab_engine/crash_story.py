"""An experiment that always comes out the same, and how to tell whether it did."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.integration.lab_engine.laboratory import read

from dragoman.lab.model import ExperimentId, ItemId, JsonValue
from dragoman.store import Store

SEED = 20_260_401
ITEMS = 24
FATES = ("well", "well", "well", "target_fails", "evaluator_fails")

Snapshot = tuple[list[Any], list[Any], list[Any]]


def cases(
    calls: str, items: int = ITEMS, delays_ms: Sequence[int] = (0, 5, 20)
) -> list[list[dict[str, JsonValue]]]:
    """Items of one to three turns, some of which fail, always in the same way."""
    random = Random(SEED)
    return [
        [
            {
                "key": f"k{number}",
                "turn": turn,
                "calls": calls,
                "delay_ms": random.choice(delays_ms),
                "fate": random.choice(FATES),
            }
            for turn in range(random.choice((1, 1, 2, 3)))
        ]
        for number in range(items)
    ]


async def snapshot(store: Store, experiment_id: ExperimentId, ids: list[ItemId]) -> Snapshot:
    """What users see, without what differs between any two runs: ids, times, numbers of tries."""
    of = {"e": experiment_id}
    items = await read(
        store,
        "SELECT item_id, status FROM item_result WHERE experiment_id = :e ORDER BY item_id",
        **of,
    )
    turns = await read(
        store,
        "SELECT r.item_id, r.turn_no, r.status, r.error_code, r.error_message, t.output_json, "
        "t.main FROM turn_result r LEFT JOIN target_record t ON t.id = r.target_record_id "
        "WHERE r.experiment_id = :e ORDER BY r.item_id, r.turn_no",
        **of,
    )
    scores = await read(
        store,
        "SELECT r.item_id, r.turn_no, e.name, e.score, e.label, e.error_code, e.error_message "
        "FROM turn_result r JOIN turn_score s ON s.run_id = r.run_id AND s.item_id = r.item_id "
        "AND s.turn_no = r.turn_no AND s.try_no = r.try_no "
        "JOIN evaluator_record e ON e.id = s.evaluator_record_id "
        "WHERE r.experiment_id = :e ORDER BY r.item_id, r.turn_no, e.name",
        **of,
    )
    place = {item_id: number for number, item_id in enumerate(ids)}
    return tuple(  # type: ignore[return-value]
        [(place[row[0]], *row[1:]) for row in rows] for rows in (items, turns, scores)
    )


def differences(found: Snapshot, expected: Snapshot) -> list[Any]:
    """The rows that are in one of them only."""
    return [
        row
        for one, other in zip(found, expected, strict=True)
        for row in [("found", *r) for r in one if r not in other]
        + [("expected", *r) for r in other if r not in one]
    ]


async def every_try_was_archived_once(store: Store, items: int = ITEMS) -> None:
    logs = await read(
        store, "SELECT item_id, result_state, try_no, archived_try_no FROM item_run_log"
    )
    assert len(logs) == items
    for _, state, try_no, archived in logs:
        assert (state, archived) == ("resulted", try_no)
    shown = await read(store, "SELECT item_id, try_no FROM turn_result")
    last = {item_id: try_no for item_id, _, try_no, _ in logs}
    assert all(last[item_id] == try_no for item_id, try_no in shown)
    # No case fails in a way that another try may help: two logged tries are two writers.
    twice = await read(
        store,
        "SELECT item_id, turn_no FROM turn_run_log GROUP BY item_id, turn_no HAVING COUNT(*) > 1",
    )
    assert not twice, "an item was ended by a worker that had lost it"
