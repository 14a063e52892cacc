"""Python functions as evaluators, here and in processes of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lab.evaluators.functions import crash
from tests.unit.lab.evaluators.scene import HERE, judge

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.evaluators import FunctionProcessPool, Score, check_evaluator, open_evaluator
from dragoman.lab.evaluators.processes import importable_name
from dragoman.lab.failures import CalledTooOften, EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output


def said(answer: Any) -> Score:
    return judge("python", {}, "x", functions={"mine": lambda: answer}, function="mine")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (0.25, Score(0.25)),
        (3, Score(3.0)),
        (True, Score(1.0, "pass")),
        ("good", Score(None, "good")),
        ({"score": 1, "label": "a", "reason": "b"}, Score(1.0, "a", "b")),
        ({"label": "a"}, Score(None, "a")),
        (Score(0.5, reason="so"), Score(0.5, None, "so")),
    ],
)
def test_a_function_says_numbers_truths_labels_or_all_of_it(answer: Any, score: Score) -> None:
    assert said(answer) == score


@pytest.mark.parametrize(
    "answer",
    [
        *(None, float("nan"), float("inf"), 1e101, -(10**400)),
        *({"score": "1"}, {"points": 1}, {}, [1], object()),
    ],
)
def test_what_is_no_score_is_an_error(answer: Any) -> None:
    with pytest.raises(EvaluatorFailure, match="returned no score"):
        said(answer)


def test_arguments_come_from_the_turn_and_the_output() -> None:
    seen: list[dict[str, Any]] = []

    def mine(**columns: Any) -> float:
        seen.append(columns)
        return 1.0

    judge(
        "python",
        {"a": 1, "output": "dataset's"},
        {"text": "main", "extra": 2},
        functions={"mine": mine},
        function="mine",
    )
    assert seen == [{"a": 1, "text": "main", "extra": 2, "output": "main"}]
    assert judge("python", {"reference": "x"}, "x", function=f"{HERE}:same") == Score(1.0, "pass")
    with pytest.raises(EvaluatorFailure, match="takes `reference`") as failed:
        judge("python", {}, "x", function=f"{HERE}:same")
    assert not failed.value.retryable


def test_what_a_function_raises_is_an_error_of_the_evaluator() -> None:
    with pytest.raises(EvaluatorFailure, match="raised ValueError: no score for this") as failed:
        judge("python", {}, "x", function=f"{HERE}:fail")
    assert failed.value.retryable

    def limited() -> None:
        raise CalledTooOften(retry_after_seconds=1)

    with pytest.raises(CalledTooOften):
        judge("python", {}, "x", functions={"mine": limited}, function="mine")


def test_a_server_calls_what_its_settings_allow() -> None:
    spec = EvaluatorSpec("python", "p", settings={"function": f"{HERE}:same"})
    check_evaluator(spec, (), Context(python_allow=(f"{HERE}.*",)))
    with pytest.raises(Forbidden):
        check_evaluator(spec, (), Context(python_allow=()))


# --- in processes -----------------------------------------------------------------------------


def in_process(function: str, turn: dict[str, Any] | None = None, output: Any = "x") -> Score:
    return judge("python", turn or {}, output, function=f"{HERE}:{function}", cpu_bound=True)


def test_a_function_may_run_in_a_process_of_its_own() -> None:
    assert in_process("process_id").score != os.getpid()
    assert in_process("later", output=["a"]) == Score(0.5, "half", "['a']")
    assert in_process("talk", output="four") == Score(4.0)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("fail", "raised ValueError: no score for this"),
        ("leave", "raised SystemExit: no more"),
        ("strange", "cannot be sent"),
    ],
)
def test_what_goes_wrong_in_a_process_is_told(function: str, says: str) -> None:
    with pytest.raises(EvaluatorFailure, match=says):
        in_process(function)


def pooled(size: int, main: Callable[[FunctionProcessPool], Awaitable[None]]) -> None:
    async def run() -> None:
        pool = FunctionProcessPool(size)
        try:
            await main(pool)
        finally:
            await pool.close()

    asyncio.run(run())


def test_only_the_item_that_crashed_its_process_fails() -> None:
    async def main(pool: FunctionProcessPool) -> None:
        spec = EvaluatorSpec(
            "python", "p", settings={"function": f"{HERE}:crash", "cpu_bound": True}
        )
        evaluator = open_evaluator(spec, Context(), pool)
        turns = [{"text": "die" if n % 5 == 0 else "live"} for n in range(20)]
        said = await asyncio.gather(
            *(evaluator.score(turn, Output({"output": ""})) for turn in turns),
            return_exceptions=True,
        )
        for turn, one in zip(turns, said, strict=True):
            if turn["text"] == "live":
                assert one == Score(1.0)
            else:
                assert isinstance(one, EvaluatorFailure)
                assert "ended before it answered (exit status -9)" in one.message
        await evaluator.close()

    pooled(2, main)


def test_processes_are_used_again() -> None:
    async def main(pool: FunctionProcessPool) -> None:
        ids = {await pool.call(f"{HERE}:process_id", {}) for _ in range(10)}
        assert len(ids) == 1

    pooled(4, main)


def gone(process_id: int) -> bool:
    """Whether a process has ended; its parent may not have looked yet."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # another process makes it true
        await asyncio.sleep(0.01)


def written(path: Path) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text() != ""


def test_a_process_that_was_ended_while_idle_is_replaced_and_no_call_is_blamed() -> None:
    async def main(pool: FunctionProcessPool) -> None:
        process_id = int(await pool.call(f"{HERE}:process_id", {}))
        os.kill(process_id, 9)
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        await until(lambda: os.waitid(os.P_PID, process_id, look) is not None)
        assert await pool.call(f"{HERE}:process_id", {}) != process_id

    pooled(1, main)


def test_a_call_that_is_given_up_is_stopped_with_its_process(tmp_path: Path) -> None:
    started = tmp_path / "started"

    async def main(pool: FunctionProcessPool) -> None:
        work = asyncio.create_task(pool.call(f"{HERE}:hang", {"started": str(started)}))
        await until(written(started))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await until(lambda: gone(int(started.read_text())))
        assert await pool.call(f"{HERE}:crash", {}) == 1.0, "its place is free again"

    pooled(1, main)


def test_closing_ends_what_is_at_work(tmp_path: Path) -> None:
    started = tmp_path / "started"

    async def main(pool: FunctionProcessPool) -> None:
        work = asyncio.create_task(pool.call(f"{HERE}:hang", {"started": str(started)}))
        await until(written(started))
        await pool.close()
        assert gone(int(started.read_text()))
        with pytest.raises(EvaluatorFailure, match="ended before it answered"):
            await work

    pooled(1, main)


LAB = f"""
import asyncio, sys
from dragoman.lab.evaluators import FunctionProcessPool

asyncio.run(FunctionProcessPool(1).call("{HERE}:hang", {{"started": sys.argv[1]}}))
"""


def test_a_process_ends_when_its_lab_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB, str(started)], env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    try:
        asyncio.run(until(written(started)))
    finally:
        lab.kill()
        lab.wait()
    asyncio.run(until(lambda: gone(int(started.read_text()))))


def test_a_function_that_no_other_process_can_import_is_refused() -> None:
    assert importable_name(crash) == f"{HERE}:crash"
    spec = EvaluatorSpec("python", "p", settings={"function": "mine", "cpu_bound": True})
    with pytest.raises(InvalidMessage, match="module of its own") as refused:
        check_evaluator(spec, (), Context(functions={"mine": lambda: 1}))
    assert refused.value.details == {"field": "evaluator.cpu_bound"}
