"""``lab.run``: an experiment inside a program, with functions of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.servers.openai_server import OpenAiServer

from dragoman import lab
from dragoman.errors import DatasetInvalid, InvalidFilter, InvalidMessage, SchemaMismatch

ROWS = [{"said": "a", "meant": "A"}, {"said": "b", "meant": "x"}]


def shout(said: str) -> str:
    return said.upper()


async def shout_later(said: str, history: list[object]) -> str:
    await asyncio.sleep(0)
    return said.upper() * (1 + len(history))


def short(output: str) -> float:
    return 1.0 / len(output)


def test_rows_run_through_a_function_and_are_judged(tmp_path: Path) -> None:
    result = lab.run(
        dataset=ROWS,
        target=shout,
        evaluators=[lab.exact(reference="meant"), short],
        concurrency=2,
        data_dir=tmp_path,
    )
    assert result.summary.stats.success == 2
    assert result.summary.scores["exact"].mean == 0.5
    assert result.summary.scores["short"].count == 2
    assert "exact: mean 0.5, 2 scored" in str(result.summary)
    assert [row.output["output"] for row in result.rows()] == ["A", "B"]
    (wrong,) = result.rows({"field": "score.exact", "op": "<", "value": 1})
    assert wrong.input["said"] == "b"
    assert len(result.rows(limit=1)) == 1
    with pytest.raises(InvalidFilter):
        result.rows({"field": "colour", "op": "=", "value": 1})


def test_conversations_reach_async_functions_with_their_history(tmp_path: Path) -> None:
    async def scenario() -> lab.RunResult:
        talk: dict[str, Any] = {"turns": [{"said": "a"}, {"said": "b"}]}
        return await lab.arun(dataset=[talk], target=shout_later, data_dir=tmp_path)

    result = asyncio.run(scenario())
    assert [row.output["output"] for row in result.rows()] == ["A", "BB"]


def test_one_evaluator_alone_needs_no_list(tmp_path: Path) -> None:
    for alone, name in ((lab.exact(reference="meant"), "exact"), (short, "short")):
        result = lab.run(dataset=ROWS, target=shout, evaluators=alone, data_dir=tmp_path)
        assert list(result.summary.scores) == [name]


def test_a_file_is_imported_and_found_again_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("said,meant\na,A\n")
    judged = [lab.contains(reference="meant")]
    target = lab.recorded(output="meant")
    first = lab.run(dataset=file, target=target, evaluators=judged, data_dir=tmp_path)
    second = lab.run(dataset="cases.csv", target=target, evaluators=judged, data_dir=tmp_path)
    assert (first.summary.name, second.summary.name) == ("recorded", "recorded #2")
    assert second.summary.scores["contains"].pass_rate == 1.0


def test_only_verdicts_have_a_pass_rate(tmp_path: Path) -> None:
    result = lab.run(
        dataset=[{"said": "a", "meant": "a"}, {"said": "b", "meant": "c"}],
        target=lab.recorded(output="said"),
        evaluators=[
            lab.exact(reference="meant"),
            lab.wer(reference="meant"),
            lab.chrf(reference="meant"),
        ],
        data_dir=tmp_path,
    )
    rates = {name: score.pass_rate for name, score in result.summary.scores.items()}
    assert rates == {"exact": 0.5, "wer": None, "chrf": None}


def test_what_cannot_work_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text("{}\n")
    with pytest.raises(InvalidMessage, match="no file and no dataset"):
        lab.run(dataset="nothing.jsonl", target=shout, data_dir=tmp_path)
    with pytest.raises(DatasetInvalid, match="line 1"):
        lab.run(dataset=tmp_path / "broken.jsonl", target=shout, data_dir=tmp_path)
    for wrong in ("exact", {"exact": 1}, 5):
        given: Any = wrong
        with pytest.raises(InvalidMessage, match=r"`evaluators` is .* give a list of"):
            lab.run(dataset=ROWS, target=shout, evaluators=given, data_dir=tmp_path)
    odd: Any = [*ROWS, {"said": object()}]
    with pytest.raises(DatasetInvalid, match="Row 3"):
        lab.run(dataset=odd, target=shout, data_dir=tmp_path)
    with pytest.raises(SchemaMismatch, match="nothing"):
        lab.run(
            dataset=ROWS,
            target=shout,
            evaluators=[lab.exact(reference="nothing")],
            data_dir=tmp_path,
        )


def test_inside_an_event_loop_the_other_form_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match=r"await lab\.arun"):
            lab.run(dataset=ROWS, target=shout, data_dir=tmp_path)

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_ends_and_keeps_what_is_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        called = asyncio.Event()

        async def stuck(said: str) -> str:
            called.set()
            await asyncio.Event().wait()
            return said

        running = asyncio.create_task(
            lab.arun(dataset=ROWS, target=stuck, name="stuck", data_dir=tmp_path)
        )
        await called.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    again = lab.run(dataset=ROWS, target=shout, name="stuck", data_dir=tmp_path)
    assert again.summary.name == "stuck #2"


def test_many_runs_at_once_have_names_of_their_own_and_share_the_dataset(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("said,meant\na,A\nb,B\n")

    async def scenario() -> list[lab.RunResult]:
        def answer(factor: int) -> Callable[[str], str]:
            return lambda said: said.upper() * factor

        return await asyncio.gather(
            *(
                lab.arun(dataset=file, target=answer(n), name="many", data_dir=tmp_path)
                for n in range(1, 6)
            )
        )

    results = asyncio.run(scenario())
    names = [result.summary.name for result in results]
    assert sorted(names) == ["many", "many #2", "many #3", "many #4", "many #5"]
    for number, result in enumerate(results, 1):
        assert [row.output["output"] for row in result.rows()] == ["A" * number, "B" * number]
    assert len({tuple(row.item_id for row in result.rows()) for result in results}) == 1
    again = lab.run(dataset=file, target=shout, data_dir=tmp_path)
    assert [row.item_id for row in again.rows()] == [row.item_id for row in results[0].rows()]
    assert _rows(tmp_path, "SELECT count(*) FROM dataset_version") == [(1,)]
    assert _rows(tmp_path, "SELECT count(*) FROM dataset_item") == [(2,)]


def test_a_stopped_run_goes_on_and_a_finished_one_does_not(tmp_path: Path) -> None:
    called: list[str] = []

    async def stuck(said: str) -> str:
        called.append(said)
        if said == "b" and called.count("b") == 1:
            await asyncio.Event().wait()
        return said

    async def begin() -> None:
        running = asyncio.create_task(
            lab.arun(dataset=ROWS, target=stuck, concurrency=1, data_dir=tmp_path)
        )
        async with asyncio.timeout(60):
            while "b" not in called:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(begin())
    again = lab.run(dataset=ROWS, target=stuck, concurrency=2, data_dir=tmp_path)
    assert (again.summary.name, again.summary.stats.success) == ("stuck", 2)
    assert called == ["a", "b", "b"], "what was answered is not asked again"
    finished = lab.run(dataset=ROWS, target=stuck, concurrency=2, data_dir=tmp_path)
    assert finished.summary.name == "stuck #2"


def test_numbers_that_json_does_not_have_are_refused_and_none_is_kept(tmp_path: Path) -> None:
    for odd in (float("nan"), float("inf"), [1.0, {"deep": float("-inf")}]):
        rows: list[Any] = [{"said": "a", "n": None}, {"said": "b", "n": odd}]
        with pytest.raises(DatasetInvalid, match=r"Row 2 cannot be stored: row\.n"):
            lab.run(dataset=rows, target=shout, data_dir=tmp_path)
    good = lab.run(dataset=[{"said": "a", "n": None}], target=shout, data_dir=tmp_path)
    assert good.rows()[0].input == {"said": "a", "n": None}


class Node(str):
    """A piece of text as libraries for HTML return it."""


def test_text_and_numbers_of_other_libraries_are_stored_as_what_they_are(tmp_path: Path) -> None:
    def measured(said: str) -> dict[str, Any]:
        if said == "b":
            raise lab.TargetError(Node("no such page"), retryable=False)
        return {"output": Node("A"), "mean": np.float64(0.5), "digits": 10**900}

    result = lab.run(dataset=ROWS, target=measured, data_dir=tmp_path)
    found = {row.input["said"]: row for row in result.rows()}
    assert found["a"].output == {"output": "A", "mean": 0.5, "digits": 10**900}
    assert (found["b"].error_code, found["b"].error_message) == ("TARGET_ERROR", "no such page")


def test_a_number_that_is_too_long_to_be_written_fails_its_item_alone(tmp_path: Path) -> None:
    def counted(said: str) -> int:
        return 10**5000 if said == "b" else 1

    result = lab.run(dataset=ROWS, target=counted, retries=0, data_dir=tmp_path)
    found = {row.input["said"]: row for row in result.rows()}
    assert found["a"].output == {"output": 1}
    assert found["b"].error_code == "TARGET_ERROR"
    assert "too many digits" in (found["b"].error_message or "")


def test_what_is_public_is_what_is_shown() -> None:
    assert "run" in dir(lab)
    assert dir(lab) == sorted(lab.__all__)
    assert all(getattr(lab, name) is not None for name in dir(lab))


def test_the_summary_names_the_causes_of_failure(tmp_path: Path) -> None:
    def broken(said: str) -> str:
        raise ValueError(f"no {said}")

    result = lab.run(
        dataset=ROWS,
        target=broken,
        evaluators=[lab.exact(reference="meant")],
        retries=0,
        data_dir=tmp_path,
    )
    told = str(result.summary)
    assert "exact: mean none, 0 scored, 2 errors" in told
    assert "TARGET_ERROR (2), such as" in told
    assert "ValueError: no a" in told
    assert result.summary.aggregates.failures.share == 1.0


def test_arguments_that_do_not_exist_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    asked: Any = {"dataset": ROWS, "target": shout, "data_dir": tmp_path}
    with pytest.raises(TypeError, match="'concurency'"):
        lab.run(**{**asked, "concurency": 3})
    with pytest.raises(TypeError, match="'target'"):
        lab.run(dataset=ROWS)  # type: ignore[call-arg]
    assert not list(tmp_path.iterdir())


def _rows(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "dragoman.db") as database:
        return database.execute(sql).fetchall()


def test_items_are_tried_several_times_and_the_summary_tells_how_steady_they_are(
    tmp_path: Path,
) -> None:
    result = lab.run(
        dataset=ROWS,
        target=shout,
        evaluators=[lab.exact(reference="meant")],
        repetitions=3,
        data_dir=tmp_path,
    )
    assert (result.summary.items, result.summary.stats.success) == (6, 6)
    assert [row.repetition for row in result.rows()] == [1, 2, 3] * 2
    told = result.summary.scores["exact"].repetitions
    assert isinstance(told, lab.Repeated)
    assert (told.within, told.pass_at_k[3], told.pass_hat_k[3]) == (0.0, 0.5, 0.5)
    assert "exact in 3 repetitions: variance within items 0" in str(result.summary)
    assert "pass@3 0.5, pass^3 0.5" in str(result.summary)
    again = lab.run(
        dataset=ROWS,
        target=shout,
        evaluators=[lab.exact(reference="meant")],
        repetitions=2,
        data_dir=tmp_path,
    )
    assert again.experiment_id != result.experiment_id


def test_what_is_stored_is_scored_again_with_functions_of_the_program(tmp_path: Path) -> None:
    called: list[str] = []

    def noting(said: str) -> str:
        called.append(said)
        return said.upper()

    def length(output: str) -> float:
        return float(len(output))

    result = lab.run(dataset=ROWS, target=noting, evaluators=[short], data_dir=tmp_path)

    scored = result.score([lab.exact(reference="meant"), length])

    assert called == ["a", "b"] or called == ["b", "a"]
    assert scored.experiment_id == result.experiment_id
    assert scored.run_id != result.run_id
    assert [set(row.scores) for row in scored.rows()] == [{"short", "exact", "length"}] * 2
    assert scored.summary.scores["exact"].mean == 0.5
    again = scored.score([lab.exact(reference="said", ignore_case=True)])
    assert again.summary.scores["exact"].mean == 1.0
    assert len(called) == 2

    async def inside_a_loop() -> lab.RunResult:
        return again.score([lab.contains(reference="meant")])

    assert "contains" in asyncio.run(inside_a_loop()).summary.scores


def test_models_judges_and_snippets_are_described_in_a_line_each(tmp_path: Path) -> None:
    with OpenAiServer() as server:
        for name, cached in (("one", False), ("two", True)):
            result = lab.run(
                name=name,
                dataset=[{"said": "good"}],
                target=lab.openai(server.url, model="echo", prompt="{{said}}"),
                evaluators=[
                    lab.llm_judge(url=server.url, model="rubric-judge", rubric="Say good."),
                    lab.code("len(output)", timeout_seconds=30),
                ],
                cache=True,
                data_dir=tmp_path,
            )
            (row,) = result.rows()
            assert row.output["output"] == "good"
            assert row.scores["llm_judge"].score == 5
            assert row.scores["code"].score == 4
            assert row.cached is cached
        assert len(server.asked) == 2
