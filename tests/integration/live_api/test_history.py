"""The last hour over HTTP, after real jobs."""

from __future__ import annotations

from typing import Any

from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.serve.server_process import ServerProcess, eventually

Pair = tuple[str, str]


def hour(caller: Caller, by: str, name: str) -> dict[str, int]:
    """What the last hour has of a pair or a node, summed over its minutes."""
    answer = caller.get("/history", by=by, name=name)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    if not items:
        return {}
    (item,) = items
    assert item["name"] == name
    assert {len(values) for values in item["series"].values()} == {60}
    return {key: sum(item["series"][key]) for key in ("jobs", "failed", "refused")}


def ended(caller: Caller, job_id: str) -> None:
    eventually(lambda: caller.job(job_id)["state"] in ("FINISHED", "RELEASED"), "the job ended")


def test_the_hour_counts_jobs_failures_and_refusals_by_pair_and_by_node(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    name = ":".join(pair)
    assert hour(caller, "pair", name) == {}
    with ManualNode(server, pair) as node:
        first = caller.ask(pair).json()["job_id"]
        node.succeed(node.take(), text_translated="hola")
        ended(caller, first)
        second = caller.ask(pair).json()["job_id"]
        node.fail(node.take(), "MODEL_BROKE", retryable=False)
        ended(caller, second)
        assert hour(caller, "pair", name) == {"jobs": 2, "failed": 1, "refused": 0}
        assert hour(caller, "node", node.node_id) == {"jobs": 2, "failed": 1, "refused": 0}
    unserved = (pair[0], "xx-unserved")
    assert caller.ask(unserved).status_code == 409
    assert hour(caller, "pair", ":".join(unserved)) == {"jobs": 1, "failed": 1, "refused": 1}
    whole = caller.get("/history", limit=1).json()
    assert len(whole["items"]) == 1
    assert sum(whole["total"]["jobs"]) >= 3


def test_a_node_whose_job_another_one_took_over_has_the_failure(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as bad, ManualNode(server, pair) as good:
        job_id = caller.ask(pair, preferred_node_id=bad.node_id).json()["job_id"]
        bad.fail(bad.take(), "OUT_OF_MEMORY")
        good.succeed(good.take(), text_translated="hola")
        ended(caller, job_id)
        assert hour(caller, "node", bad.node_id) == {"jobs": 0, "failed": 1, "refused": 0}
        assert hour(caller, "node", good.node_id) == {"jobs": 1, "failed": 0, "refused": 0}
        assert hour(caller, "pair", ":".join(pair)) == {"jobs": 1, "failed": 0, "refused": 0}
