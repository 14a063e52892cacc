"""A session's hold on its record: what a refused write means, and what is done about it."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.ids import SessionId
from dragoman.live.sessions.record import SessionOwner, SessionRecord, SessionRecords
from dragoman.live.sessions.tools import Client
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")


class Hold:
    """Tells whether this instance still owns a session's record, and writes it again if it is gone.

    A write that was refused is made again when `regain` says so.
    """

    def __init__(
        self,
        session_id: SessionId,
        records: SessionRecords,
        client: Client,
        *,
        compose: Callable[[], SessionRecord],
        on_lost: Callable[[SessionOwner], None],
        on_restored: Callable[[], None],
    ) -> None:
        self._session_id = session_id
        self._records = records
        self._client = client
        self._compose = compose
        self._on_lost = on_lost
        self._on_restored = on_restored

    async def regain(self) -> bool:
        """A write was refused: whether this instance is the owner after all, and it may be made.

        When another instance is, the session is let go of.
        """
        client, epoch = self._client, self._client.epoch
        record = await self._records.read(self._session_id)
        if record is None:
            return await self._restore()
        owner = record.owner
        if client.epoch != epoch or owner == client.owner:
            return True
        if owner.instance_id == client.owner.instance_id and (
            owner.connection_id in client.connections
        ):
            # A resume whose answer is still on its way, or was lost.
            client.own(owner)
            return True
        if owner.epoch < epoch:
            # A failover took the record back to before this instance became its owner.
            return await self._restore()
        self._on_lost(owner)
        return False

    async def _restore(self) -> bool:
        """The record is gone or old: whoever holds the client's connection writes it again."""
        if self._client.link is None:
            return False
        if not await self._records.restore(self._compose()):
            return await self.regain()
        log.info("session_restored", session_id=self._session_id)
        self._on_restored()
        return True
