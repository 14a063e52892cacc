"""``lab.run``: an experiment inside a program, with functions of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

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


def test_a_file_is_imported_and_found_again_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("said,meant\na,A\n")
    judged = [lab.contains(reference="meant")]
    target = lab.recorded(output="meant")
    first = lab.run(dataset=file, target=target, evaluators=judged, data_dir=tmp_path)
    second = lab.run(dataset="cases.csv", target=target, evaluators=judged, data_dir=tmp_path)
    assert (first.summary.name, second.summary.name) == ("recorded", "recorded #2")
    assert second.summary.scores["contains"].pass_rate == 1.0


def test_what_cannot_work_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text("{}\n")
    with pytest.raises(InvalidMessage, match="no file and no dataset"):
        lab.run(dataset="nothing.jsonl", target=shout, data_dir=tmp_path)
    with pytest.raises(DatasetInvalid, match="line 1"):
        lab.run(dataset=tmp_path / "broken.jsonl", target=shout, data_dir=tmp_path)
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
