"""PostgreSQL's notifications: short messages between the processes that use one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import asyncpg
from sqlalchemy.engine import URL

from dragoman.errors import StoreError
from dragoman.store.interface import Notifications

CONNECT_SECONDS = 10.0
"""How long the server may take to accept a connection, or to answer."""

ALIVE_SECONDS = 10.0
"""How often a listener asks whether its connection still stands."""

_NOTIFY = "SELECT pg_notify(c, m) FROM unnest($1::text[], $2::text[]) AS told(c, m)"

_Told = tuple[str, str]
"""The channel and the message."""


class PostgresNotifications(Notifications):
    """Tells, on one connection, and listens, on another; both are made when they are needed.

    A message has at most 7,999 bytes.
    """

    def __init__(self, url: URL, application: str) -> None:
        self._url = url
        self._application = application
        self._teller: asyncpg.Connection | None = None
        self._telling = asyncio.Lock()

    async def tell(self, messages: Sequence[_Told]) -> None:
        """Send messages, each on its channel, to all who listen; raises StoreError."""
        async with self._telling:
            try:
                if self._teller is None or self._teller.is_closed():
                    self._teller = await self._connect()
                channels = [channel for channel, _ in messages]
                texts = [text for _, text in messages]
                await self._teller.execute(_NOTIFY, channels, texts, timeout=CONNECT_SECONDS)
            except _TROUBLE as error:
                await self._drop_teller()
                raise _away(error) from error

    async def listen(self, channels: Sequence[str]) -> AsyncGenerator[_Told]:
        """What is told on these channels from now on; raises StoreError when that ends."""
        heard: asyncio.Queue[_Told | None] = asyncio.Queue()
        try:
            connection = await self._connect()
        except _TROUBLE as error:
            raise _away(error) from error

        def told(_: object, __: int, channel: str, message: object) -> None:
            heard.put_nowait((channel, str(message)))

        try:
            connection.add_termination_listener(lambda _: heard.put_nowait(None))
            for channel in channels:
                await connection.add_listener(channel, told)
            while True:
                try:
                    async with asyncio.timeout(ALIVE_SECONDS):
                        message = await heard.get()
                except TimeoutError:
                    await connection.execute("SELECT 1", timeout=CONNECT_SECONDS)
                    continue
                if message is None:
                    raise StoreError("The connection to PostgreSQL's notifications was lost.")
                yield message
        except _TROUBLE as error:
            raise _away(error) from error
        finally:
            connection.terminate()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._drop_teller()

    async def _drop_teller(self) -> None:
        teller, self._teller = self._teller, None
        if teller is not None:
            teller.terminate()

    async def _connect(self) -> asyncpg.Connection:
        url = self._url
        return await asyncpg.connect(
            host=url.host,
            port=url.port,
            user=url.username,
            password=url.password,
            database=url.database,
            ssl=url.query.get("sslmode"),
            timeout=CONNECT_SECONDS,
            server_settings={"application_name": self._application},
        )


_TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


def _away(error: BaseException) -> StoreError:
    told = error.message if isinstance(error, StoreError) else str(error)
    return StoreError(
        f"PostgreSQL's notifications cannot be used ({told or type(error).__name__})."
    )
