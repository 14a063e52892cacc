"""Requests that are right but for one thing, to a server that has something to lose.

Requests made from a schema are refused at the door: hardly one gets as far as an experiment. These
begin as requests that a server answers well, about a dataset, experiments and jobs that are there,
and one or two of their values are exchanged for odd ones.

``python -m tests.fuzz_nearly_right --cases 20000 --seed 7``
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import httpx
from tests.fuzz_growth import Growth, Held, held_by_family
from tests.fuzz_rest import CALL_SECONDS, RETRIED, BadAnswer, fuzzed_server
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, environment, eventually

PREFIX = "/api/v1"

MOST_GROWTH = Held(memory_bytes=150_000_000, descriptors=30)
"""How much more a server and its lab may hold than after the first tenth: it keeps its newest jobs,
and experiments run; the descriptors are connections to the database."""

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        " ",
        "0",
        "null",
        "x" * 3_000,
        "\x00",
        "\ud7ff\ufffe",
        "ａ",
        "../..",
        "%00",
    ),
    *(0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30, 0.0, -0.5, 1e308, 5e-324),
    *(
        [],
        [[]],
        [None],
        {},
        {"": {}},
        {"kind": None},
        [{"a": [{"a": [{"a": []}]}]}],
        list(range(300)),
    ),
    *("1970-01-01T00:00:00Z", "0000-00-00", "* * * * *", "61 * * * *", "score > 1", "(((", "'"),
    *("en", "es", "EN-us", "exact", "http", "python", "jsonl", "asc", "batch", "i-0"),
)
"""Values that some reader somewhere may take for something else."""


@dataclass(frozen=True)
class Request:
    """A request that a server answers well."""

    method: str
    path: str
    body: Any = None
    query: dict[str, Any] | None = None


class Odd:
    """Changes right requests, as a seed says."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choice(self, requests: list[Request]) -> Request:
        return self._random.choice(requests)

    def changed(self, request: Request) -> Request:
        """The request with one value exchanged, sometimes two, now and then none."""
        for _ in range(self._random.choice((0, 1, 1, 1, 1, 2))):
            request = self._changed_once(request)
        return request

    def _changed_once(self, request: Request) -> Request:
        where = self._random.random()
        if where < 0.1:
            parts = request.path.split("/")
            parts[self._random.randrange(len(parts))] = str(self._value()).replace("/", "")
            return Request(request.method, "/".join(parts), request.body, request.query)
        if where < 0.3 or request.body is None:
            query = {**(request.query or {})}
            known = [*query, "limit", "cursor", "name", "format", "by", "repetition"]
            query[self._random.choice(known)] = self._value()
            return Request(request.method, request.path, request.body, query)
        body = copy.deepcopy(request.body)
        return Request(request.method, request.path, self._exchanged(body), request.query)

    def _exchanged(self, body: Any) -> Any:
        """The body with the value at one of its places exchanged, left out, or doubled."""
        places = list(_places(body))
        if not places or self._random.random() < 0.03:
            return self._value()
        holder, key = self._random.choice(places)
        how = self._random.random()
        if how < 0.1:
            del holder[key]
        elif how < 0.2 and isinstance(holder, dict):
            holder[f"{key}_"] = holder[key]
        elif how < 0.3 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[key] = self._value()
        return body

    def _value(self) -> Any:
        return copy.deepcopy(self._random.choice(ODD))


def _places(body: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value that holds another: the holder, and the key or number there."""
    if not isinstance(body, dict | list):
        return
    for key, value in list(body.items() if isinstance(body, dict) else enumerate(body)):
        yield body, key
        yield from _places(value)


@contextmanager
def busy_server(folder: Path) -> Iterator[tuple[ServerProcess, list[Request]]]:
    """A server with a node, a dataset and experiments, and the requests that it answers well."""
    with fuzzed_server(folder) as server, httpx.Client(base_url=server.url) as client:
        node = subprocess.Popen(
            [DRAGOMAN, "node", "--url", server.url, "--node-id", "n-1", "--profile", "instant"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            eventually(lambda: _is_ready(client), "the node is ready")
            yield server, _right_requests(client)
        finally:
            node.terminate()
            node.wait(timeout=CALL_SECONDS)


def _is_ready(client: httpx.Client) -> bool:
    return bool(client.get(f"{PREFIX}/nodes/n-1").json().get("status") == "ready")


def _made(client: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    answer = client.post(PREFIX + path, json=body, timeout=CALL_SECONDS)
    assert answer.status_code in (200, 201, 202), answer.text
    made: dict[str, Any] = answer.json()
    return made


def _right_requests(client: httpx.Client) -> list[Request]:
    rows = "".join(f'{{"text": "row {n}", "expected": "row {n}", "n": {n}}}\n' for n in range(5))
    upload = client.post(
        f"{PREFIX}/datasets",
        files={"file": ("rows.jsonl", rows)},
        data={"name": "rows"},
        timeout=CALL_SECONDS,
    )
    assert upload.status_code == 201, upload.text
    dataset_id, version_id = upload.json()["dataset_id"], upload.json()["version_id"]
    spec = {
        "name": "odd",
        "dataset_version_id": version_id,
        "target": {"kind": "recorded", "output": "text"},
        "evaluators": [{"kind": "exact", "name": "same", "reference": "expected"}],
        "concurrency": 2,
        "budget": {"tokens": 1_000_000},
        "description": "of a fuzzer",
    }
    job = {"src_lang": "en", "tgt_lang": "es", "text": "hello", "request_id": "r", "wait_ms": 100}
    first = _made(client, "/experiments", spec)["experiment_id"]
    second = _made(client, "/experiments", {**spec, "name": "odd too"})["experiment_id"]
    for one in (first, second):
        _made(client, f"/experiments/{one}/runs", {"mode": "submit"})
        eventually(lambda: _has_ended(client, one), "the experiment ends")  # noqa: B023
    job_id = _made(client, "/jobs", job)["job_id"]
    here = f"{PREFIX}/experiments/{first}"
    found = client.post(f"{here}/results", json={}, timeout=CALL_SECONDS).json()["items"]
    item_id = found[0]["item_id"]
    rows_filter = {"field": "n", "op": ">", "value": 1}
    compared = {"baseline": first, "others": [second], "sort_by": "same", "limit": 5}
    term = {"src_lang": "en", "term": "row", "tgt_lang": "es", "translation": "fila"}
    return [
        Request("POST", f"{PREFIX}/jobs", job),
        Request("POST", f"{PREFIX}/jobs/check", job),
        Request("POST", f"{PREFIX}/jobs", {**job, "class": "batch", "pipeline": {"use_tts": True}}),
        Request("GET", f"{PREFIX}/jobs/{job_id}"),
        Request("GET", f"{PREFIX}/jobs/{job_id}/explain"),
        Request("GET", f"{PREFIX}/jobs", query={"limit": 3}),
        Request("GET", f"{PREFIX}/nodes/n-1"),
        Request("POST", f"{PREFIX}/nodes/n-1/resume"),
        Request("GET", f"{PREFIX}/pools/en:es"),
        Request("GET", f"{PREFIX}/history", query={"by": "node", "name": "n-1", "limit": 3}),
        Request("GET", f"{PREFIX}/audit", query={"actor": "x", "limit": 3}),
        Request("GET", f"{PREFIX}/usage", query={"from": "2026-01-01", "format": "csv"}),
        Request("GET", f"{PREFIX}/sessions", query={"limit": 3}),
        Request("PUT", f"{PREFIX}/glossary", {"items": [term]}),
        Request("GET", f"{PREFIX}/glossary", query={"src_lang": "en", "limit": 3}),
        Request("DELETE", f"{PREFIX}/glossary", query={"src_lang": "en", "term": "row"}),
        Request("GET", f"{PREFIX}/datasets/{dataset_id}/items", query={"limit": 2}),
        Request("GET", f"{PREFIX}/datasets/{dataset_id}/export", query={"format": "csv"}),
        Request("GET", f"{PREFIX}/datasets/{dataset_id}/diff", query={"from": 1, "to": 1}),
        Request("POST", f"{PREFIX}/experiments", spec),
        Request("POST", f"{PREFIX}/experiments/submit", {**spec, "repetitions": 2}),
        Request("POST", f"{PREFIX}/experiments/estimate", spec),
        Request("POST", f"{PREFIX}/experiments", {**spec, "cron": "0 3 * * *"}),
        Request("GET", here),
        Request("PATCH", here, {"description": "changed", "concurrency": 3, "retries": 1}),
        Request("GET", f"{here}/runs", query={"limit": 2}),
        Request("POST", f"{here}/runs", {"mode": "fail_retry"}),
        Request("POST", f"{here}/score", {"evaluators": spec["evaluators"]}),
        Request("POST", f"{here}/clone", {"name": "odd again"}),
        Request("POST", f"{here}/results", {"filter": rows_filter, "limit": 2, "columns": ["n"]}),
        Request("POST", f"{here}/results", {"sort": [{"field": "n", "order": "desc"}]}),
        Request("GET", f"{here}/items/{item_id}/tries", query={"repetition": 1}),
        Request("GET", f"{here}/aggregates", query={"group_by": "n", "filter": "n > 1"}),
        Request("GET", f"{here}/export", query={"format": "jsonl", "filter": "n > 1"}),
        Request("GET", f"{here}/annotations", query={"limit": 2}),
        Request(
            "POST",
            f"{here}/annotations",
            {"item_id": item_id, "name": "same", "score": 1.0, "label": "good"},
        ),
        Request("POST", f"{PREFIX}/experiments/compare", compared),
        Request("POST", f"{PREFIX}/experiments/compare/report", compared),
        Request(
            "POST",
            f"{PREFIX}/evaluators/try",
            {"evaluator": spec["evaluators"][0], "turn": {"expected": "a"}, "output": "a"},
        ),
        Request("PUT", f"{here}/pace", {"most": 2}),
        Request("GET", f"{here}/pace"),
    ]


def _has_ended(client: httpx.Client, experiment_id: str) -> bool:
    found = client.get(f"{PREFIX}/experiments/{experiment_id}", timeout=CALL_SECONDS).json()
    return found["status"] in ("success", "failed", "terminated")


def send(server: ServerProcess, right: list[Request], cases: int, seed: int) -> Counter[int]:
    """Send so many; raises BadAnswer for what must not be. How often each status came."""
    odd = Odd(seed)
    statuses: Counter[int] = Counter()
    growth = Growth(lambda: held_by_family(server.process.pid), cases, MOST_GROWTH)
    with httpx.Client(base_url=server.url, timeout=CALL_SECONDS) as client:
        for number in range(cases):
            growth.done(number)
            request = odd.changed(odd.choice(right))
            query = {name: str(value) for name, value in (request.query or {}).items()}
            try:
                answer = client.request(
                    request.method, request.path, json=request.body, params=query
                )
            except (UnicodeEncodeError, ValueError, httpx.InvalidURL):
                continue  # it cannot be sent
            statuses[answer.status_code] += 1
            if answer.status_code >= 500 and not _is_expected(answer):
                raise BadAnswer(f"{answer.status_code}: {answer.text[:500]}\n{request}")
        sys.stdout.write(f"{growth.check()}\n")
    return statuses


def _is_expected(answer: httpx.Response) -> bool:
    """Whether the server may answer so: it is busy, or an evaluator says what it cannot score."""
    if answer.status_code == RETRIED:
        return True
    return answer.status_code == 502 and answer.json()["error"]["code"] == "EVALUATOR_ERROR"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    chosen = Random().getrandbits(32) if arguments.seed is None else arguments.seed
    sys.stdout.write(f"The seed is {chosen}.\n")
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder, busy_server(Path(folder)) as (server, right):
        statuses = send(server, right, arguments.cases, chosen)
    sys.stdout.write(
        f"{statuses.total()} requests that were nearly right, no 500, in"
        f" {perf_counter() - began:.0f} s; answers: {dict(sorted(statuses.items()))}\n"
    )


if __name__ == "__main__":
    main()
