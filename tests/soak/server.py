"""The server under soak, with everything it keeps for a time kept for a short time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import RedisProcess

RETENTION_SECONDS = 8
"""How long jobs, bindings and offline nodes are kept. At rest, all of them are gone."""
RESUME_GRACE_SECONDS = 5
EXPLANATIONS = 200
RUN_SECONDS = 3.0
ACK_SECONDS = 2.0

SETTINGS = f"""
[log]
format = "json"
[scheduler]
job_retention_seconds = {RETENTION_SECONDS}
explain_max = {EXPLANATIONS}
[scheduler.task_binding]
lease_seconds = {RETENTION_SECONDS}
reserved_ttl_seconds = 20
[scheduler.web_task_segmentation]
pause_ms = 400
max_duration_ms = 1500
max_bytes = 30000
# A busy machine delays the client, too; what is missing for this long was never sent.
hangover_auto_ms = 2000
hangover_manual_ms = 2000
[scheduler.delivery]
gap_grace_ms = 3000
resume_grace_seconds = {RESUME_GRACE_SECONDS}
# Full within minutes, so that nothing of it grows later.
timeline_max = 200
[scheduler.session]
heartbeat_interval_seconds = 3
heartbeat_timeout_seconds = 20
[scheduler.job_timeout]
pending_seconds = 8
ack_seconds = {ACK_SECONDS}
run_seconds = {RUN_SECONDS}
total_seconds = 20
cancel_grace_seconds = 1
[scheduler.node_health]
heartbeat_interval_seconds = 2
heartbeat_timeout_seconds = 15
reconnect_grace_seconds = 1
forget_offline_seconds = {RETENTION_SECONDS}
# On a busy machine heartbeats are late, and the soak is not about that.
window = 500
window_failures = 500
consecutive_failures = 100000
[scheduler.model_not_available]
unavailable_ttl_seconds = 2
"""
_ON_REDIS = """
[cluster]
enabled = true
redis_url = "{url}"
# Slow is not down.
redis_timeout_ms = 5000
"""


class Backend(NamedTuple):
    """A server with the Redis that it keeps its ledger in, if any."""

    server: ServerProcess
    redis: RedisProcess | None

    def end(self) -> None:
        """Make sure that nothing is left of either."""
        self.server.end()
        if self.redis is not None:
            self.redis.stop()


def started(folder: Path, *, on_redis: bool) -> Backend:
    """A server that is ready; with its lab, on a Redis of its own where asked."""
    redis = RedisProcess(folder / "redis") if on_redis else None
    settings = SETTINGS + (_ON_REDIS.format(url=redis.url) if redis is not None else "")
    file = folder / "soak.toml"
    file.write_text(settings)
    try:
        server = ServerProcess(folder / "data", "--config", file, env=environment(), lab=True)
    except BaseException:
        if redis is not None:
            redis.stop()
        raise
    return Backend(server, redis)
