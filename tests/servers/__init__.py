"""Real servers for tests: started for the run, stopped with it, never shared with anyone."""

from tests.servers.databases import DATABASES, TWO_DATABASES, empty_database, fresh_database
from tests.servers.haproxy import HaproxyProcess
from tests.servers.mariadb import MariadbProcess
from tests.servers.postgres import PostgresProcess
from tests.servers.programs import require_program
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_process import PATIENT_MS, RedisProcess
from tests.servers.sqlite import fresh_sqlite

__all__ = [
    "DATABASES",
    "PATIENT_MS",
    "TWO_DATABASES",
    "HaproxyProcess",
    "MariadbProcess",
    "PostgresProcess",
    "RedisCluster",
    "RedisProcess",
    "empty_database",
    "fresh_database",
    "fresh_sqlite",
    "require_program",
]
