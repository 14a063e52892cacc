"""Datasets over HTTP: whole or not at all, line-exact errors, versions, files that come back."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
from tests.integration.lab_api.conftest import OpenLab, jsonl, order_of

ROWS = [{"said": "a", "meant": "a"}, {"said": 'b, "c"', "meant": "Ünïcode 中"}]


def test_a_file_becomes_a_dataset_that_can_be_looked_at(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = await lab.send_file(jsonl(ROWS), name=" cases ")
            assert made.status_code == 201
            told = made.json()
            assert (told["items"], told["version"]) == (2, 1)
            shown = (await lab.get(f"/datasets/{told['dataset_id']}")).json()
            assert shown["name"] == "cases"
            assert shown["latest"]["version_id"] == told["version_id"]
            assert set(shown["latest"]["schema"]["properties"]) == {"said", "meant"}
            items = (await lab.get(f"/datasets/{told['dataset_id']}/items")).json()["items"]
            assert [item["turns"] for item in items] == [[row] for row in ROWS]

    asyncio.run(scenario())


def test_versions_are_added_and_never_change(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}"
            second = await lab.send_file(
                b"said,meant\nx,y\n", path=f"{path}/versions", file="more.csv"
            )
            assert (second.status_code, second.json()["version"]) == (201, 2)
            versions = (await lab.get(f"{path}/versions")).json()["items"]
            assert [version["version"] for version in versions] == [2, 1]
            for number, first in ((None, "x"), (1, "a"), (2, "x")):
                asked = {} if number is None else {"version": number}
                items = (await lab.get(f"{path}/items", **asked)).json()["items"]
                assert items[0]["turns"][0]["said"] == first
            assert (await lab.get(f"{path}/items", version=3)).status_code == 404

    asyncio.run(scenario())


def test_two_versions_are_compared_item_by_item_wherever_they_stand(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            old = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
            new = [{"a": 7, "b": 8}, {"b": 4, "a": 3}, {"a": 1, "b": 2}]
            made = (await lab.send_file(jsonl(old), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}"
            await lab.send_file(jsonl(new), path=f"{path}/versions")
            told = (await lab.get(f"{path}/diff", **{"from": 1, "to": 2})).json()
            assert (told["unchanged"], told["added"], told["removed"]) == (2, 1, 2)
            assert [item["turns"] for item in told["added_items"]] == [[{"a": 7, "b": 8}]]
            gone = [item["turns"][0]["a"] for item in told["removed_items"]]
            assert sorted(gone) == [3, 5]
            same = (await lab.get(f"{path}/diff", **{"from": 2})).json()
            assert (same["unchanged"], same["added"], same["removed"]) == (3, 0, 0)
            assert (await lab.get(f"{path}/diff", **{"from": 9})).status_code == 404

    asyncio.run(scenario())


BROKEN = [
    (b'{"a": 1}\n{"a": \n{"a": 2}\n', "d.jsonl", 2),
    (b"a,b\n1,2\n3\n", "d.csv", 3),
    (b'a,b\n1,"two\nlines"\n3\n', "d.csv", 4),
    (b'{"a": "\xff"}\n', "d.jsonl", 1),
]


def test_a_broken_line_is_named_and_nothing_is_imported(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            for content, file, line in BROKEN:
                refused = await lab.send_file(content, file=file, name="cases")
                assert refused.status_code == 422
                problem = refused.json()["error"]
                assert problem["code"] == "DATASET_INVALID"
                assert f"line {line}" in problem["message"]
                assert problem["details"]["problems"][0]["line"] == line
                assert (await lab.get("/datasets")).json()["items"] == []
            # The name is not taken by what was refused.
            assert (await lab.send_file(jsonl(ROWS), name="cases")).status_code == 201

    asyncio.run(scenario())


def test_a_problem_after_many_good_batches_leaves_nothing_behind(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            content = jsonl([{"n": n} for n in range(2500)]) + b"nonsense\n"
            refused = await lab.send_file(content, name="cases")
            assert "line 2501" in refused.json()["error"]["message"]
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}/items"
            assert len((await lab.get(path)).json()["items"]) == 2

    asyncio.run(scenario())


def test_a_row_that_breaks_the_schema_is_reported_with_its_line(open_lab: OpenLab) -> None:
    schema = json.dumps({"properties": {"n": {"type": "integer"}}, "required": ["n"]})

    async def scenario() -> None:
        async with open_lab() as lab:
            content = jsonl([{"n": 1}, {"n": "two"}, {}])
            refused = await lab.send_file(content, name="cases", schema=schema)
            assert refused.status_code == 422
            lines = [found["line"] for found in refused.json()["error"]["details"]["problems"]]
            assert lines[0] == 2

    asyncio.run(scenario())


def test_a_form_that_makes_no_sense_is_refused_by_its_field(open_lab: OpenLab) -> None:
    forms = [
        ({}, "name"),
        ({"name": "x" * 191}, "name"),
        ({"name": "one\ntwo"}, "printable"),
        ({"name": "c", "format": "xlsx"}, "format"),
        ({"name": "c", "schema": "{"}, "schema"),
        ({"name": "c", "colour": "red"}, "colour"),
    ]

    async def scenario() -> None:
        async with open_lab() as lab:
            for fields, word in forms:
                refused = await lab.send_file(jsonl(ROWS), **fields)
                assert refused.status_code == 422
                assert word in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_a_request_without_a_file_is_refused(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            for sent in ({"json": {"name": "c"}}, {"data": {"name": "c"}}, {"content": b"x"}):
                refused = await lab.ask("POST", "/datasets", **sent)
                assert refused.status_code == 422
                assert "file" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_a_name_is_taken_once_for_each_tenant(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            again = await lab.send_file(jsonl(ROWS), name="cases")
            assert (again.status_code, again.json()["error"]["code"]) == (409, "NAME_TAKEN")
            other = lab.as_tenant("other")
            assert (await other.get(f"/datasets/{made['dataset_id']}")).status_code == 404
            assert (await other.get("/datasets")).json()["items"] == []
            assert (await other.send_file(jsonl(ROWS), name="cases")).status_code == 201

    asyncio.run(scenario())


def test_what_comes_out_can_go_in_again(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            for kind in ("jsonl", "csv"):
                path = f"/datasets/{made['dataset_id']}/export"
                exported = await lab.get(path, format=kind)
                assert exported.status_code == 200
                again = await lab.send_file(exported.content, file=f"d.{kind}", name=f"as {kind}")
                dataset_id = again.json()["dataset_id"]
                items = (await lab.get(f"/datasets/{dataset_id}/items")).json()["items"]
                assert [item["turns"] for item in items] == [[row] for row in ROWS]

    asyncio.run(scenario())


ANYTHING: list[dict[str, Any]] = [
    {
        "text": "a",
        "n": 1,
        "x": 0.5,
        "yes": True,
        "mixed": 1,
        "whole": 1,
        "round": 1.0,
        "big": 2**70,
    },
    {
        "text": "ü中",
        "n": -2,
        "x": 2.0,
        "yes": False,
        "mixed": "1",
        "whole": 2.5,
        "round": 2,
        "big": 1,
    },
    {
        "text": "",
        "n": 2**63 - 1,
        "yes": None,
        "list": [1, {"a": None}],
        "empty": None,
        "gone": None,
    },
    {"text": "null", "list": [], "gone": "x", "yes": None},
]
"""Values that a column type cannot hold together, and columns that rows lack or have as null."""


def test_the_same_rows_are_the_same_version_whatever_the_format(open_lab: OpenLab) -> None:
    conversations: list[dict[str, Any]] = [
        {"turns": [{"q": "a"}, {"q": None, "n": 1}]},
        {"turns": [{"q": "b"}, {"q": "c"}]},
    ]

    async def scenario() -> None:
        async with open_lab() as lab:
            for name, rows in (("anything", ANYTHING), ("talks", conversations), ("none", [])):
                made = (await lab.send_file(jsonl(rows), name=name)).json()
                path = f"/datasets/{made['dataset_id']}"
                sent = await lab.get(f"{path}/export", format="parquet")
                assert sent.headers["content-type"] == "application/vnd.apache.parquet"
                again = await lab.send_file(
                    sent.content, path=f"{path}/versions", file="again.parquet"
                )
                told = again.json()
                assert (told["version_id"], told["created"]) == (made["version_id"], False), name
                as_lines = await lab.get(f"{path}/export", format="jsonl")
                assert [json.loads(line) for line in as_lines.text.splitlines()] == rows

    asyncio.run(scenario())


def test_an_exported_file_is_read_by_other_programs(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ANYTHING), name="anything")).json()
            sent = await lab.get(f"/datasets/{made['dataset_id']}/export", format="parquet")
            table = pq.read_table(io.BytesIO(sent.content))
            types = {field.name: str(field.type) for field in table.schema}
            assert types["text"] == types["mixed"] == "string"
            assert (types["n"], types["x"], types["yes"]) == ("int64", "double", "bool")
            assert table["whole"].to_pylist() == [1.0, 2.5, None, None]

    asyncio.run(scenario())


def test_a_broken_parquet_file_leaves_nothing_behind(open_lab: OpenLab) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [*map(float, range(2500)), float("nan")]}), out)

    async def scenario() -> None:
        async with open_lab() as lab:
            refused = await lab.send_file(out.getvalue(), file="d.parquet", name="cases")
            assert refused.status_code == 422
            assert "row 2501: n: nan" in refused.json()["error"]["message"]
            cut = await lab.send_file(out.getvalue()[:-9], file="d.parquet", name="cases")
            assert (cut.status_code, cut.json()["error"]["code"]) == (422, "DATASET_INVALID")
            assert (await lab.get("/datasets")).json()["items"] == []

    asyncio.run(scenario())


def test_an_import_that_goes_on_tells_how_far_it_has_come(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            rows = [{"n": n, "t": "x" * 100} for n in range(20_000)]
            path, stages = "/datasets", set()
            for fields in ({"name": "cases"}, {}):
                sending = lab.send_file(jsonl(rows), path=path, import_id="word", **fields)
                importing = asyncio.create_task(sending)
                while not importing.done():
                    await asyncio.sleep(0.005)
                    told = await lab.get("/datasets/imports/word")
                    if told.status_code == 200:
                        assert 0 <= told.json()["items"] <= len(rows)
                        stages.add(told.json()["stage"])
                made = importing.result().json()
                path = f"/datasets/{made['dataset_id']}/versions"
                stranger = lab.as_tenant("other")
                assert (await stranger.get("/datasets/imports/word")).status_code == 404
                assert (await lab.get("/datasets/imports/word")).status_code == 404
                rows.append({"n": -1, "t": ""})
            assert stages == {"checking", "storing"}

    asyncio.run(scenario())


def test_conversations_are_kept_whole_and_do_not_fit_into_csv(open_lab: OpenLab) -> None:
    talk = {"turns": [{"said": "a"}, {"said": "b"}]}

    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl([talk]), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}"
            assert json.loads((await lab.get(f"{path}/export")).content) == talk
            refused = await lab.get(f"{path}/export", format="csv")
            assert refused.status_code == 422
            assert "jsonl" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_long_lists_come_in_pages(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            for number in range(5):
                await lab.send_file(jsonl([{"n": n} for n in range(5)]), name=f"d{number}")
            seen, cursor = [], None
            while True:
                page = (await lab.get("/datasets", limit=2, cursor=cursor)).json()
                seen += [one["name"] for one in page["items"]]
                cursor = page["next"]
                if cursor is None:
                    break
            assert seen == [f"d{number}" for number in range(5)]

    asyncio.run(scenario())


def test_the_same_rows_are_the_same_version_and_items_pair_across_versions(
    open_lab: OpenLab,
) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            assert made["created"]
            path = f"/datasets/{made['dataset_id']}"
            turned = [dict(reversed(row.items())) for row in ROWS]
            again = await lab.send_file(jsonl(turned), path=f"{path}/versions")
            assert again.status_code == 201
            assert again.json() == {**made, "created": False}
            more = [{"said": "new", "meant": "new"}, *ROWS]
            other = (await lab.send_file(jsonl(more), path=f"{path}/versions")).json()
            assert (other["version"], other["created"]) == (2, True)
            schema = json.dumps({"properties": {"said": {"maxLength": 100}}})
            strict = await lab.send_file(jsonl(ROWS), path=f"{path}/versions", schema=schema)
            assert strict.json()["version"] == 3
            ids = [
                [
                    item["item_id"]
                    for item in (await lab.get(f"{path}/items", version=n)).json()["items"]
                ]
                for n in (1, 2, 3)
            ]
            assert ids[0] == ids[1][1:] == ids[2]
            elsewhere = (await lab.send_file(jsonl(ROWS), name="copy")).json()
            assert elsewhere["version_id"] != made["version_id"]
            copied = (await lab.get(f"/datasets/{elsewhere['dataset_id']}/items")).json()["items"]
            assert [item["item_id"] for item in copied] == ids[0]

    asyncio.run(scenario())


def test_results_of_different_versions_pair_by_their_items(open_lab: OpenLab) -> None:
    rows = [*ROWS, ROWS[0]]

    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(rows), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}"
            more = [{"said": "z", "meant": "z"}, *reversed(rows)]
            other = (await lab.send_file(jsonl(more), path=f"{path}/versions")).json()
            found = []
            for number, version in enumerate((made, other)):
                experiment_id = await lab.submit(version["version_id"], name=f"e{number}")
                await lab.until_ended(experiment_id)
                answer = await lab.post(f"/experiments/{experiment_id}/results")
                found.append({row["item_id"]: row["input"] for row in answer.json()["items"]})
                assert [row["input"] for row in answer.json()["items"]] == [rows, more][number]
            assert len(found[0]) == 3
            assert found[0].items() <= found[1].items()
            # The items are tried again by the ids that users know them by.
            ids = list(found[0])[:2]
            retried = await lab.post(
                f"/experiments/{experiment_id}/runs", {"mode": "retry_items", "item_ids": ids}
            )
            assert retried.status_code == 201, retried.text
            await lab.until_ended(experiment_id)
            history = {"run_id": retried.json()["run_id"]}
            tried = await lab.post(f"/experiments/{experiment_id}/results", history)
            assert sorted(row["item_id"] for row in tried.json()["items"]) == sorted(ids)

    asyncio.run(scenario())


def test_a_dataset_is_deleted_unless_an_experiment_uses_it(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}"
            await lab.send_file(jsonl(ROWS[:1]), path=f"{path}/versions")
            experiment_id = await lab.submit(made["version_id"])
            await lab.until_ended(experiment_id)
            refused = await lab.ask("DELETE", path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                409,
                "DATASET_IN_USE",
            )
            other = lab.as_tenant("other")
            assert (await other.ask("DELETE", path)).status_code == 404
            assert (await lab.ask("DELETE", f"/experiments/{experiment_id}")).status_code == 204
            assert (await lab.ask("DELETE", path)).status_code == 204
            assert (await lab.get(path)).status_code == 404
            assert (await lab.ask("DELETE", path)).status_code == 404
            gone = await lab.post("/experiments/submit", order_of(made["version_id"]))
            assert gone.status_code == 404
            # The name is free again, and so is the content.
            assert (await lab.send_file(jsonl(ROWS), name="cases")).json()["created"]

    asyncio.run(scenario())


def test_a_version_with_a_name_of_its_own_is_refused(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            made = (await lab.send_file(jsonl(ROWS), name="cases")).json()
            path = f"/datasets/{made['dataset_id']}/versions"
            refused = await lab.send_file(jsonl(ROWS[:1]), path=path, name="other")
            assert refused.status_code == 422
            assert refused.json()["error"]["details"] == {"field": "name"}

    asyncio.run(scenario())


def test_a_recorded_answer_has_no_latency(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(await lab.import_rows(ROWS))
            await lab.until_ended(experiment_id)
            rows = (await lab.post(f"/experiments/{experiment_id}/results")).json()["items"]
            assert [row["latency_ms"] for row in rows] == [None, None]
            reached = (await lab.get(f"/experiments/{experiment_id}/aggregates")).json()
            assert (reached["latency_ms"]["count"], reached["latency_ms"]["mean"]) == (0, None)

    asyncio.run(scenario())
