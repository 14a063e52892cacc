"""Annotations over HTTP: given, changed, removed, filtered by, exported, and agreed with."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Any

import pytest
from tests.integration.lab_api.conftest import Asker, OpenLab, order_of

ROWS = [{"said": word, "meant": "a"} for word in ("a", "a2", "b", "b2", "c")]
HERE = "tests.integration.lab_api.targets"


async def scored(lab: Asker, **order: Any) -> tuple[str, list[str]]:
    """An experiment that has run, and its items in the order of the dataset."""
    experiment_id = await lab.submit(await lab.import_rows(ROWS), **order)
    ended = await lab.until_ended(experiment_id)
    assert ended["status"] == "success"
    rows = (await lab.post(f"/experiments/{experiment_id}/results")).json()["items"]
    return experiment_id, list(dict.fromkeys(row["item_id"] for row in rows))


async def rows_of(lab: Asker, experiment_id: str, tree: Any = None) -> list[dict[str, Any]]:
    answer = await lab.post(f"/experiments/{experiment_id}/results", {"filter": tree})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_an_annotation_is_given_changed_listed_and_removed(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            said = {"item_id": items[0], "name": "quality", "score": 4}
            made = await lab.post(path, said)
            assert made.status_code == 201, made.text
            annotation_id = made.json()["annotation_id"]
            assert made.json()["created"] is True
            changed = await lab.post(path, {**said, "score": 2, "label": "poor"})
            assert (changed.status_code, changed.json()["annotation_id"]) == (200, annotation_id)
            # Another annotator and another name are annotations of their own.
            for other in ({"annotator": "bob"}, {"name": "style"}):
                assert (await lab.post(path, {**said, **other})).status_code == 201
            [first, *rest] = await rows_of(lab, experiment_id)
            assert first["annotations"] == [
                {"name": "quality", "annotator": "k-1", "score": 2.0, "label": "poor"},
                {"name": "quality", "annotator": "bob", "score": 4.0},
                {"name": "style", "annotator": "k-1", "score": 4.0},
            ]
            assert all(row["annotations"] == [] for row in rest)
            listed = (await lab.get(path, limit=2)).json()
            assert len(listed["items"]) == 2
            more = (await lab.get(path, cursor=listed["next"])).json()
            every = [*listed["items"], *more["items"]]
            assert (len(every), more["next"]) == (3, None)
            assert {one["outdated"] for one in every} == {False}
            gone = await lab.ask("DELETE", f"{path}/{annotation_id}")
            assert gone.status_code == 204
            again = await lab.ask("DELETE", f"{path}/{annotation_id}")
            assert (again.status_code, again.json()["error"]["code"]) == (404, "NOT_FOUND")
            [first, *_] = await rows_of(lab, experiment_id)
            assert [one["annotator"] for one in first["annotations"]] == ["bob", "k-1"]

    asyncio.run(scenario())


def test_many_are_stored_together_or_not_at_all(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab, repetitions=2)
            path = f"/experiments/{experiment_id}/annotations"
            good = [
                {"item_id": item, "repetition": repetition, "name": "n", "label": "x"}
                for item in items
                for repetition in (1, 2)
            ]
            broken = await lab.post(path, {"annotations": [*good, {**good[0], "repetition": 3}]})
            assert (broken.status_code, broken.json()["error"]["code"]) == (404, "NOT_FOUND")
            assert "repetition 3" in broken.json()["error"]["message"]
            assert (await lab.get(path)).json()["items"] == []
            made = await lab.post(path, {"annotations": good})
            assert made.status_code == 201
            assert [one["created"] for one in made.json()["annotations"]] == [True] * 10
            again = await lab.post(path, {"annotations": good})
            assert again.status_code == 200

    asyncio.run(scenario())


HOSTILE: list[tuple[Any, str]] = [
    ({}, "item_id"),
    ({"item_id": "ITEM", "score": 1}, "name"),
    ({"item_id": "ITEM", "name": "n"}, "neither a score nor a label"),
    ({"item_id": "ITEM", "name": "", "score": 1}, "name"),
    ({"item_id": "ITEM", "name": "x" * 191, "score": 1}, "name"),
    ({"item_id": "ITEM", "name": "a\nb", "score": 1}, "printable"),
    ({"item_id": "ITEM", "name": "n", "score": "high"}, "score"),
    ({"item_id": "ITEM", "name": "n", "score": True}, "score"),
    ({"item_id": "ITEM", "name": "n", "score": 1e300}, "score"),
    ({"item_id": "ITEM", "name": "n", "label": ""}, "label"),
    ({"item_id": "ITEM", "name": "n", "label": "x" * 201}, "200"),
    ({"item_id": "ITEM", "name": "n", "label": "a\x00b"}, "NUL"),
    ({"item_id": "ITEM", "name": "n", "label": ["x"]}, "label"),
    ({"item_id": "ITEM", "name": "n", "correction": "x" * 100_001}, "100,000"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "annotator": ""}, "annotator"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "annotator": "a\x07"}, "printable"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "turn": -1}, "turns count from 0"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "turn": 2**40}, "turns count"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "repetition": 0}, "repetitions from 1"),
    ({"item_id": "ITEM", "name": "n", "score": 1, "colour": "red"}, "colour"),
    ({"item_id": 7, "name": "n", "score": 1}, "item_id"),
    ({"annotations": []}, "from 1 to 10,000"),
    ({"annotations": "all"}, "annotations"),
    ({"annotations": [{"item_id": "ITEM", "name": "n"}] * 2}, "annotations[0]"),
    ({"annotations": [{"item_id": "ITEM", "name": "n", "score": 1}] * 10_001}, "10,001"),
    ({"annotations": [1]}, "annotations"),
    ([], ""),
    ("text", ""),
]


def test_hostile_bodies_are_refused_and_nothing_is_stored(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            for body, word in HOSTILE:
                text = json.dumps(body).replace('"ITEM"', json.dumps(items[0]))
                answer = await lab.ask("POST", path, content=text.encode())
                assert answer.status_code == 422, (text[:200], answer.text)
                assert answer.json()["error"]["code"] == "INVALID_MESSAGE"
                assert word in answer.json()["error"]["message"], answer.text
            for raw in (
                b"{broken",
                b"\xff\xfe",
                b'{"item_id": "\\ud800", "name": "n", "score": 1}',
                b'{"item_id": "' + items[0].encode() + b'", "name": "n", "score": NaN}',
                b'{"annotations": ' + b"[" * 100_000,
            ):
                answer = await lab.ask("POST", path, content=raw)
                assert answer.status_code in (404, 422), (raw[:50], answer.text)
            for item, turn in (("i-none", 0), (items[0], 1), ("'; DROP TABLE annotation", 0)):
                said = {"item_id": item, "turn": turn, "name": "n", "score": 1}
                answer = await lab.post(path, said)
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
            assert (await lab.get(path)).json()["items"] == []
            assert (await lab.post("/experiments/e-none/annotations", {})).status_code == 422
            said = {"item_id": items[0], "name": "n", "score": 1}
            assert (await lab.post("/experiments/e-none/annotations", said)).status_code == 404

    asyncio.run(scenario())


def test_annotations_belong_to_the_tenant_of_the_experiment(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            said = {"item_id": items[0], "name": "n", "score": 1}
            made = (await lab.post(path, said)).json()["annotation_id"]
            other = lab.as_tenant("other")
            for method, asked, body in (
                ("POST", path, said),
                ("GET", path, None),
                ("DELETE", f"{path}/{made}", None),
            ):
                answer = await other.ask(method, asked, json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
            assert len((await lab.get(path)).json()["items"]) == 1
            # An experiment takes its annotations with it.
            assert (await lab.ask("DELETE", f"/experiments/{experiment_id}")).status_code == 204
            assert (await lab.get(path)).status_code == 404

    asyncio.run(scenario())


def test_rows_are_filtered_by_what_people_said_and_exported_with_it(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            await lab.post(
                path,
                {
                    "annotations": [
                        {"item_id": items[0], "name": "quality", "score": 1, "annotator": "ann"},
                        {"item_id": items[1], "name": "quality", "score": 5, "annotator": "ann"},
                        {"item_id": items[1], "name": "kind", "label": "odd", "annotator": "ann"},
                        {"item_id": items[2], "name": "fix", "correction": "=b!"},
                    ]
                },
            )

            async def found(field: str, op: str, value: Any = None) -> list[str]:
                leaf = {"field": f"annotation.{field}", "op": op}
                tree = leaf if value is None else {**leaf, "value": value}
                return [row["item_id"] for row in await rows_of(lab, experiment_id, tree)]

            assert await found("quality", "<", 3) == [items[0]]
            assert await found("quality", "not_null") == items[:2]
            assert await found("kind", "=", "odd") == [items[1]]
            assert await found("fix", "contains", "b!") == [items[2]]
            assert await found("quality", "is_null") == items[2:]
            assert await found("unheard of", "not_null") == []
            again = {"item_id": items[2], "name": "fix", "annotator": "ann", "correction": "c!"}
            for correction in ("d!", "c!"):
                await lab.post(path, {**again, "correction": correction})
            assert await found("fix", "contains", "c!") == [items[2]], "what was said last counts"
            assert await found("fix", "contains", "b!") == []
            listed = (await lab.get(path)).json()["items"]
            [mine] = [one for one in listed if one["correction"] == "c!"]
            await lab.ask("DELETE", f"{path}/{mine['annotation_id']}")
            assert await found("fix", "contains", "b!") == [items[2]]
            exported = await lab.get(f"/experiments/{experiment_id}/export", format="csv")
            table = list(csv.DictReader(io.StringIO(exported.text)))
            assert [row["annotation.quality.score"] for row in table] == ["1.0", "5.0", "", "", ""]
            assert table[1]["annotation.kind.label"] == "odd"
            assert table[1]["annotation.quality.annotator"] == "ann"
            assert table[2]["annotation.fix.correction"] == "=b!"
            lines = await lab.get(f"/experiments/{experiment_id}/export", format="jsonl")
            first = json.loads(lines.text.splitlines()[0])
            assert first["annotations"][0]["score"] == 1

    asyncio.run(scenario())


def test_an_annotation_is_about_the_output_that_the_person_saw(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            said = {"item_id": items[0], "name": "quality", "score": 1}
            await lab.post(path, said)
            [before] = (await lab.get(f"/experiments/{experiment_id}/runs")).json()["items"]
            rescored = await lab.post(
                f"/experiments/{experiment_id}/score",
                {"evaluators": [{"kind": "contains", "reference": "meant"}]},
            )
            assert rescored.status_code == 201
            await lab.until_ended(experiment_id)
            [first, *_] = await rows_of(lab, experiment_id)
            assert len(first["annotations"]) == 1, "the output is the same"
            assert "contains" in first["scores"]
            await lab.post(f"/experiments/{experiment_id}/runs", {"mode": "retry_all"})
            await lab.until_ended(experiment_id)
            [first, *_] = await rows_of(lab, experiment_id)
            assert first["annotations"] == [], "the output is another one"
            [listed] = (await lab.get(path)).json()["items"]
            assert listed["outdated"] is True, "and what was said of the former one is kept"
            history = {"run_id": before["run_id"]}
            old = (await lab.post(f"/experiments/{experiment_id}/results", history)).json()
            assert len(old["items"][0]["annotations"]) == 1, "with the run that it was said of"
            assert (await lab.post(path, said)).status_code == 201, "of the new output it is new"

    asyncio.run(scenario())


def test_aggregates_tell_how_far_evaluators_agree_with_people(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}"
            fresh = (await lab.get(f"{path}/aggregates")).json()
            assert "annotations" not in fresh
            # `exact` passes the first item only; ann says so of the first two, bob of the first.
            said = [
                {"item_id": item, "name": "right", "annotator": who, "label": label}
                for who, labels in (
                    ("ann", ("pass", "pass", "fail", "fail", "fail")),
                    ("bob", ("pass", "fail", "fail", "fail", "fail")),
                )
                for item, label in zip(items, labels, strict=True)
            ]
            only_ann = [one for one in said if one["annotator"] == "ann"]
            await lab.post(f"{path}/annotations", {"annotations": only_ann})
            found = (await lab.get(f"{path}/aggregates")).json()["annotations"]["right"]
            assert (found["rows"], found["annotators"], found["alpha"]) == (5, 1, None)
            exact = found["evaluators"]["exact"]
            # 4 of 5 the same; by chance 2/5 * 1/5 + 3/5 * 4/5 = 14/25.
            assert exact["kappa"] == pytest.approx((0.8 - 0.56) / 0.44)
            assert exact["same_label"] == 0.8
            await lab.post(f"{path}/annotations", {"annotations": said})
            found = (await lab.get(f"{path}/aggregates")).json()["annotations"]["right"]
            assert (found["annotations"], found["annotators"]) == (10, 2)
            # Nominal alpha by hand: one disagreement in five pairs, 3 pass and 7 fail of 10.
            assert found["alpha"] == pytest.approx(1 - (2 / 10) / (2 * 3 * 7 / (10 * 9)))
            assert found["evaluators"]["exact"]["rows"] == 4, "a tie of people is no label"
            assert found["evaluators"]["exact"]["kappa"] == 1.0
            assert found["evaluators"]["exact"]["alpha"] is not None
            wanted = json.dumps({"field": "item_id", "op": "in", "value": items[2:]})
            few = (await lab.get(f"{path}/aggregates", filter=wanted)).json()["annotations"]
            assert few["right"]["rows"] == 3, "of the rows that pass the filter"
            nobody = json.dumps({"field": "item_id", "op": "=", "value": "none"})
            empty = (await lab.get(f"{path}/aggregates", filter=nobody)).json()["annotations"]
            assert empty == {}

    asyncio.run(scenario())


def test_two_people_who_annotate_at_once_both_keep_what_they_said(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id, items = await scored(lab)
            path = f"/experiments/{experiment_id}/annotations"
            said = [
                {"item_id": item, "name": "n", "score": score, "annotator": who}
                for item in items
                for who in ("ann", "bob")
                for score in (1, 2)
            ]
            answers = await asyncio.gather(*(lab.post(path, one) for one in said))
            assert {answer.status_code for answer in answers} <= {200, 201}
            assert sum(answer.status_code == 201 for answer in answers) == 10
            assert len((await lab.get(path)).json()["items"]) == 10

    asyncio.run(scenario())


def test_an_item_that_failed_can_be_annotated_too(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows([{"said": "xa", "meant": "a"}])
            order = order_of(version, retries=0)
            order["target"] = {"kind": "python", "function": f"{HERE}:picky"}
            made = await lab.post("/experiments/submit", order)
            experiment_id = made.json()["experiment_id"]
            await lab.until_ended(experiment_id)
            [row] = await rows_of(lab, experiment_id)
            said = {"item_id": row["item_id"], "name": "fix", "correction": "a"}
            answer = await lab.post(f"/experiments/{experiment_id}/annotations", said)
            assert answer.status_code == 201
            [row] = await rows_of(lab, experiment_id)
            assert row["annotations"][0]["correction"] == "a"

    asyncio.run(scenario())


def test_an_item_that_was_invoked_can_be_judged(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            order = {"name": "online", "target": {"kind": "recorded", "output": "said"}}
            made = await lab.post("/experiments/submit", order)
            path = f"/experiments/{made.json()['experiment_id']}"
            items = {"items": [{"turns": [{"said": "a"}]}]}
            [item_id] = (await lab.post(f"{path}/invoke", items)).json()["item_ids"]
            await lab.post(f"{path}/finish")
            await lab.until_ended(made.json()["experiment_id"])
            said = {"item_id": item_id, "name": "quality", "label": "pass"}
            answer = await lab.post(f"{path}/annotations", said)
            assert answer.status_code == 201, answer.text
            [row] = await rows_of(lab, made.json()["experiment_id"])
            assert [one["label"] for one in row["annotations"]] == ["pass"]
            elsewhere, _ = await scored(lab)
            refused = await lab.post(f"/experiments/{elsewhere}/annotations", said)
            assert refused.status_code == 404

    asyncio.run(scenario())
