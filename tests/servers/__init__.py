"""Real servers for tests: started for the run, stopped with it, never shared with anyone."""

from tests.servers.postgres import PostgresProcess
from tests.servers.programs import require_program
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_process import PATIENT_MS, RedisProcess
from tests.servers.sqlite import fresh_sqlite

__all__ = [
    "PATIENT_MS",
    "PostgresProcess",
    "RedisCluster",
    "RedisProcess",
    "fresh_sqlite",
    "require_program",
]
