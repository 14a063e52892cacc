"""A caller that asks one instance about others is shown what its own key may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.cluster_api.sessions import open_session
from tests.integration.live_api.manual_node import Caller, new_pair, problem
from tests.integration.serve.server_process import environment, eventually, run
from tests.servers import RedisProcess

pytestmark = pytest.mark.redis


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """One database of keys for both instances, which are on one machine."""
    return f"sqlite:///{tmp_path}/keys.db"


@pytest.fixture
def keys(store_url: str) -> dict[str, str]:
    env = environment(DRAGOMAN_STORE__DATABASE_URL=store_url)
    wanted = {
        "operator": ("--role", "operator"),
        "red": ("--role", "client", "--tenant", "red"),
        "blue": ("--role", "client", "--tenant", "blue"),
    }
    made = {}
    for name, options in wanted.items():
        code, output, errors = run("keys", "create", *options, env=env)
        assert code == 0, errors
        made[name] = output.splitlines()[-1]
    return made


@pytest.fixture
def servers(
    own_redis: RedisProcess, tmp_path: Path, store_url: str, keys: dict[str, str]
) -> Iterator[PairOfServers]:
    settings = {"DRAGOMAN_AUTH__MODE": "keys", "DRAGOMAN_STORE__DATABASE_URL": store_url}
    with PairOfServers(own_redis, tmp_path, keys["operator"], **settings) as servers:
        yield servers


def test_a_tenant_sees_its_own_sessions_at_every_instance_and_no_others(
    servers: PairOfServers, keys: dict[str, str]
) -> None:
    callers = {name: Caller(servers.one, key) for name, key in keys.items()}

    def seen_by(name: str) -> set[str]:
        page = callers[name].get("/sessions").json()
        assert page["unreachable"] == []
        return {view["session_id"] for view in page["items"]}

    with (
        open_session(servers.two, new_pair(), keys["red"]) as red,
        open_session(servers.two, new_pair(), keys["blue"]) as blue,
    ):
        eventually(lambda: seen_by("operator") == {red, blue}, "the operator sees both")
        assert (seen_by("red"), seen_by("blue")) == ({red}, {blue})
        assert callers["red"].get(f"/sessions/{red}").json()["instance_id"] == "two"
        assert problem(callers["red"].get(f"/sessions/{blue}")) == (404, "NOT_FOUND")
        # A browser may name its key in the address; other instances are asked with it too.
        shown = servers.one.get(f"/api/v1/sessions?token={keys['red']}").json()
        assert [view["session_id"] for view in shown["items"]] == [red]
    assert problem(callers["red"].get("/cluster")) == (403, "FORBIDDEN")
    code, _, errors = run("cluster", "status", "--url", servers.one.url)
    assert (code, "--token" in errors) == (1, True)
    for server in (servers.one, servers.two):
        assert not any(key in server.log for key in keys.values())
    for caller in callers.values():
        caller.close()
