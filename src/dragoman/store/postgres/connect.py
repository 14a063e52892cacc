"""PostgreSQL connections: how they are made, and how the database is named in messages."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""

IDLE_IN_TRANSACTION_SECONDS = 30.0
"""How long a process may fall silent within a transaction: what it locked, others wait for.

One that was killed has its connections closed by the system. One that is paused, or whose machine
sleeps, would hold its locks for as long as that lasts.
"""

_APPLICATION = "dragoman"


def lasting_engine(url: URL, connections: int) -> AsyncEngine:
    """An engine that keeps up to so many connections open."""
    return _engine(url, poolclass=AsyncAdaptedQueuePool, pool_size=connections, max_overflow=0)


def passing_engine(url: URL) -> AsyncEngine:
    """An engine that opens a connection each time and never keeps one."""
    return _engine(url, poolclass=NullPool)


def name_of(url: URL) -> str:
    """The database as messages name it: where it is, without password and options."""
    return url.set(query={}, drivername="postgresql").render_as_string(hide_password=True)


def _engine(url: URL, **pool: Any) -> AsyncEngine:
    ssl = {"ssl": url.query["sslmode"]} if "sslmode" in url.query else {}
    # Parameters are kept out of error messages and logs: they may be what users said.
    return create_async_engine(
        url.set(query={}, drivername="postgresql+asyncpg"),
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "server_settings": {
                "application_name": _APPLICATION,
                "idle_in_transaction_session_timeout": str(
                    round(IDLE_IN_TRANSACTION_SECONDS * 1000)
                ),
            },
            **ssl,
        },
        **pool,
    )
