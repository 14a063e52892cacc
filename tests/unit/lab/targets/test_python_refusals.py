"""What a function may return and raise: usage, and requests to be called later."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from dragoman import lab
from dragoman.lab import failures
from dragoman.lab.evaluators import FunctionProcessPool, open_evaluator
from dragoman.lab.model import EvaluatorSpec, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output, open_target


class Answered(Exception):
    """An exception as client libraries raise them."""

    def __init__(self, **parts: Any) -> None:
        super().__init__("too many requests")
        for name, value in parts.items():
            setattr(self, name, value)


class Response:
    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


def called(function: Any) -> Output:
    target = open_target(
        TargetSpec("python", {"function": "f"}), Context(functions={"f": function})
    )

    async def main() -> Output:
        try:
            return await target.call({"text": "a"}, ())
        finally:
            await target.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (lab.RateLimited(), None),
        (lab.RateLimited("later", retry_after=2.5), 2.5),
        (lab.RateLimited(retry_after=0), 0.0),
        (lab.RateLimited(retry_after=2), 2.0),
        (lab.RateLimited(retry_after=math.inf), None),
        (lab.RateLimited(retry_after=math.nan), None),
        (lab.RateLimited(retry_after=-1), None),
        (lab.RateLimited(retry_after="2.5"), 2.5),  # type: ignore[arg-type]
        (lab.RateLimited(retry_after="soon"), None),  # type: ignore[arg-type]
        (Answered(status_code=429), None),
        (Answered(status_code=429, retry_after=3), 3.0),
        (Answered(status=429, headers={"Retry-After": "7"}), 7.0),
        (Answered(code=429, headers={"retry-after-ms": "1500"}), 1.5),
        (Answered(response=Response(429, {"Retry-After": "0.2"})), 0.2),
        (Answered(status_code=429, response=Response(429, {"retry-after": "soon"})), None),
        (Answered(response=Response(429, {})), None),
        (Answered(status_code=429, headers=object()), None),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_refusal_is_waited_out(error: Exception, seconds: float | None, is_async: bool) -> None:
    def refuse(text: str) -> str:
        raise error

    async def refuse_later(text: str) -> str:
        raise error

    with pytest.raises(failures.CalledTooOften) as raised:
        called(refuse_later if is_async else refuse)
    told = raised.value.retry_after_seconds
    assert told == seconds
    assert isinstance(told, float | None)  # as the limiter counts with


@pytest.mark.parametrize(
    "error", [Answered(status_code=500), Answered(code="429"), ValueError("429"), Answered()]
)
def test_other_exceptions_are_failures(error: Exception) -> None:
    def fail(text: str) -> str:
        raise error

    with pytest.raises(failures.TargetError):
        called(fail)


def test_an_evaluator_is_waited_for_too() -> None:
    def refuse(output: str) -> float:
        raise Answered(status_code=429, headers={"Retry-After": "4"})

    async def main() -> None:
        spec = EvaluatorSpec("python", "good", settings={"function": "f"})
        judge = open_evaluator(spec, Context(functions={"f": refuse}), FunctionProcessPool(1))
        with pytest.raises(failures.CalledTooOften) as raised:
            await judge.score({}, Output({"output": "a"}))
        assert raised.value.retry_after_seconds == 4
        await judge.close()

    asyncio.run(main())


def test_an_output_tells_what_it_used_up() -> None:
    said = called(lambda text: lab.Output(text, tokens=12, cost=0.5))
    assert (said.answer, said.tokens, said.cost) == ("a", 12, 0.5)
    columns = called(lambda text: lab.Output({"output": text, "kind": 1}, tokens=1))
    assert columns.columns == {"output": "a", "kind": 1}
    assert called(lambda text: lab.Output(None)).answer is None


def test_a_failure_that_is_named_is_not_tried_again() -> None:
    def fail(text: str) -> str:
        raise lab.TargetError("never works", retryable=False)

    with pytest.raises(failures.TargetError) as raised:
        called(fail)
    assert not raised.value.retryable
