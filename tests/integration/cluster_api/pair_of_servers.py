"""Two instances of one cluster, and what can be asked of either."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.integration.serve.server_process import ServerProcess, environment, eventually
from tests.servers import RedisCluster, RedisProcess

NAMES = ("one", "two")


class PairOfServers:
    """Instances `one` and `two` over one Redis; the key is an operator's, where it is needed."""

    def __init__(
        self,
        redis: RedisProcess | RedisCluster,
        folder: Path,
        key: str | None = None,
        of_two: Mapping[str, str] | None = None,
        /,
        **settings: str,
    ) -> None:
        """`of_two` are settings that `two` alone has."""
        self._redis = redis
        self._key = key
        self._folder = folder
        self._settings = {"one": settings, "two": {**settings, **(of_two or {})}}
        with ThreadPoolExecutor() as starting:
            self.one, self.two = starting.map(self._start, NAMES)
        eventually(self._are_present, "both instances are present")

    def look(self, server: ServerProcess, path: str) -> Any:
        """What an instance answers."""
        answer = server.get(f"/api/v1{path}", self._key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.one.end()
        self.two.end()

    def _start(self, name: str) -> ServerProcess:
        settings = {
            "DRAGOMAN_CLUSTER__ENABLED": "true",
            "DRAGOMAN_CLUSTER__REDIS_URL": self._redis.url,
            "DRAGOMAN_CLUSTER__INSTANCE_ID": name,
            "DRAGOMAN_CLUSTER__PRESENCE_TTL_SECONDS": "3",
            "DRAGOMAN_CLUSTER__OWNER_TTL_SECONDS": "5",
            "DRAGOMAN_CLUSTER__RECONCILE_SECONDS": "0.5",
            # Other tests keep the machine busy.
            "DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS": "2500",
            "DRAGOMAN_SCHEDULER__STATS__SNAPSHOT_SECONDS": "0.5",
            "DRAGOMAN_LAB__ENABLED": "false",
        }
        env = environment(**{**settings, **self._settings[name]})
        return ServerProcess(self._folder / name, "--log-level", "debug", env=env)

    def _are_present(self) -> bool:
        seen = self.look(self.one, "/cluster")["instances"]
        return [view["instance_id"] for view in seen] == list(NAMES)
