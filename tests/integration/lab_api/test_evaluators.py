"""Evaluators over HTTP: which there are, one tried on given values, what a run keeps of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import sacrebleu
import sqlalchemy as sa
from tests.integration.lab_api.conftest import Asker, OpenLab

from dragoman.lab.evaluators import EVALUATORS, Fingerprint, corpus_score
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ItemId, ItemKey, RunId
from dragoman.lab.repository import result_rows, runs
from dragoman.store import open_store

HERE = "tests.integration.lab_api.targets"


async def tried(lab: Asker, evaluator: dict[str, Any], **values: Any) -> httpx.Response:
    return await lab.post("/evaluators/try", {"evaluator": evaluator, **values})


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_every_kind_is_listed_with_its_settings(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            listed = {one["kind"]: one for one in (await lab.get("/evaluators")).json()["items"]}
            assert set(listed) == set(EVALUATORS)
            [chrf] = listed["chrf"]["schema"]["$defs"].values()
            assert {"reference", "word_order", "threshold"} <= set(chrf["properties"])
            assert listed["chrf"]["has_corpus"]
            assert listed["wer"]["higher_is_better"] is False
            assert listed["exact"]["package"] is None

    asyncio.run(scenario())


def test_a_package_whose_kind_cannot_be_loaded_is_listed_with_the_reason(
    open_lab: OpenLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site" / "broken_scores-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-scores\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[dragoman.evaluators]\nbroken = no_such_module:KIND\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    async def scenario() -> None:
        async with open_lab() as lab:
            listed = {one["kind"]: one for one in (await lab.get("/evaluators")).json()["items"]}
            assert listed["broken"]["package"] == "broken-scores 1.0"
            assert "cannot be loaded" in listed["broken"]["problem"]
            assert listed["exact"]["problem"] is None

    asyncio.run(scenario())


def test_every_kind_can_be_tried(open_lab: OpenLab) -> None:
    text = {"turn": {"r": "the cat sat"}, "output": "the cat sat"}
    cases: list[tuple[dict[str, Any], dict[str, Any], float]] = [
        ({"kind": "exact", "reference": "r"}, text, 1),
        ({"kind": "contains", "reference": "r"}, text, 1),
        ({"kind": "regex", "pattern": "c.t"}, text, 1),
        ({"kind": "json_match", "reference": "r"}, {"turn": {"r": [1]}, "output": "[1]"}, 1),
        ({"kind": "numeric", "reference": "r"}, {"turn": {"r": 1}, "output": "1.0"}, 1),
        ({"kind": "wer", "reference": "r"}, text, 0),
        ({"kind": "cer", "reference": "r"}, text, 0),
        ({"kind": "bleu", "reference": "r"}, text, 100),
        ({"kind": "chrf", "reference": "r"}, text, 100),
        ({"kind": "ter", "reference": "r"}, text, 0),
        ({"kind": "latency"}, {"output": "a", "latency_ms": 12.5}, 12.5),
        ({"kind": "length_ratio", "reference": "r"}, text, 1),
        (
            {
                "kind": "terms",
                "reference": "r",
                "glossary": [
                    {"term": "cat", "translation": "gato"},
                    {"term": "dog", "translation": "perro"},
                ],
            },
            {"turn": {"r": "the cat and the dog"}, "output": "el gato y el can"},
            0.5,
        ),
        ({"kind": "composite", "weights": {"a": 1, "b": 3}}, {"scores": {"a": 1, "b": 0}}, 0.25),
        ({"kind": "python", "function": f"{HERE}:shortness"}, {"output": "four"}, 0.25),
        ({"kind": "code", "code": "len(output)"}, {"output": "four"}, 4),
    ]
    # A judge needs a server; it has tests of its own.
    assert {evaluator["kind"] for evaluator, _, _ in cases} == set(EVALUATORS) - {"llm_judge"}

    async def scenario() -> None:
        async with open_lab() as lab:
            for evaluator, values, score in cases:
                answer = await tried(lab, evaluator, **values)
                assert answer.status_code == 200, (evaluator, answer.text)
                assert answer.json()["score"] == pytest.approx(score), evaluator
            counted = await tried(lab, {"kind": "wer", "reference": "r"}, **text)
            assert counted.json()["statistics"] == [3, 0, 0, 0]

    asyncio.run(scenario())


def test_a_trial_that_cannot_work_says_why(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            turn = {"turn": {"r": "a"}, "output": "b"}
            unknown = await tried(lab, {"kind": "blue"}, **turn)
            assert code_of(unknown) == (422, "INVALID_MESSAGE")
            assert "known are" in unknown.json()["error"]["message"]
            forbidden = await tried(lab, {"kind": "python", "function": "os:getcwd"}, **turn)
            assert code_of(forbidden) == (403, "FORBIDDEN")
            column = await tried(lab, {"kind": "chrf", "reference": "gone"}, **turn)
            assert code_of(column) == (422, "SCHEMA_MISMATCH")
            empty = await tried(lab, {"kind": "wer", "reference": "r"}, turn={"r": ""}, output="b")
            assert code_of(empty) == (502, "EVALUATOR_ERROR")
            assert "reference is empty" in empty.json()["error"]["message"]
            endless = {"kind": "regex", "pattern": "(a+)+$", "timeout_seconds": 0.2}
            slow = await tried(lab, endless, output="a" * 40 + "b")
            assert code_of(slow) == (502, "EVALUATOR_ERROR")
            assert "processor's time" in slow.json()["error"]["message"]
            large = await tried(
                lab, {"kind": "cer", "reference": "r"}, turn={"r": "a"}, output="b" * 200_001
            )
            assert "up to 200,000" in large.json()["error"]["message"]
            without = await tried(lab, {"kind": "composite", "weights": {"a": 1}})
            assert "'a' is missing" in without.json()["error"]["message"]
            no_number = await tried(lab, {"kind": "latency"}, output="a")
            assert code_of(no_number) == (502, "EVALUATOR_ERROR")
            broken = await lab.ask(
                "POST", "/evaluators/try", content=b'{"evaluator": {"kind": "\\ud800"}}'
            )
            assert broken.status_code == 422
            fine = await tried(lab, {"kind": "exact", "reference": "r"}, **turn)
            assert fine.json()["score"] == 0

    asyncio.run(scenario())


HOSTILE_SNIPPETS = {
    "loops": "while True: pass",
    "allocates": "bytearray(10**11)",
    "forks": "import os\n    while True: os.fork()",
    "opens a socket": "import socket; socket.create_connection(('127.0.0.1', 80), 5)",
    "reads the environment": "import os; assert 'A_SECRET' in os.environ",
    "answers without end": "return 'x' * 10**9",
    "leaves": "import os; os._exit(0)",
}


@pytest.mark.parametrize("lab_url", ["sqlite"], indirect=True)
def test_a_hostile_trial_is_an_error_and_the_lab_answers_others_meanwhile(
    open_lab: OpenLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")

    async def scenario() -> None:
        async with open_lab() as lab:
            trials = [
                tried(lab, {"kind": "code", "code": code_of_body(body), "timeout_seconds": 2})
                for body in HOSTILE_SNIPPETS.values()
            ]
            hostile = asyncio.gather(*trials)
            for _ in range(5):
                answer = await tried(
                    lab, {"kind": "exact", "reference": "r"}, turn={"r": "a"}, output="b"
                )
                assert answer.json()["score"] == 0
            for what, refused in zip(HOSTILE_SNIPPETS, await hostile, strict=True):
                assert code_of(refused) == (502, "EVALUATOR_ERROR"), (what, refused.text[:300])
                assert "hunter2" not in refused.text
                assert len(refused.content) < 10_000
            deep = "[" * 1_000 + "]" * 1_000
            for field in ("turn", "output"):
                body = f'{{"evaluator": {{"kind": "exact", "reference": "r"}}, "{field}": {deep}}}'
                nested = await lab.ask("POST", "/evaluators/try", content=body)
                assert 400 <= nested.status_code < 500, nested.text[:300]

    asyncio.run(scenario())


def code_of_body(body: str) -> str:
    return f"def score(output=None):\n    {body}\n    return 1.0\n"


ROWS = [
    {"meant": "the cat sat on the mat", "said": "the cat sat on a mat"},
    {"meant": "", "said": "there is nothing to compare with"},
    {"meant": "good morning to all of you", "said": "good morning you all"},
]


def test_a_run_keeps_what_corpus_scores_and_comparisons_need(
    open_lab: OpenLab, lab_url: str
) -> None:
    evaluators = [
        {"kind": "composite", "name": "both", "scales": {"chrf": [0, 100], "wer": [1, 0]}},
        {"kind": "chrf", "reference": "meant", "weight": 3},
        {"kind": "wer", "reference": "meant"},
    ]

    async def scenario() -> None:
        async with open_lab() as lab:
            experiment_id = await lab.submit(await lab.import_rows(ROWS), evaluators=evaluators)
            ended = await lab.until_ended(experiment_id)
            assert (ended["status"], ended["stats"]["fail"]) == ("success", 1)
            page = (await lab.post(f"/experiments/{experiment_id}/results")).json()["items"]
        first, empty, _ = page
        assert set(first["scores"]["chrf"]) == {
            *("score", "label", "reason", "error_code", "error_message"),
        }, "users do not see statistics"
        assert empty["error_code"] == "EVALUATOR_ERROR"
        assert empty["scores"]["both"]["error_message"].startswith("The score 'chrf' failed: ")
        scores = {name: cell["score"] for name, cell in first["scores"].items()}
        mean = (3 * scores["chrf"] / 100 + 1 - scores["wer"]) / 4
        assert scores["both"] == pytest.approx(mean)
        await check_kept(ExperimentId(experiment_id), RunId(first["run_id"]))

    async def check_kept(experiment_id: ExperimentId, run_id: RunId) -> None:
        async with await open_store(lab_url) as store:
            kept = await store.read(lambda c: runs.fingerprints_of(c, run_id))
            ids = await store.read(
                lambda c: [
                    ItemKey(ItemId(row.item_id))
                    for row in c.execute(
                        sa.text("SELECT item_id FROM turn_result WHERE experiment_id = :e"),
                        {"e": experiment_id},
                    )
                ]
            )
            rows = await store.read(
                lambda c: result_rows.rows_of_items(c, experiment_id, ids, statistics=True)
            )
        found = msgspec.json.decode(kept or "", type=dict[str, Fingerprint])
        assert set(found) == {"both", "chrf", "wer"}
        combined: Any = found["both"].parts["combines"]
        assert combined == {"chrf": found["chrf"].hash, "wer": found["wer"].hash}
        statistics = [
            row.scores["chrf"].statistics for row in rows if row.scores["chrf"].statistics
        ]
        assert len(statistics) == 2
        sums = [sum(column) for column in zip(*statistics, strict=True)]
        chrf = EvaluatorSpec("chrf", "chrf", settings={"reference": "meant"})
        scored = [row for row in ROWS if row["meant"]]
        own = sacrebleu.corpus_chrf(
            [row["said"] for row in scored], [[row["meant"] for row in scored]]
        )
        assert corpus_score(chrf, sums) == own.score

    asyncio.run(scenario())
