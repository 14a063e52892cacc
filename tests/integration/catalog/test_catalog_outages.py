"""A real server whose catalog server is down, hangs or talks nonsense, and comes back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from tests.integration.catalog.catalog_server import SERVICES, CatalogServer, catalog
from tests.integration.live_api.manual_node import Body, Caller, ManualNode, new_pair, problem
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run

JOBS = 10
REFRESH_SECONDS = 0.1
LONGEST_SECONDS = 0.8
_CATALOG = "DRAGOMAN_SCHEDULER__SERVICE_CATALOG__"


def settings(url: str, **more: str) -> dict[str, str]:
    """A catalog that is fetched often enough to fail often."""
    values = {
        "url": url,
        "refresh_seconds": str(REFRESH_SECONDS),
        "timeout_seconds": "1",
        "max_refresh_seconds": str(LONGEST_SECONDS),
    } | more
    return environment(**{_CATALOG + name.upper(): value for name, value in values.items()})


@pytest.fixture(scope="module")
def catalog_server() -> Iterator[CatalogServer]:
    with CatalogServer() as server:
        yield server


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, catalog_server: CatalogServer
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("catalog") / "data"
    with ServerProcess(folder, env=settings(catalog_server.url)) as server:
        yield server


@pytest.fixture
def caller(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.close()


def known(caller: Caller) -> Body:
    answer = caller.get("/catalog")
    assert answer.status_code == 200, answer.text
    found: Body = answer.json()
    return found


def metric(server: ServerProcess, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def works_well(caller: Caller) -> bool:
    view = known(caller)
    return (view["fail_count"], view["services"]) == (0, SERVICES)


def failed(view: Body, said: str) -> bool:
    """On a busy machine, an answer of any kind may also come too late for once."""
    return int(view["fail_count"]) >= 3 and said in view["last_error"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("down", "could not be fetched"),
        ("hanging", "no whole answer within 1 s"),
        ("garbage", "not a catalog"),
        ("redirecting", "redirect (302)"),
        ("10 MB", "larger than 8 MB"),
    ],
)
def test_jobs_go_on_and_the_old_catalog_is_served_until_the_server_is_back(
    server: ServerProcess, caller: Caller, catalog_server: CatalogServer, mode: str, said: str
) -> None:
    catalog_server.become("well")
    eventually(lambda: works_well(caller), "the catalog was fetched")
    pair = new_pair()
    with ManualNode(server, pair) as node:
        catalog_server.become(mode)
        eventually(lambda: failed(known(caller), said), "the catalog failed three times")
        counted = 'scheduler_jobs_catalog_down_total{outcome="success"}'
        before = metric(server, counted)
        for _ in range(JOBS):
            asking = caller.begin_to_ask(pair, wait_ms=60_000)
            node.succeed(node.take(), text_translated="hola")
            assert asking.result().json()["outcome"] == "success"
        view = known(caller)

    assert view["services"] == SERVICES
    assert view["last_success_at"] == view["fetched_at"] < view["next_refresh_at"]
    assert metric(server, counted) - before == JOBS
    assert metric(server, "scheduler_service_catalog_fail_count") >= 3
    assert metric(server, "scheduler_service_catalog_last_success_age_seconds") > 0

    catalog_server.become("well")
    eventually(lambda: works_well(caller), "the catalog is back")
    assert known(caller)["last_error"] is None


def test_a_catalog_that_fails_is_asked_for_less_and_less_often(
    caller: Caller, catalog_server: CatalogServer
) -> None:
    catalog_server.become("well")
    eventually(lambda: works_well(caller), "the catalog was fetched")
    catalog_server.become("failing")
    eventually(lambda: known(caller)["fail_count"] >= 6, "the catalog failed six times")
    gaps = [later - sooner for sooner, later in pairwise(catalog_server.asked_at)]
    assert gaps[-1] >= LONGEST_SECONDS * 0.99, "eight times as long as at first"
    view = known(caller)
    since = datetime.fromisoformat(view["last_success_at"])
    next_refresh = datetime.fromisoformat(view["next_refresh_at"])
    assert (next_refresh - since).total_seconds() > 2 * LONGEST_SECONDS


def test_until_the_first_success_the_local_index_is_served(tmp_path: Path) -> None:
    index = tmp_path / "services.json"
    index.write_bytes(catalog(SERVICES[:1]))
    with CatalogServer() as later:
        later.down()
        env = settings(later.url, local_index=str(index))
        with ServerProcess(tmp_path / "data", env=env) as server:
            caller = Caller(server)
            view = known(caller)
            assert view["services"] == SERVICES[:1]
            assert view["last_success_at"] is None
            assert view["fetched_at"].endswith("Z")
            later.become("well")
            eventually(lambda: works_well(caller), "the catalog server was found")
            caller.close()


def test_the_catalog_is_for_operators(tmp_path: Path) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path / "data", env=env) as server:
        made = run("keys", "create", "--role", "client", "--data-dir", server.data_dir)
        client_key = made[1].splitlines()[-1]
        assert server.get("/api/v1/catalog", client_key).status_code == 403
        assert server.get("/api/v1/catalog").status_code == 401


def test_a_node_without_its_model_is_refused_with_that_reason(
    server: ServerProcess, caller: Caller
) -> None:
    pair = new_pair()
    with ManualNode(server, pair) as node:
        node.say(type="model_not_available", service_id="nmt", reason=" Not Loaded ", version="1")

        def marks() -> list[Body]:
            found: list[Body] = caller.get(f"/nodes/{node.node_id}").json()["marks"]
            return found

        eventually(lambda: bool(marks()), "the service is marked")
        (mark,) = marks()
        assert (mark["service_id"], mark["reason"]) == ("nmt", "not loaded")
        assert mark["expires_at"].endswith("Z")

        answer = caller.ask(pair)
        assert problem(answer) == (503, "MODEL_NOT_AVAILABLE")
        assert int(answer.headers["Retry-After"]) >= 1
        details = answer.json()["error"]["details"]
        assert details["reasons"]["model_unavailable"] == 1
        explained = caller.get(f"/jobs/{details['job_id']}/explain").json()
        reasons = explained["attempts"][0]["reasons"]
        assert reasons["model_unavailable"]["nodes"] == [node.node_id]
        assert metric(server, "scheduler_model_na_received_total") == 1
        assert metric(server, 'scheduler_model_na_by_reason_total{reason="not loaded"}') == 1
