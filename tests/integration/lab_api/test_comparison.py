"""Comparing runs over HTTP: paired by content, refused where it would mislead, the tenant's own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import sacrebleu
from scipy import stats
from tests.integration.lab_api.conftest import Asker, OpenLab
from tests.servers import TWO_DATABASES

HERE = "tests.integration.lab_api.targets"
DATABASE_KINDS = ("sqlite",)
"""Comparing computes with rows that test_results.py reads on both, and two tests here."""

SEED = 20_261_116
WORDS = ["the", "small", "dog", "sees", "red", "house", "near", "river", "runs", "every", "day"]

Row = Mapping[str, Any]

on_both = pytest.mark.parametrize("lab_url", TWO_DATABASES, indirect=True)


def sentences(count: int, seed: int = SEED) -> list[dict[str, Any]]:
    """Rows with a reference and the outputs of two systems, the second of which is better."""
    drawn = random.Random(seed)
    rows = []
    for number in range(count):
        meant = [drawn.choice(WORDS) for _ in range(drawn.randint(4, 9))]
        rows.append(
            {
                "id": number,
                "speaker": f"s{number % 4}",
                "meant": " ".join(meant),
                "bad": " ".join(w if drawn.random() < 0.6 else drawn.choice(WORDS) for w in meant),
                "good": " ".join(w if drawn.random() < 0.8 else drawn.choice(WORDS) for w in meant),
            }
        )
    return rows


async def run_of(lab: Asker, version: str, name: str, output: str, **order: Any) -> str:
    evaluators = [{"kind": "chrf", "reference": "meant"}, {"kind": "wer", "reference": "meant"}]
    experiment_id = await lab.submit(
        version,
        **{
            "name": name,
            "target": {"kind": "recorded", "output": output},
            "evaluators": evaluators,
            **order,
        },
    )
    assert (await lab.until_ended(experiment_id))["status"] == "success"
    return experiment_id


async def compared(lab: Asker, baseline: str | None, *others: str, **order: Any) -> dict[str, Any]:
    answer = await lab.post(
        "/experiments/compare", {"baseline": baseline, "others": list(others), **order}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def rows_of(lab: Asker, experiment_id: str) -> list[dict[str, Any]]:
    answer = await lab.post(f"/experiments/{experiment_id}/results", {"limit": 1000})
    rows: list[dict[str, Any]] = answer.json()["items"]
    return rows


def scores_in(rows: Sequence[Row], name: str) -> dict[str, float]:
    return {row["item_id"]: row["scores"][name]["score"] for row in rows}


@on_both
def test_a_comparison_says_what_the_rows_say(open_lab: OpenLab) -> None:
    given = sentences(12)

    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(given)
            one = await run_of(lab, version, "bad", "bad")
            two = await run_of(lab, version, "good", "good")
            found = await compared(lab, one, "good")
            before = scores_in(await rows_of(lab, one), "chrf")
            after = scores_in(await rows_of(lab, two), "chrf")
            differences = [after[item] - before[item] for item in before]
            [run] = found["others"]
            chrf = run["scores"]["chrf"]
            assert (found["baseline"]["name"], run["name"]) == ("bad", "good")
            assert chrf["paired"] == chrf["units"] == 12
            assert chrf["delta"] == pytest.approx(np.mean(differences))
            assert chrf["baseline"] == pytest.approx(np.mean(list(before.values())))
            assert chrf["other"] == pytest.approx(np.mean(list(after.values())))
            assert chrf["ci95"][0] < chrf["delta"] < chrf["ci95"][1]
            exact = stats.permutation_test(
                (np.array(differences),),
                np.mean,
                permutation_type="samples",
                n_resamples=np.inf,
            )
            assert chrf["p_alone"] == pytest.approx(exact.pvalue)
            assert chrf["p"] >= chrf["p_alone"]
            assert chrf["wins"] == sum(one > 1e-12 for one in differences)
            assert chrf["wins"] + chrf["losses"] + chrf["ties"] == 12
            assert chrf["effect_size"] == pytest.approx(
                np.mean(differences) / np.std(differences, ddof=1)
            )
            assert "With 12 items a difference below" in chrf["in_words"]

            references = [[row["meant"] for row in given]]
            corpus = [
                sacrebleu.corpus_chrf([row[name] for row in given], references).score
                for name in ("bad", "good")
            ]
            assert chrf["corpus"]["baseline"] == pytest.approx(corpus[0])
            assert chrf["corpus"]["other"] == pytest.approx(corpus[1])
            assert chrf["corpus"]["delta"] == pytest.approx(corpus[1] - corpus[0])
            # Fewer errors are better.
            wer = run["scores"]["wer"]
            assert wer["higher_is_better"] is False
            before = scores_in(await rows_of(lab, one), "wer")
            after = scores_in(await rows_of(lab, two), "wer")
            assert wer["delta"] == pytest.approx(np.mean([after[i] - before[i] for i in before]))
            assert wer["wins"] == sum(after[item] < before[item] for item in before)
            assert wer["losses"] == sum(after[item] > before[item] for item in before)
            assert wer["wins"] != wer["losses"]

    asyncio.run(scenario())


def test_everything_that_is_compared_at_once_is_corrected_at_once(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(10))
            for name, output in (("bad", "bad"), ("good", "good"), ("ideal", "meant")):
                await run_of(lab, version, name, output)
            found = await compared(lab, "bad", "good", "ideal")
            told = [
                change
                for run in found["others"]
                for score in run["scores"].values()
                for change in (score, score["corpus"])
            ]
            assert found["questions"] == len(told) == 8
            by_p = sorted(told, key=lambda change: change["p_alone"])
            assert by_p[0]["p"] == pytest.approx(min(1.0, 8 * by_p[0]["p_alone"]))
            assert [one["p"] for one in by_p] == sorted(one["p"] for one in told)

    asyncio.run(scenario())


def test_items_pair_by_their_content_across_versions(open_lab: OpenLab) -> None:
    rows = sentences(8)
    changed = [*reversed(rows[:6]), {**rows[6], "meant": "another reference"}]

    async def scenario() -> None:
        async with open_lab() as lab:
            made = await lab.send_file(b"".join(_line(row) for row in rows), name="cases")
            dataset_id = made.json()["dataset_id"]
            second = await lab.send_file(
                b"".join(_line(row) for row in changed), path=f"/datasets/{dataset_id}/versions"
            )
            one = await run_of(lab, made.json()["version_id"], "one", "bad")
            two = await run_of(lab, second.json()["version_id"], "two", "bad")
            found = await compared(lab, one, two)
            chrf = found["others"][0]["scores"]["chrf"]
            assert chrf["paired"] == 6
            assert (chrf["delta"], chrf["p"]) == (0.0, 1.0)
            assert found["questions"] == 0
            assert chrf["finding"] == "equal"
            assert chrf["left_out"]["only_in_baseline"] == 2
            assert chrf["left_out"]["only_in_other"] == 1

    asyncio.run(scenario())


def test_repetitions_of_an_item_are_one_unit(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(6))
            one = await run_of(lab, version, "bad", "bad", repetitions=3)
            two = await run_of(lab, version, "good", "good", repetitions=2)
            once = await run_of(lab, version, "once", "good")
            repeated = (await compared(lab, one, two))["others"][0]["scores"]["chrf"]
            single = (await compared(lab, one, once))["others"][0]["scores"]["chrf"]
            assert repeated["paired"] == repeated["units"] == 6
            for told in ("delta", "p_alone", "ci95"):
                assert repeated[told] == pytest.approx(single[told])
            assert repeated["corpus"]["delta"] == pytest.approx(single["corpus"]["delta"])

    asyncio.run(scenario())


def test_scores_that_were_not_given_alike_are_refused_by_what_differs(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(5))
            one = await run_of(lab, version, "one", "bad")
            other = [
                {"kind": "chrf", "reference": "meant", "word_order": 2},
                {"kind": "wer", "reference": "meant"},
                {"kind": "exact", "reference": "meant"},
            ]
            two = await run_of(lab, version, "two", "bad", evaluators=other)
            [run] = (await compared(lab, one, two))["others"]
            assert run["refused"] == {
                "chrf": ["settings.word_order is 0 in one and 2 in the other"]
            }
            assert set(run["scores"]) == {"wer"}
            assert run["only_here"] == ["exact"]
            # Scored again in the same way, it compares.
            again = await lab.post(f"/experiments/{one}/score", {"evaluators": other[:1]})
            assert again.status_code == 201, again.text
            await lab.until_ended(one)
            [run] = (await compared(lab, one, two))["others"]
            assert set(run["scores"]) == {"chrf", "wer"}
            assert run["refused"] == {}

    asyncio.run(scenario())


def test_a_tenant_compares_only_its_own(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(4))
            one = await run_of(lab, version, "one", "bad")
            two = await run_of(lab, version, "two", "good")
            run_id = (await lab.get(f"/experiments/{two}")).json()["run_id"]
            stranger = lab.as_tenant("other")
            own = await run_of(stranger, await stranger.import_rows(sentences(4)), "own", "bad")
            for baseline, other in ((own, two), (one, own), (own, "two"), (own, run_id)):
                refused = await stranger.post(
                    "/experiments/compare", {"baseline": baseline, "others": [other]}
                )
                assert refused.status_code == 404, refused.text
                assert "dragoman experiment list" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_what_is_left_out_is_told_by_what_became_of_it(open_lab: OpenLab) -> None:
    rows = [{"said": said, "meant": said} for said in ("a", "b", "xc", "d", "odd", "e")]

    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(rows)
            order = {
                "evaluators": [
                    {"kind": "exact", "reference": "meant"},
                    {"kind": "python", "name": "own", "function": f"{HERE}:not_odd"},
                ],
                "retries": 0,
            }
            one = await run_of(lab, version, "one", "said", **order)
            picky = {"kind": "python", "function": f"{HERE}:picky"}
            two = await run_of(lab, version, "two", "said", **{**order, "target": picky})
            [run] = (await compared(lab, one, two))["others"]
            exact, own = run["scores"]["exact"], run["scores"]["own"]
            assert exact["paired"] == 5
            assert exact["left_out"]["other"] == _missing(target_failed=1)
            assert exact["left_out"]["baseline"] == _missing()
            assert own["paired"] == 4
            assert own["left_out"]["baseline"] == _missing(unscored=1)
            assert own["left_out"]["other"] == _missing(target_failed=1, unscored=1)
            # Where a target fails is compared, too: an easier test makes no better system.
            assert run["failures"]["other"] == pytest.approx(1 / 6)
            assert run["failures"]["losses"] == 1

    asyncio.run(scenario())


def test_rows_stand_side_by_side_with_the_biggest_losses_first(open_lab: OpenLab) -> None:
    given = sentences(9)

    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(given)
            one = await run_of(lab, version, "good", "good")
            two = await run_of(lab, version, "bad", "bad")
            whole = await compared(lab, one, two, limit=100)
            gains = [row["others"][0]["gain"] for row in whole["rows"]]
            assert whole["sorted_by"] == "chrf"
            assert gains == sorted(gains)
            assert gains[0] < 0
            assert whole["next"] is None
            first = whole["rows"][0]
            assert first["baseline"]["output"] == {"output": first["input"]["good"]}
            pieces = first["others"][0]["diff"]
            assert "".join(t for op, t in pieces if op != "added") == first["input"]["good"]
            assert "".join(t for op, t in pieces if op != "removed") == first["input"]["bad"]
            # Less is better: the biggest losses are the largest rises.
            by_wer = await compared(lab, one, two, limit=100, sort_by="wer")
            rises = [
                row["others"][0]["scores"]["wer"] - row["baseline"]["scores"]["wer"]
                for row in by_wer["rows"]
            ]
            assert rises == sorted(rises, reverse=True)
            paged: list[str] = []
            cursor: str | None = None
            while True:
                page = await compared(lab, one, two, limit=4, cursor=cursor)
                paged += [row["item_id"] for row in page["rows"]]
                cursor = page["next"]
                if cursor is None:
                    break
            assert paged == [row["item_id"] for row in whole["rows"]]

    asyncio.run(scenario())


@on_both
def test_a_filter_chooses_turns_by_the_baseline_and_a_column_names_clusters(
    open_lab: OpenLab,
) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(16))
            one = await run_of(lab, version, "bad", "bad")
            two = await run_of(lab, version, "good", "good")
            low = {"field": "score.chrf", "op": "<", "value": 60}
            chosen = {
                item
                for item, score in scores_in(await rows_of(lab, one), "chrf").items()
                if score < 60
            }
            filtered = await compared(lab, one, two, filter=low, limit=100)
            assert 0 < len(chosen) < 16
            assert {row["item_id"] for row in filtered["rows"]} == chosen
            chrf = filtered["others"][0]["scores"]["chrf"]
            assert chrf["paired"] == len(chosen)
            assert chrf["left_out"]["only_in_other"] == 0
            by_input = {"field": "input.speaker", "op": "matches", "value": "s[12]"}
            matched = await compared(lab, one, two, filter=by_input, limit=100)
            assert {row["input"]["speaker"] for row in matched["rows"]} == {"s1", "s2"}
            assert matched["others"][0]["scores"]["chrf"]["paired"] == 8
            clustered = await compared(lab, one, two, cluster="speaker")
            chrf = clustered["others"][0]["scores"]["chrf"]
            assert (chrf["paired"], chrf["units"]) == (16, 4)
            # Four speakers can be swapped in 16 ways only.
            assert chrf["p_alone"] >= 2 / 16
            assert "in 4 groups" in chrf["in_words"]

    asyncio.run(scenario())


def test_the_turns_of_a_conversation_are_not_independent(open_lab: OpenLab) -> None:
    rows = [{"turns": sentences(3, seed=number)} for number in range(5)]

    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(rows)
            one = await run_of(lab, version, "bad", "bad")
            two = await run_of(lab, version, "good", "good")
            chrf = (await compared(lab, one, two))["others"][0]["scores"]["chrf"]
            assert (chrf["paired"], chrf["units"]) == (15, 5)

    asyncio.run(scenario())


def test_the_baseline_is_the_last_finished_run_unless_one_is_named(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(4))
            one = await run_of(lab, version, "same", "bad")
            first = (await lab.get(f"/experiments/{one}")).json()["run_id"]
            none = await lab.post("/experiments/compare", {"others": [one]})
            assert none.status_code == 404
            assert "name a baseline" in none.json()["error"]["message"]
            await run_of(lab, version, "same #x", "good")
            await run_of(lab, version, "same #2", "good")
            three = await run_of(lab, version, "same #3", "meant")
            assert (await compared(lab, None, three))["baseline"]["name"] == "same #2"
            # A run of the whole experiment again has its earlier run before it.
            started = await lab.post(f"/experiments/{one}/runs", {"mode": "retry_all"})
            assert started.status_code == 201, started.text
            await lab.until_ended(one)
            again = await compared(lab, None, one)
            assert again["baseline"]["run_id"] == first
            assert again["others"][0]["scores"]["chrf"]["finding"] == "equal"
            history = await compared(lab, first, started.json()["run_id"])
            assert history["others"][0]["scores"]["chrf"]["paired"] == 4

    asyncio.run(scenario())


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"baseline": "one", "others": []}, 422, "name from 1 to 20"),
    ({"baseline": "one", "others": ["one"]}, 422, "compared with itself"),
    ({"baseline": "one", "others": ["nothing"]}, 404, "nothing"),
    ({"baseline": "one", "others": ["two"], "cluster": "colour"}, 422, "'colour'"),
    ({"baseline": "one", "others": ["two"], "sort_by": "chrF"}, 422, "did you mean 'chrf'"),
    ({"baseline": "one", "others": ["two"], "limit": 5000}, 422, "limit is 5000"),
    ({"baseline": "one", "others": ["two"], "cursor": "x"}, 422, "cursor"),
    ({"baseline": "one", "others": ["two"], "cursor": "9" * 5000}, 422, "cursor"),
    ({"baseline": "one", "others": ["two"], "metric": "chrf"}, 422, "metric"),
    (
        {
            "baseline": "one",
            "others": ["two"],
            "filter": {"field": "score.chr", "op": "<", "value": 1},
        },
        422,
        "did you mean 'chrf'",
    ),
]


def test_what_cannot_be_compared_is_refused_with_the_reason(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(3))
            await run_of(lab, version, "one", "bad")
            await run_of(lab, version, "two", "good")
            for order, status, why in REFUSED:
                refused = await lab.post("/experiments/compare", order)
                assert refused.status_code == status, (order, refused.text)
                assert why in refused.json()["error"]["message"], (order, refused.text)

    asyncio.run(scenario())


def test_a_comparison_of_nothing_shared_says_so(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            one = await run_of(lab, await lab.import_rows(sentences(3)), "one", "bad")
            version = await lab.import_rows(sentences(3, seed=1), name="others")
            two = await run_of(lab, version, "two", "bad")
            found = await compared(lab, one, two)
            chrf = found["others"][0]["scores"]["chrf"]
            assert (chrf["paired"], chrf["delta"], chrf["p"]) == (0, None, None)
            assert chrf["in_words"] == "No turn has chrf in both runs."
            assert found["rows"] == []

    asyncio.run(scenario())


def _line(row: Row) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _missing(**counts: int) -> dict[str, int]:
    names = ("target_failed", "unscored", "infrastructure", "unfinished")
    return {name: counts.get(name, 0) for name in names}


def test_a_comparison_can_be_had_as_a_report(open_lab: OpenLab) -> None:
    async def scenario() -> None:
        async with open_lab() as lab:
            version = await lab.import_rows(sentences(20))
            bad = await run_of(lab, version, "bad <b>", "bad")
            good = await run_of(lab, version, "good", "good")
            asked = {"baseline": bad, "others": [good]}
            report = await lab.post("/experiments/compare/report", asked)
            assert report.status_code == 200, report.text
            assert report.headers["content-type"].startswith("text/markdown")
            assert "attachment" in report.headers["content-disposition"]
            assert report.text.startswith("# good against bad \\<b\\>")
            assert "| chrf |" in report.text
            refused = await lab.as_tenant("globex").post("/experiments/compare/report", asked)
            assert refused.status_code == 404

    asyncio.run(scenario())
