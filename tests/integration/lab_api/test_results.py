"""Results over HTTP: rows that can be filtered and sorted, and what they amount to."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import statistics
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.contract.lab_mirror.world import rounded
from tests.integration.lab_api.conftest import Asker, OpenLab

HERE = "tests.integration.lab_api.targets"
WORDS = ["a", "b", "xc", "d", "e", "f", "g", "h"]
ROWS = [{"said": word, "meant": "a" if word in "ab" else word} for word in WORDS]


async def ended_experiment(lab: Asker) -> str:
    """Eight items: one whose target fails, one that is wrong, six that are right."""
    experiment_id = await lab.submit(
        await lab.import_rows(ROWS),
        target={"kind": "python", "function": f"{HERE}:picky"},
        evaluators=[
            {"kind": "exact", "reference": "meant"},
            {"kind": "contains", "name": "has it", "reference": "meant"},
        ],
        retries=0,
    )
    await lab.until_ended(experiment_id)
    return experiment_id


async def rows_of(lab: Asker, experiment_id: str, **order: Any) -> list[dict[str, Any]]:
    answer = await lab.post(f"/experiments/{experiment_id}/results", order)
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["items"]
    return rows


def said(rows: list[dict[str, Any]]) -> list[str]:
    return [row["input"]["said"] for row in rows]


def test_a_row_tells_what_went_in_what_came_out_and_how_it_was_judged(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            rows = await rows_of(lab, experiment_id)
            assert said(rows) == WORDS
            good, wrong, failed = rows[0], rows[1], rows[2]
            assert (good["status"], good["output"]) == ("success", {"output": "a"})
            assert good["scores"]["exact"]["score"] == 1.0
            assert good["latency_ms"] >= 0
            assert wrong["scores"]["exact"]["score"] == 0.0
            assert wrong["scores"]["exact"]["reason"]
            assert (failed["status"], failed["error_code"]) == ("fail", "TARGET_ERROR")
            assert (failed["output"], failed["scores"]) == ({}, {})

    asyncio.run(scenario())


FILTERS: list[tuple[object, list[str]]] = [
    ({"field": "status", "op": "=", "value": "fail"}, ["xc"]),
    ({"field": "status", "op": "in", "value": ["fail", "terminated"]}, ["xc"]),
    ({"field": "error_code", "op": "=", "value": "TARGET_ERROR"}, ["xc"]),
    ({"field": "error_code", "op": "is_null"}, [word for word in WORDS if word != "xc"]),
    ({"field": "score.exact", "op": "<", "value": 1}, ["b"]),
    ({"field": "score.has it", "op": "=", "value": 0}, ["b"]),
    # A missing value matches only is_null, also inside a not.
    ({"field": "score.exact", "op": "!=", "value": 1}, ["b"]),
    ({"not": {"field": "score.exact", "op": "=", "value": 1}}, ["b"]),
    ({"field": "score.exact", "op": "is_null"}, ["xc"]),
    # Also where a list says that no value will do, or any.
    ({"field": "score.exact", "op": "not_in", "value": []}, [w for w in WORDS if w != "xc"]),
    ({"field": "score.exact", "op": "in", "value": []}, []),
    ({"not": {"field": "score.exact", "op": "in", "value": []}}, [w for w in WORDS if w != "xc"]),
    ({"not": {"field": "score.exact", "op": "not_in", "value": []}}, []),
    ({"not": {"field": "error_code", "op": "in", "value": []}}, ["xc"]),
    (
        {
            "or": [
                {"field": "score.exact", "op": "<=", "value": 0.5},
                {"and": [{"field": "status", "op": "!=", "value": "success"}]},
            ]
        },
        ["b", "xc"],
    ),
    ({"and": []}, WORDS),
    ({"or": []}, []),
]


def test_filters_find_what_they_say(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            for wanted, expected in FILTERS:
                found = said(await rows_of(lab, experiment_id, filter=wanted))
                assert found == expected, wanted
                path = f"/experiments/{experiment_id}/aggregates"
                amount = (await lab.get(path, filter=json.dumps(wanted))).json()
                assert amount["latency_ms"]["count"] == len(set(expected) - {"xc"}), wanted
                path = f"/experiments/{experiment_id}/results/count"
                counted = await lab.get(path, filter=json.dumps(wanted))
                assert counted.json() == {"count": len(expected)}, wanted

    asyncio.run(scenario())


HOSTILE_PATTERNS = (
    "(",
    "a**",
    r"\1",
    "(?=a)",
    "(a{1000}){1000}",
    "a{2000}",
    "x{0,1000}" * 100,
    "(" * 900,
    r"\x{110000}",
    "nul \x00",
    "half of a pair \ud800",
    "long " * 201,
)


def test_a_filter_that_makes_no_sense_is_refused(open_lab: OpenLab) -> None:
    wrong = {"field": "latency", "op": ">", "value": 3}
    deep = '{"not": ' * 1_000 + '{"field": "status", "op": "is_null"}' + "}" * 1_000
    unknown_score = {"field": "score.exactly", "op": "<", "value": 1}

    async def scenario() -> None:
        async with open_lab() as lab:
            path = f"/experiments/{await ended_experiment(lab)}"
            for refused in (
                await lab.post(f"{path}/results", {"filter": wrong}),
                await lab.get(f"{path}/aggregates", filter=json.dumps(wrong)),
                await lab.post(f"{path}/results", {"sort": [{"field": "colour"}]}),
                await lab.post(f"{path}/results", {"sort": [{"field": "score.exactly"}]}),
                await lab.post(f"{path}/results", {"filter": {"not": unknown_score}}),
                await lab.get(f"{path}/aggregates", filter=json.dumps({"or": [unknown_score]})),
                await lab.post(f"{path}/results", {"filter": "status = fail"}),
                await lab.ask("POST", f"{path}/results", content=f'{{"filter": {deep}}}'),
                await lab.get(f"{path}/aggregates", filter=deep),
                await lab.get(f"{path}/export", filter=json.dumps(wrong)),
                await lab.post(f"{path}/results", {"filter": {**wrong, "field": "input."}}),
                await lab.post(
                    f"{path}/results",
                    {"filter": {"field": "text", "op": "matches", "value": "(?"}},
                ),
                *[
                    await lab.get(
                        f"{path}/aggregates",
                        filter=json.dumps({"field": "text", "op": "matches", "value": pattern}),
                    )
                    for pattern in HOSTILE_PATTERNS
                ],
                await lab.get(f"{path}/aggregates", filter="{"),
                await lab.get(f"{path}/aggregates", filter='{"and": []}, "limit": 3'),
            ):
                assert refused.status_code == 422
                assert refused.json()["error"]["code"] == "INVALID_FILTER"
            told = (await lab.post(f"{path}/results", {"filter": unknown_score})).json()["error"]
            assert "score 'exactly'; did you mean 'exact'?" in told["message"]
            assert told["details"] == {"field": "score.exactly"}

    asyncio.run(scenario())


def test_every_item_without_a_score_is_counted_with_its_cause(open_lab: OpenLab) -> None:
    rows = [{"said": f"x{n}", "meant": "y"} for n in range(7)]
    rows += [{"said": "odd", "meant": "odd"}, {"said": "a", "meant": "a"}]

    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows(rows),
                target={"kind": "python", "function": f"{HERE}:picky"},
                evaluators=[
                    {"kind": "exact", "reference": "meant"},
                    {"kind": "python", "name": "evenness", "function": f"{HERE}:not_odd"},
                ],
                retries=0,
            )
            assert (await lab.until_ended(experiment_id))["status"] == "success"
            path = f"/experiments/{experiment_id}/aggregates"
            found = (await lab.get(path)).json()
            exact, evenness = found["scores"]["exact"], found["scores"]["evenness"]
            assert (exact["count"], exact["errors"]) == (2, 7)
            assert (evenness["count"], evenness["errors"]) == (1, 8)
            failures = found["failures"]
            assert (failures["items"], failures["share"]) == (8, 8 / 9)
            assert [(one["code"], one["count"]) for one in failures["causes"]] == [
                ("TARGET_ERROR", 7),
                ("EVALUATOR_ERROR", 1),
            ]
            assert "picky" in failures["causes"][0]["sample"]
            assert "The evaluator 'evenness' failed" in failures["causes"][1]["sample"]
            only_good = {"field": "status", "op": "=", "value": "success"}
            good = (await lab.get(path, filter=json.dumps(only_good))).json()
            assert good["failures"] == {"items": 0, "share": 0.0, "causes": []}
            assert good["scores"]["evenness"]["errors"] == 0

    asyncio.run(scenario())


def test_a_conversation_that_breaks_off_counts_once_and_says_what_broke_it(
    open_lab: OpenLab,
) -> None:
    talk = {"turns": [{"said": "xa", "meant": "a"}, {"said": "b", "meant": "b"}]}

    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows([talk, {"said": "c", "meant": "c"}]),
                target={"kind": "python", "function": f"{HERE}:picky"},
                retries=0,
            )
            await lab.until_ended(experiment_id)
            found = (await lab.get(f"/experiments/{experiment_id}/aggregates")).json()
            assert (found["failures"]["items"], found["failures"]["share"]) == (1, 0.5)
            (cause,) = found["failures"]["causes"]
            assert cause["count"] == 1
            assert "Not called" not in cause["sample"]

    asyncio.run(scenario())


async def paged(lab: Asker, experiment_id: str, **order: Any) -> list[str]:
    """What was said, row by row, fetched three rows at a time."""
    found: list[str] = []
    cursor = None
    while True:
        asked = {"limit": 3, "cursor": cursor, **order}
        page = (await lab.post(f"/experiments/{experiment_id}/results", asked)).json()
        found += said(page["items"])
        cursor = page["next"]
        if cursor is None:
            return found


SORTABLE = ("item_id", "status", "error_code", "latency_ms", "tokens", "cost", "score.exact")


def test_a_zero_character_is_found_nowhere_and_breaks_nothing(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            path = f"/experiments/{experiment_id}"
            odd = {"field": "status", "op": "=", "value": "a\0b"}
            retried = {"mode": "retry_items", "item_ids": ["i\0"]}
            for asked in (
                await lab.post(f"{path}/results", {"filter": odd}),
                await lab.post(f"{path}/results", {"run_id": "r\0"}),
                await lab.post(f"{path}/runs", retried),
                await lab.get("/experiments/a%00b"),
                await lab.get("/datasets", name="a\0b"),
            ):
                # One database looks and finds nothing, the other says that it cannot look.
                assert asked.status_code in (200, 404, 422), asked.text
                assert not asked.json().get("items")

    asyncio.run(scenario())


def test_rows_are_sorted_and_come_in_pages_without_gaps(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            by_score = [{"field": "score.exact"}]
            worst_first = said(await rows_of(lab, experiment_id, sort=by_score))
            # What has no score comes last, whichever way it is sorted.
            assert (worst_first[0], worst_first[-1]) == ("b", "xc")
            downwards = [{"field": "score.exact", "order": "desc"}]
            best_first = said(await rows_of(lab, experiment_id, sort=downwards))
            assert best_first[-2:] == ["b", "xc"]
            orders: list[list[dict[str, str]]] = [
                [],
                *(
                    [{"field": field, "order": way}]
                    for field in SORTABLE
                    for way in ("asc", "desc")
                ),
                [{"field": "score.has it"}, {"field": "error_code"}, {"field": "latency_ms"}],
            ]
            for sort in orders:
                whole = said(await rows_of(lab, experiment_id, sort=sort))
                assert sorted(whole) == sorted(WORDS)
                assert await paged(lab, experiment_id, sort=sort) == whole, sort
            wrong = {"field": "score.exact", "op": "<", "value": 1}
            assert await paged(lab, experiment_id, sort=downwards, filter=wrong) == ["b"]

    asyncio.run(scenario())


def test_a_row_that_moves_between_two_pages_pushes_no_other_one_out(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            function = {"kind": "python", "function": f"{HERE}:second_time_lucky"}
            rows = [{"said": f"{word} {id(lab)}", "meant": ""} for word in ("a", "b", "x")]
            experiment_id = await lab.submit(
                await lab.import_rows(rows), target=function, evaluators=[], retries=0
            )
            await lab.until_ended(experiment_id)
            path = f"/experiments/{experiment_id}"
            order = {"sort": [{"field": "status"}], "limit": 1}
            first = (await lab.post(f"{path}/results", order)).json()
            assert first["items"][0]["status"] == "fail"
            await lab.post(f"{path}/runs", {"mode": "fail_retry"})
            assert (await lab.until_ended(experiment_id))["stats"]["success"] == 3
            rest = await rows_of(
                lab, experiment_id, sort=order["sort"], cursor=first["next"], limit=10
            )
            assert [text[0] for text in said(rest)] == ["a", "b", "x"]

    asyncio.run(scenario())


def test_a_cursor_belongs_to_the_order_that_it_came_from(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            path = f"/experiments/{await ended_experiment(lab)}/results"
            cursor = (await lab.post(path, {"limit": 3})).json()["next"]
            other = {"limit": 3, "cursor": cursor, "sort": [{"field": "status"}]}
            assert (await lab.post(path, other)).status_code == 422
            cursor = (await lab.post(path, {**other, "cursor": None})).json()["next"]
            other = {"limit": 3, "cursor": cursor, "sort": [{"field": "latency_ms"}]}
            refused = await lab.post(path, other)
            assert refused.status_code == 422
            assert "a list with another order" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_only_the_columns_that_are_asked_for_are_answered(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            rows = await rows_of(lab, experiment_id, columns=["status"])
            assert set(rows[0]) == {"item_id", "turn", "status"}
            path = f"/experiments/{experiment_id}/results"
            for wrong in ({"columns": ["colour"]}, {"limit": 0}, {"cursor": "nonsense"}):
                assert (await lab.post(path, wrong)).status_code == 422

    asyncio.run(scenario())


def test_aggregates_amount_to_what_the_rows_say(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            rows = await rows_of(lab, experiment_id)
            scores = [row["scores"]["exact"]["score"] for row in rows if row["scores"]]
            found = (await lab.get(f"/experiments/{experiment_id}/aggregates")).json()
            exact = found["scores"]["exact"]
            assert (exact["count"], exact["errors"]) == (7, 1)
            assert exact["mean"] == pytest.approx(statistics.mean(scores))
            assert exact["stddev"] == pytest.approx(statistics.stdev(scores))
            assert (exact["min"], exact["max"], exact["p50"]) == (0.0, 1.0, 1.0)
            assert exact["pass_rate"] == pytest.approx(6 / 7)
            assert sum(bin_["count"] for bin_ in exact["histogram"]) == 7
            assert found["latency_ms"]["count"] == 7
            assert "pass_rate" not in found["latency_ms"]
            assert exact["outcomes"] == {
                "scored": 7,
                "target_failed": 1,
                "unscored": 0,
                "infrastructure": 0,
            }

    asyncio.run(scenario())


def test_aggregates_come_by_the_values_of_a_column_too(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            path = f"/experiments/{experiment_id}/aggregates"
            whole = (await lab.get(path)).json()
            assert "groups" not in whole
            found = (await lab.get(path, group_by="meant")).json()
            # One may be the mirror's answer, the other the database's while the mirror is behind.
            assert rounded(found["scores"]) == rounded(whole["scores"])
            groups = found["groups"]
            assert sum(group["rows"] for group in groups) == len(WORDS)
            assert {group["value"] for group in groups} == {
                row["input"]["meant"] for row in await rows_of(lab, experiment_id)
            }
            counts = [group["aggregates"]["scores"]["exact"]["count"] for group in groups]
            assert sum(counts) == whole["scores"]["exact"]["count"]

    asyncio.run(scenario())


def test_results_can_be_taken_away_as_files(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            rows = await rows_of(lab, experiment_id)
            path = f"/experiments/{experiment_id}/export"
            lines = (await lab.get(path)).text.splitlines()
            assert [json.loads(line) for line in lines] == rows
            table = list(csv.DictReader(io.StringIO((await lab.get(path, format="csv")).text)))
            assert [line["input.said"] for line in table] == said(rows)
            first = rows[0]["scores"]["exact"]["score"]
            assert float(table[0]["score.exact"]) == first
            parquet = (await lab.get(path, format="parquet")).content
            read = pq.read_table(io.BytesIO(parquet)).to_pylist()
            assert [row["input.said"] for row in read] == said(rows)
            assert read[0]["score.exact"] == first
            for line, row in zip(table, rows, strict=True):
                assert (line["repetition"], line["cached"]) == (str(row["repetition"]), "false")
            assert {(row["repetition"], row["cached"]) for row in read} == {(1, False)}
            some = {"field": "input.said", "op": "=", "value": "b"}
            only = (await lab.get(path, filter=json.dumps(some))).text.splitlines()
            assert [json.loads(line)["input"]["said"] for line in only] == ["b"]
            refused = await lab.get(path, format="xlsx")
            assert refused.status_code == 422
            assert "csv, jsonl, parquet" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_every_evaluator_has_its_aggregate_also_when_it_judged_nothing(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows([{"said": "x", "meant": "x"}]),
                target={"kind": "python", "function": f"{HERE}:picky"},
                retries=0,
            )
            assert (await lab.until_ended(experiment_id))["status"] == "failed"
            found = (await lab.get(f"/experiments/{experiment_id}/aggregates")).json()
            exact = found["scores"]["exact"]
            assert (exact["count"], exact["errors"]) == (0, 1)
            assert (exact["mean"], exact["pass_rate"]) == (None, None)

    asyncio.run(scenario())


def test_what_an_earlier_run_left_can_still_be_seen(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            path = f"/experiments/{experiment_id}"
            first = (await lab.get(path)).json()["run_id"]
            await lab.post(f"{path}/runs", {"mode": "fail_retry"})
            latest = (await lab.until_ended(experiment_id))["run_id"]
            assert len(await rows_of(lab, experiment_id, run_id=first)) == 8
            assert said(await rows_of(lab, experiment_id, run_id=latest)) == ["xc"]
            assert len(await rows_of(lab, experiment_id)) == 8
            refused = await lab.post(f"{path}/results", {"run_id": "r-nothing"})
            assert refused.status_code == 404

    asyncio.run(scenario())


def test_every_try_of_an_item_is_told_with_what_went_wrong(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(
                await lab.import_rows([{"said": "x1", "meant": "x1"}, {"said": "a", "meant": "a"}]),
                target={"kind": "python", "function": f"{HERE}:picky"},
                retries=1,
            )
            await lab.until_ended(experiment_id)
            path = f"/experiments/{experiment_id}"
            rows = await rows_of(lab, experiment_id)
            failed, good = rows
            tries = (await lab.get(f"{path}/items/{failed['item_id']}/tries")).json()["items"]
            assert [one["number"] for one in tries] == [2, 1]
            assert {one["error_code"] for one in tries} == {"TARGET_ERROR"}
            assert all("no x, please" in one["error_message"] for one in tries)
            (once,) = (await lab.get(f"{path}/items/{good['item_id']}/tries")).json()["items"]
            assert (once["status"], once["error_code"], once["turn"]) == ("success", None, 0)
            assert once["latency_ms"] >= 0
            retry = await lab.post(f"{path}/runs", {"mode": "fail_retry"})
            await lab.until_ended(experiment_id)
            again = (await lab.get(f"{path}/items/{failed['item_id']}/tries")).json()["items"]
            assert len(again) == 4
            assert again[0]["run_id"] == retry.json()["run_id"]
            assert (again[0]["mode"], again[-1]["mode"]) == ("fail_retry", "submit")
            elsewhere = lab.as_tenant("globex")
            for asker, item_id in ((lab, "i-none"), (elsewhere, good["item_id"])):
                answer = await asker.get(f"{path}/items/{item_id}/tries")
                assert answer.status_code == 404, answer.text
            unrepeated = await lab.get(f"{path}/items/{good['item_id']}/tries", repetition=2)
            assert unrepeated.status_code == 404

    asyncio.run(scenario())


def test_tries_of_an_item_that_was_invoked_are_told_too(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = await lab.post(
                "/experiments/submit",
                {"name": "online", "target": {"kind": "recorded", "output": "said"}},
            )
            experiment_id = made.json()["experiment_id"]
            items = {"items": [{"turns": [{"said": "a"}]}]}
            taken = await lab.post(f"/experiments/{experiment_id}/invoke", items)
            (item_id,) = taken.json()["item_ids"]
            await lab.post(f"/experiments/{experiment_id}/finish")
            await lab.until_ended(experiment_id)
            answer = await lab.get(f"/experiments/{experiment_id}/items/{item_id}/tries")
            assert [one["status"] for one in answer.json()["items"]] == ["success"]

    asyncio.run(scenario())


def test_an_ended_experiment_and_each_of_its_runs_tell_their_scores(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)

            def has_scores(found: dict[str, Any]) -> bool:
                return bool(found["scores"])

            found = await lab.until(experiment_id, has_scores)
            assert found["scores"]["exact"]["count"] == 7
            assert found["scores"]["exact"]["mean"] == pytest.approx(6 / 7)
            assert found["scores"]["exact"]["ci95"][0] < 6 / 7
            dataset = (await lab.get("/datasets")).json()["items"][0]
            assert found["dataset_id"] == dataset["dataset_id"]
            (listed,) = (await lab.get("/experiments")).json()["items"]
            assert listed["scores"] == found["scores"]
            (run,) = (await lab.get(f"/experiments/{experiment_id}/runs")).json()["items"]
            assert run["scores"] == found["scores"]

    asyncio.run(scenario())


def test_scores_are_told_hour_by_hour_and_to_their_tenant_alone(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await ended_experiment(lab)
            path = f"/experiments/{experiment_id}/hours"
            told = (await lab.get(path)).json()["items"]
            # The clock may have struck while it ran.
            assert sum(hour["scores"]["exact"]["count"] for hour in told) == 7
            assert all(hour["began_at"].endswith(":00:00.000Z") for hour in told)
            assert set(told[0]["scores"]) == {"exact", "has it"}
            assert (await lab.get(path, hours=0)).status_code == 422
            assert (await lab.as_tenant("globex").get(path)).status_code == 404

    asyncio.run(scenario())
