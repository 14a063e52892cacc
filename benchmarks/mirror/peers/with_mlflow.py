"""MLflow's SQL store: a row is a run with two metrics and a text, logged in one call.

Run by the Python of MLflow's own environment: ``with_mlflow.py FOLDER ROWS``. It prints, as JSON,
the seconds of logging all rows, and of the best of three of each question.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from statistics import fmean, pstdev
from typing import Any

PAGE = 100
SEED = 20_261_115


def main() -> None:
    folder, rows = sys.argv[1], int(sys.argv[2])
    # Imported here: only MLflow's own environment has it.
    import mlflow  # type: ignore[import-not-found]
    from mlflow.entities import Metric, Param  # type: ignore[import-not-found]

    client: Any = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.create_experiment("rows")
    chance = random.Random(SEED)
    started = time.perf_counter()
    for number in range(rows):
        run = client.create_run(experiment).info.run_id
        values = {"chrf": chance.random() * 100, "latency_ms": chance.random() * 2000}
        metrics = [Metric(name, value, 0, 0) for name, value in values.items()]
        texts = [Param("source", f"{number:032x}" * 12), Param("answer", f"{number:032x}" * 12)]
        client.log_batch(run, metrics, texts)
    logged = time.perf_counter() - started

    def page() -> object:
        return client.search_runs(
            [experiment],
            "metrics.chrf < 30",
            order_by=["metrics.latency_ms DESC"],
            max_results=PAGE,
        )

    def aggregates() -> object:
        """Its store has none: every run is read, and added up here."""
        found: list[float] = []
        token = None
        while True:
            runs = client.search_runs([experiment], max_results=1_000, page_token=token)
            found += [run.data.metrics["chrf"] for run in runs]
            token = runs.token
            if not token:
                ordered = sorted(found)
                return fmean(found), pstdev(found), ordered[len(ordered) // 2]

    print(json.dumps([logged, _best(page), _best(aggregates)]))


def _best(ask: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - started)
    return min(taken)


if __name__ == "__main__":
    main()
