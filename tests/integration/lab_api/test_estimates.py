"""Estimates over HTTP: three items are tried, and nothing is stored."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from tests.integration.lab_api.conftest import Asker, OpenLab, order_of

from dragoman.store import StoreConnection, open_store

ROWS = [{"said": str(n), "meant": str(n % 4)} for n in range(8)]
SAMPLE = {"items": [[{"said": "a", "meant": "a"}]], "total_items": 100, "total_turns": 250}
RECORDED = {"kind": "recorded", "output": "said"}
EXACT = {"kind": "exact", "reference": "meant"}


def given(**sample: Any) -> dict[str, Any]:
    order = {"name": "x", "target": RECORDED, "evaluators": [EXACT]}
    return {**order, "sample": {**SAMPLE, **sample}}


def rows_of(connection: StoreConnection, *, table: str) -> list[Any]:
    return list(connection.execute(sa.text(f"SELECT * FROM {table}")))


async def nothing_but_datasets(lab: Asker) -> bool:
    return bool((await lab.get("/experiments")).json()["items"] == [])


def test_a_dataset_of_the_lab_is_estimated_from_three_of_its_items(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of(await lab.import_rows(ROWS), repetitions=3)
            order["target"] = {
                "kind": "python",
                "function": "tests.integration.lab_api.targets:picky",
            }
            made = await lab.post("/experiments", {**order, "name": "another"})
            assert made.status_code == 201
            answer = await lab.post("/experiments/estimate", {**order, "name": "another"})
            assert answer.status_code == 200, answer.text
            found = answer.json()
            estimate = found["estimate"]
            assert estimate["calls"] == {"likely": 24, "low": 24, "high": 24}
            assert (estimate["items"], estimate["turns"], estimate["repetitions"]) == (8, 8, 3)
            assert (estimate["sampled"], estimate["failed"]) == (3, 0)
            assert estimate["without_cost"] == {"target": "it reports no cost"}
            assert [row["run_id"] for row in found["rows"]] == ["", "", ""]
            assert {row["status"] for row in found["rows"]} == {"success"}
            known = await lab.get("/experiments")
            assert [one["name"] for one in known.json()["items"]] == ["another"]
            other = await lab.as_tenant("other").post("/experiments/estimate", order)
            assert (other.status_code, other.json()["error"]["code"]) == (404, "NOT_FOUND")

    asyncio.run(scenario())


def test_a_dataset_that_is_not_in_the_lab_is_estimated_from_the_items_given(
    open_lab: OpenLab, lab_url: str
) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            answer = await lab.post("/experiments/estimate", given())
            assert answer.status_code == 200, answer.text
            estimate = answer.json()["estimate"]
            assert (estimate["items"], estimate["turns"], estimate["sampled"]) == (100, 250, 1)
            assert estimate["seconds"]["high"] is None, "one item tells nothing about the others"
            assert await nothing_but_datasets(lab)
            assert (await lab.get("/datasets")).json()["items"] == []
        async with await open_store(lab_url) as store:
            for table in ("dataset_item", "item_result", "target_record", "response_cache"):
                assert await store.read(partial(rows_of, table=table)) == [], table

    asyncio.run(scenario())


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"items": []}, "from 1 to 3"),
    ({"items": [[{"said": "a", "meant": "a"}]] * 4}, "from 1 to 3"),
    ({"items": [[]]}, "no turns"),
    ({"items": [[{}]]}, "no columns"),
    ({"items": [[1]]}, "items"),
    ({"items": [{"said": "a"}]}, "items"),
    ({"items": "many"}, "items"),
    ({"total_items": 0}, "total_items"),
    ({"total_items": -5}, "total_items"),
    ({"total_items": 10**30}, "total_items"),
    ({"total_items": 1.5}, "total_items"),
    ({"total_items": 200, "total_turns": 199}, "total_turns"),
    ({"items": [[{"said": "a", "meant": "a"}] * 9], "total_turns": 100, "total_items": 100}, ""),
    ({"items": [[{"said": "a", "meant": "a"}] * 300]}, "total_turns"),
    ({"schema": []}, "schema"),
    ({"schema": {"properties": {"talk": {"format": "audio"}}}}, "no audio"),
    ({"colour": "red"}, "colour"),
]


def test_samples_that_cannot_be_are_refused(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            for sample, word in HOSTILE:
                answer = await lab.post("/experiments/estimate", given(**sample))
                if not word:
                    assert answer.status_code == 200, answer.text
                    continue
                assert answer.status_code == 422, (sample, answer.text)
                problem = answer.json()["error"]
                assert problem["code"] == "INVALID_MESSAGE", problem
                assert word in problem["message"], (sample, problem["message"])
            for change, code in (
                ({"target": {"kind": "python", "function": "os:remove"}}, "FORBIDDEN"),
                ({"target": {"kind": "recorded", "output": "sung"}}, "SCHEMA_MISMATCH"),
                ({"evaluators": [{"kind": "exact", "reference": "x"}]}, "SCHEMA_MISMATCH"),
                ({"repetitions": 0}, "INVALID_MESSAGE"),
            ):
                refused = await lab.post("/experiments/estimate", {**given(), **change})
                assert refused.json()["error"]["code"] == code, refused.text
            nested = b'{"name": "x", "sample": ' + b"[" * 100_000
            broken = await lab.ask("POST", "/experiments/estimate", content=nested)
            assert broken.status_code == 422
            assert await nothing_but_datasets(lab)

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_dataset_of_few_items_is_tried_whole(open_lab: OpenLab, count: int) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = order_of(await lab.import_rows(ROWS[:count]))
            found = (await lab.post("/experiments/estimate", order)).json()
            assert found["estimate"]["sampled"] == count
            assert [row["input"]["said"] for row in found["rows"]] == [str(n) for n in range(count)]

    asyncio.run(scenario())
