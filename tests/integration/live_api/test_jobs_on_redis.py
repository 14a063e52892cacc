"""The same jobs over the same HTTP, with the ledger on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.live_api.test_jobs import (
    test_a_cancelled_job_keeps_the_attempt_that_it_had,
    test_a_job_is_answered_as_soon_as_it_is_dispatched,
    test_a_job_shows_the_state_of_its_attempt_until_its_end,
    test_a_job_that_failed_at_every_attempt_shows_each_with_its_cause,
    test_a_node_is_told_all_it_needs,
)
from tests.integration.live_api.test_services import (
    test_a_job_reaches_the_version_that_it_names_and_no_other,
    test_a_service_that_no_node_has_is_refused_by_name,
    test_a_session_of_the_sdk_asks_for_services,
)
from tests.integration.serve.server_process import ServerProcess, environment, eventually
from tests.servers import RedisProcess

__all__ = [
    "test_a_cancelled_job_keeps_the_attempt_that_it_had",
    "test_a_job_is_answered_as_soon_as_it_is_dispatched",
    "test_a_job_reaches_the_version_that_it_names_and_no_other",
    "test_a_job_shows_the_state_of_its_attempt_until_its_end",
    "test_a_job_that_failed_at_every_attempt_shows_each_with_its_cause",
    "test_a_node_is_told_all_it_needs",
    "test_a_service_that_no_node_has_is_refused_by_name",
    "test_a_session_of_the_sdk_asks_for_services",
]

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisProcess
) -> Iterator[ServerProcess]:
    env = environment(
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="1",
        DRAGOMAN_CLUSTER__ENABLED="true",
        DRAGOMAN_CLUSTER__REDIS_URL=redis_server.url,
        DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS="500",
        DRAGOMAN_CLUSTER__KEY_PREFIX="jobs-on-redis",
    )
    folder = tmp_path_factory.mktemp("redis") / "data"
    with ServerProcess(folder, "--log-level", "debug", env=env) as server:
        yield server


def test_while_redis_does_not_answer_work_is_refused_and_goes_on_when_it_is_back(
    server: ServerProcess, caller: Caller, pair: Pair, redis_server: RedisProcess
) -> None:
    def readiness() -> int:
        return httpx.get(f"{server.url}/readyz").status_code

    with ManualNode(server, pair) as node:
        redis_server.pause()
        try:
            refused = caller.ask(pair)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "SCHEDULER_DEPENDENCY_DOWN"
            assert readiness() == 503
        finally:
            redis_server.resume()
        eventually(lambda: readiness() == 200, "Redis is back")
        eventually(lambda: caller.ask(pair).status_code == 201, "the fleet serves again")
        node.take()
