"""Phoenix's store: a row is a span with its texts and two annotations, behind its own server.

Run by the Python of Phoenix's own environment: ``with_phoenix.py FOLDER ROWS``. It starts a server
on the loopback, and prints, as JSON, the seconds of logging all rows, and of the best of three of
each question. The questions are those of its own pages, asked as these ask them (GraphQL).
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

PAGE = 100
BATCH = 500
SEED = 20_261_115
START_SECONDS = 600
INSERT_SECONDS = 600
PROJECT = "rows"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)

_COUNT = "query($id: ID!) { node(id: $id) { ... on Project { recordCount } } }"
_PAGE = """query($id: ID!, $first: Int!) { node(id: $id) { ... on Project {
    spans(first: $first, filterCondition: "annotations['chrf'].score < 30",
          sort: {col: latencyMs, dir: desc}) {
        edges { node { spanId latencyMs input { value } output { value }
                       spanAnnotations { name score } } } } } } }"""
_AGGREGATES = """query($id: ID!) { node(id: $id) { ... on Project { recordCount
    p50: latencyMsQuantile(probability: 0.5) p90: latencyMsQuantile(probability: 0.9)
    p95: latencyMsQuantile(probability: 0.95) p99: latencyMsQuantile(probability: 0.99)
    chrf: spanAnnotationSummary(annotationName: "chrf") { count meanScore }
    exact: spanAnnotationSummary(annotationName: "exact") { count meanScore } } } }"""


class Server:
    """A server of Phoenix with an empty store."""

    def __init__(self, folder: str) -> None:
        self._url = f"http://127.0.0.1:{(port := _free_port())}"
        settings = {
            "PHOENIX_WORKING_DIR": folder,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(_free_port()),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "phoenix.server.main", "serve"],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def until_ready(self) -> None:
        self.until(lambda: self._answers("/healthz"), START_SECONDS)

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit("Phoenix's server did not get there")
            time.sleep(0.05)

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def ask(self, query: str, **variables: Any) -> Any:
        found = self.post("/graphql", {"query": query, "variables": variables})
        if found.get("errors"):
            raise SystemExit(f"Phoenix refuses: {found['errors'][0]['message']}")
        return found["data"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self._url + path, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


def main() -> None:
    folder, rows = sys.argv[1], int(sys.argv[2])
    server = Server(folder)
    try:
        server.until_ready()
        print(json.dumps(_measured(server, rows)))
    finally:
        server.stop()


def _measured(server: Server, rows: int) -> list[float]:
    chance = random.Random(SEED)
    project = server.post("/v1/projects", {"name": PROJECT})["data"]["id"]
    started = time.perf_counter()
    for first in range(0, rows, BATCH):
        spans = [_span(number, chance) for number in range(first, min(rows, first + BATCH))]
        server.post(f"/v1/projects/{PROJECT}/spans", {"data": spans})
    # Spans are stored after they are accepted, and annotations refer to them.
    server.until(
        lambda: server.ask(_COUNT, id=project)["node"]["recordCount"] == rows, INSERT_SECONDS
    )
    for first in range(0, rows, BATCH):
        numbers = range(first, min(rows, first + BATCH))
        said = [one for number in numbers for one in _annotations(number, chance)]
        server.post("/v1/span_annotations?sync=true", {"data": said})
    logged = time.perf_counter() - started

    def page() -> None:
        found = server.ask(_PAGE, id=project, first=PAGE)["node"]["spans"]["edges"]
        if not 0 < len(found) <= PAGE:
            raise SystemExit(f"Phoenix's page has {len(found)} rows")

    def aggregates() -> None:
        found = server.ask(_AGGREGATES, id=project)["node"]
        if found["chrf"]["count"] != rows:
            raise SystemExit(f"Phoenix has {found['chrf']['count']} scores")

    return [logged, _best(page), _best(aggregates)]


def _span(number: int, chance: random.Random) -> dict[str, Any]:
    begin = FIRST + timedelta(seconds=number)
    end = begin + timedelta(milliseconds=chance.random() * 2000)
    return {
        "name": "row",
        "context": {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"},
        "span_kind": "LLM",
        "start_time": begin.isoformat(),
        "end_time": end.isoformat(),
        "status_code": "OK",
        "attributes": {"input.value": f"{number:032x}" * 12, "output.value": f"{number:032x}" * 12},
    }


def _annotations(number: int, chance: random.Random) -> list[dict[str, Any]]:
    scores = {"chrf": chance.random() * 100, "exact": float(chance.random() < 0.7)}
    return [
        {
            "span_id": f"{number + 1:016x}",
            "name": name,
            "annotator_kind": "CODE",
            "result": {"score": score},
        }
        for name, score in scores.items()
    ]


def _best(ask: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
