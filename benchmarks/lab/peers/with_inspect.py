"""The same experiment with Inspect: `python -m benchmarks.lab.peers.with_inspect ITEMS`."""

from __future__ import annotations

import tempfile

import inspect_ai  # type: ignore[import-not-found]
from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
from inspect_ai.model import ModelOutput  # type: ignore[import-not-found]
from inspect_ai.scorer import exact  # type: ignore[import-not-found]
from inspect_ai.solver import Generate, Solver, TaskState, solver  # type: ignore[import-not-found]

from benchmarks.lab.measuring import CONCURRENCY, Stopwatch, items_from_arguments

MODEL = "mockllm/model"
"""Has to be named, and is never called."""


@solver  # type: ignore[untyped-decorator]
def echo() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content(MODEL, state.input_text)
        return state

    return solve


def main() -> None:
    items = items_from_arguments()
    texts = [f"sentence {number}" for number in range(items)]
    dataset = MemoryDataset([Sample(input=text, target=text) for text in texts])
    task = inspect_ai.Task(dataset=dataset, solver=echo(), scorer=exact())
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        (log,) = inspect_ai.eval(
            task, model=MODEL, max_samples=CONCURRENCY, log_dir=folder, display="none"
        )
        measured = watch.measured(items)
    if log.status != "success" or log.results is None or log.results.completed_samples != items:
        raise RuntimeError(f"The evaluation ended as {log.status}.")
    measured.tell()


if __name__ == "__main__":
    main()
