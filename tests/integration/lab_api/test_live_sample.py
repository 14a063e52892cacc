"""A sample of live traffic is scored by the lab of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)

EVALUATORS = [
    {"kind": "regex", "name": "not_empty", "pattern": r"\S"},
    {"kind": "length_ratio", "reference": "source"},
]
PAIR = ("en", "es")


def sampling(**settings: Any) -> dict[str, str]:
    sample = {"tenants": ["default"], "share": 1.0, "evaluators": EVALUATORS, **settings}
    return environment(
        **{
            f"DRAGOMAN_LAB__LIVE_SAMPLE__{key.upper()}": _text(value)
            for key, value in sample.items()
        }
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    env = sampling(pairs=["en:es"])
    with ServerProcess(tmp_path / "data", env=env, lab=True) as started:
        yield started


def translated(caller: Caller, node: ManualNode, said: str, became: str, **fields: Any) -> str:
    """A job that the node does; its id."""
    asked = caller.begin_to_ask(fields.pop("pair", PAIR), text=said, wait_ms=10_000, **fields)
    job = node.take()
    node.accept(job)
    node.succeed(job, text_translated=became)
    answer = asked.result()
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def scored(caller: Caller, job_id: str) -> dict[str, Any]:
    """What is said of a job once it is scored."""
    found: dict[str, Any] = {}

    def reached() -> bool:
        nonlocal found
        found = caller.get(f"/jobs/{job_id}").json()["live_sample"]
        return bool(found["scored"])

    eventually(reached, "the job is scored")
    return found


def test_ended_live_jobs_become_items_and_say_how_they_were_scored(server: ServerProcess) -> None:
    caller = Caller(server)
    with ManualNode(server, ("en", "es", "de")) as node:
        good = translated(caller, node, "good morning", "buenos días")
        empty = translated(caller, node, "good evening", "")
        elsewhere = translated(caller, node, "good night", "gute Nacht", pair=("en", "de"))
        assert scored(caller, good)["scores"]["not_empty"] == 1.0
        found = scored(caller, empty)
        assert found["scores"] == {"not_empty": 0.0, "length_ratio": 0.0}
        left_out = caller.get(f"/jobs/{elsewhere}").json()["live_sample"]
        assert (left_out["scored"], left_out["reason"]) == (
            False,
            "lab.live_sample.pairs does not list its pair.",
        )
        refused = caller.ask(("xx", "yy"))
        assert refused.status_code >= 400

        [experiment] = caller.get("/experiments").json()["items"]
        assert (experiment["name"], experiment["status"]) == ("live sample", "processing")
        path = f"/experiments/{experiment['experiment_id']}"
        rows = caller.post(f"{path}/results", {}).json()["items"]
        assert {row["input"]["job_id"] for row in rows} == {good, empty}
        assert {row["input"]["source"] for row in rows} == {"good morning", "good evening"}

        def counted() -> bool:
            told = httpx.get(f"{server.url}/metrics", timeout=PATIENCE_SECONDS).text
            return (
                'lab_live_sample_score_count{evaluator="not_empty"} 2.0' in told
                and 'scheduler_live_samples_total{result="taken"} 2.0' in told
            )

        eventually(counted, "the scores are counted")

        # A user who stops it is obeyed, and told of.
        assert caller.post(f"{path}/kill").status_code == 202
        eventually(
            lambda: caller.get(path).json()["status"] == "terminated", "the experiment has ended"
        )
        late = translated(caller, node, "good bye", "adiós")

        def explained() -> bool:
            said = caller.get(f"/jobs/{late}").json()["live_sample"]
            return "is terminated, so it takes no more jobs" in said["reason"]

        eventually(explained, "the job says why it has no score")
    caller.close()


def test_a_job_without_a_translation_says_that_there_is_nothing_to_score(
    server: ServerProcess,
) -> None:
    caller = Caller(server)
    with ManualNode(server, PAIR) as node:
        pipeline = {"use_nmt": False, "use_tts": True}
        asked = caller.begin_to_ask(PAIR, text="hello", wait_ms=10_000, pipeline=pipeline)
        job = node.take()
        node.accept(job)
        node.succeed(job)
        job_id = asked.result().json()["job_id"]
        said = caller.get(f"/jobs/{job_id}").json()["live_sample"]
        assert not said["scored"]
        assert said["reason"] == "Its result has no translation, so there is nothing to score."
    caller.close()


def test_no_live_job_is_scored_unless_its_tenant_is_listed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", env=environment(), lab=True) as server:
        caller = Caller(server)
        with ManualNode(server, PAIR) as node:
            job_id = translated(caller, node, "good morning", "buenos días")
        said = caller.get(f"/jobs/{job_id}").json()["live_sample"]
        assert (said["scored"], said["reason"]) == (
            False,
            "lab.live_sample.tenants does not list its tenant.",
        )
        assert caller.get("/experiments").json()["items"] == []
        caller.close()


def test_a_server_does_not_start_with_evaluators_that_need_a_reference(tmp_path: Path) -> None:
    env = sampling(evaluators=[{"kind": "chrf", "reference": "reference"}])
    code, _, errors = run("serve", "--port", "0", "--data-dir", tmp_path / "data", env=env)
    assert code == 2, errors
    assert "compares the output with a reference, which live traffic does not have" in errors
