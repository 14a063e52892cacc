"""Keys mode: who may do what, and what exists for whom."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, Socket, problem, registration
from tests.integration.serve.server_process import ServerProcess, environment, run
from websockets.exceptions import ConnectionClosed

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("keys") / "data", env=env) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    """A key for each role, two for clients of two tenants."""
    wanted = {
        "node": ("--role", "node"),
        "operator": ("--role", "operator"),
        "red": ("--role", "client", "--tenant", "red"),
        "blue": ("--role", "client", "--tenant", "blue"),
    }
    made = {}
    for name, options in wanted.items():
        code, output, errors = run("keys", "create", *options, "--data-dir", server.data_dir)
        assert code == 0, errors
        made[name] = output.splitlines()[-1]
    return made


@pytest.fixture
def callers(server: ServerProcess, keys: dict[str, str]) -> Iterator[dict[str, Caller]]:
    made = {name: Caller(server, key) for name, key in keys.items()}
    yield made
    for caller in made.values():
        caller.close()


def test_another_tenants_job_does_not_exist(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller], pair: Pair
) -> None:
    red, blue, operator = callers["red"], callers["blue"], callers["operator"]
    with ManualNode(server, pair, key=keys["node"]):
        job_id = red.ask(pair, request_id="mine").json()["job_id"]

    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/explain"):
        assert red.get(path).status_code == 200
        assert operator.get(path).status_code == 200
        assert problem(blue.get(path)) == (404, "NOT_FOUND")
    assert problem(blue.delete(f"/jobs/{job_id}")) == (404, "NOT_FOUND")
    assert [job["job_id"] for job in red.get("/jobs").json()["items"]] == [job_id]
    assert blue.get("/jobs").json()["items"] == []
    assert operator.get("/jobs", tenant_id="red").json()["items"] != []
    assert red.delete(f"/jobs/{job_id}").json()["outcome"] == "cancelled"


def test_a_key_works_for_its_own_tenant_only(callers: dict[str, Caller], pair: Pair) -> None:
    assert problem(callers["red"].ask(pair, tenant_id="blue")) == (403, "FORBIDDEN")
    assert problem(callers["red"].get("/jobs", tenant_id="blue")) == (403, "FORBIDDEN")


def test_the_same_request_id_of_two_tenants_is_two_jobs(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller], pair: Pair
) -> None:
    with ManualNode(server, pair, slots=2, key=keys["node"]):
        answers = [callers[name].ask(pair, request_id="shared") for name in ("red", "blue")]

    assert [answer.status_code for answer in answers] == [201, 201]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/nodes"),
        ("get", "/nodes/n"),
        ("post", "/nodes/n/drain"),
        ("post", "/nodes/n/resume"),
        ("get", "/pools"),
    ],
)
def test_the_fleet_is_the_operators(
    server: ServerProcess, callers: dict[str, Caller], method: str, path: str
) -> None:
    nobody = Caller(server)
    try:
        assert problem(getattr(callers["red"], method)(path)) == (403, "FORBIDDEN")
        assert problem(getattr(callers["node"], method)(path)) == (403, "FORBIDDEN")
        assert problem(getattr(nobody, method)(path)) == (401, "UNAUTHORIZED")
    finally:
        nobody.close()


def test_jobs_are_not_for_nodes(callers: dict[str, Caller], pair: Pair) -> None:
    assert problem(callers["node"].ask(pair)) == (403, "FORBIDDEN")
    assert problem(callers["node"].get("/jobs")) == (403, "FORBIDDEN")


@pytest.mark.parametrize(("name", "code"), [("red", 4403), (None, 4401)])
def test_a_socket_without_a_nodes_key_is_closed(
    server: ServerProcess, keys: dict[str, str], name: str | None, code: int
) -> None:
    with (
        Socket(server, keys[name] if name else None) as stranger,
        pytest.raises(ConnectionClosed) as closed,
    ):
        stranger.hear()

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code


def test_a_nodes_name_belongs_to_the_key_that_first_used_it(
    server: ServerProcess, keys: dict[str, str], pair: Pair
) -> None:
    with (
        ManualNode(server, pair, key=keys["node"]) as node,
        Socket(server, keys["operator"]) as thief,
    ):
        thief.say(**registration(node.node_id, pair))

        assert thief.hear()["code"] == "NODE_ID_CONFLICT"
