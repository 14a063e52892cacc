"""One output, judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.lab.evaluators import FunctionProcessPool, Score, open_evaluator
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output

HERE = "tests.unit.lab.evaluators.functions"


def judge(
    kind: str,
    turn: Mapping[str, Any],
    given: Any,
    /,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    **settings: Any,
) -> Score:
    """What an evaluator says of an output; one that is no object is the main column."""
    columns = given if isinstance(given, dict) else {"output": given}

    async def main() -> Score:
        processes = FunctionProcessPool(1)
        evaluator = open_evaluator(
            EvaluatorSpec(kind, "name", settings=settings),
            Context(functions=functions or {}),
            processes,
        )
        try:
            return await evaluator.score(turn, Output(columns, next(iter(columns))))
        finally:
            await evaluator.close()
            await processes.close()

    return asyncio.run(main())
