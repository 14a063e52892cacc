"""What a task of a peer does for an item, and how its producer waits until all are done.

Needs the peer's environment: a driver of each database.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.workers.calls import blocking

DATABASE_URL = os.environ["BENCH_DATABASE_URL"]
REDIS_URL = os.environ["BENCH_REDIS_URL"]
LATENCY_SECONDS = float(os.environ["BENCH_LATENCY_SECONDS"])

_TABLE = "CREATE TABLE bench_result (item INTEGER PRIMARY KEY, answer TEXT NOT NULL)"
_INSERT = "INSERT INTO bench_result (item, answer) VALUES (%s, %s)"
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 600.0

_own = threading.local()


def carry_out(item: int) -> None:
    """Call, and store the answer in a transaction of its own, on a connection of the thread."""
    answer = blocking(f"sentence {item}", LATENCY_SECONDS)
    with _connection().cursor() as cursor:
        cursor.execute(_INSERT, (item, answer))


def produce(items: int, send: Callable[[int], object]) -> None:
    """Send all items, wait until each has its row, and tell how long that took."""
    with _connection().cursor() as cursor:
        cursor.execute(_TABLE)
    send(0)  # the workers may still be starting
    _until_stored(1)
    began, cpu_began = time.monotonic(), time.process_time()
    for item in range(1, items + 1):
        send(item)
    _until_stored(items + 1)
    took = {
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu_began,
    }
    print(json.dumps(took), flush=True)


def _until_stored(rows: int) -> None:
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        with _connection().cursor() as cursor:
            cursor.execute("SELECT count(*) FROM bench_result")
            if cursor.fetchone()[0] >= rows:
                return
        time.sleep(_LOOK_SECONDS)
    raise TimeoutError(f"{rows} rows were never there")


def _connection() -> Any:
    if not hasattr(_own, "connection"):
        _own.connection = _connect()
    return _own.connection


def _connect() -> Any:
    if DATABASE_URL.startswith("postgresql"):
        import psycopg  # type: ignore[import-not-found]

        return psycopg.connect(DATABASE_URL, autocommit=True)
    import pymysql  # type: ignore[import-untyped]

    url = urlsplit(DATABASE_URL)
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password,
        database=url.path.lstrip("/"),
        autocommit=True,
    )
