"""What the server says of its jobs, held against what the nodes wrote down."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tests.integration.live_api.manual_node import Body, Caller
from tests.integration.node_faults.node_process import Fleet
from tests.integration.serve.server_process import ServerProcess


def counted(server: ServerProcess, metric: str, label: str = "") -> float:
    """One of the server's metrics, summed over all labels or those that contain `label`."""
    lines = server.get("/metrics").text.splitlines()
    found = [line for line in lines if re.match(rf"{metric}[ {{]", line) and label in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


class EndCount:
    """Counts the ends that the server has given to jobs since it was made; a refusal is one."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._before = self._now()

    def _now(self) -> float:
        return counted(self._server, "scheduler_jobs_total")

    @property
    def ends(self) -> float:
        return self._now() - self._before


def check_ends(fleet: Fleet, ends: EndCount, told: Sequence[Body], refused: int = 0) -> None:
    """Each job ended once, as its caller was told, and its nodes did what its record says."""
    assert ends.ends == len(told) + refused
    records = [as_recorded(fleet.caller, job) for job in told]
    given = {(a["node_id"], a["attempt_id"]) for job in records for a in job["attempts"]}
    taken = Counter((node.node_id, found) for node in fleet.recorded for found in node.accepted)
    assert set(taken) <= given, "a node worked for no job"
    assert set(taken.values()) <= {1}, "an attempt was worked on twice"
    for job in records:
        if job["outcome"] == "success":
            check_success(fleet, job)


def as_recorded(caller: Caller, told: Body) -> Body:
    """The job's record, which says what the caller was told when it ended."""
    record = caller.job(told["job_id"])
    ending = ("outcome", "error", "result")
    assert [record[name] for name in ending] == [told[name] for name in ending]
    return record


def check_success(fleet: Fleet, job: Body) -> None:
    """One attempt of the job went well, its last, and the result is that attempt's."""
    *earlier, last = job["attempts"]
    assert last["outcome"] == "success"
    assert all(attempt["outcome"] != "success" for attempt in earlier)
    assert job["result"]["text_translated"] == f"{last['node_id']} {last['attempt_id']}"
    assert any(last["attempt_id"] in node.done for node in fleet.recorded)


def nodes_of(job: Body) -> list[str]:
    """The nodes that the job was given to, in order."""
    return [attempt["node_id"] for attempt in job["attempts"]]


def codes_of(job: Body) -> list[str | None]:
    """How each attempt failed; None for one that did not."""
    errors = [attempt["error"] for attempt in job["attempts"]]
    return [error["code"] if error else None for error in errors]
