"""What every session of the process works with, and the far end of one of them."""

from __future__ import annotations

import msgspec

from dragoman.clock import Clock
from dragoman.ids import SessionId
from dragoman.live.budget import Budget
from dragoman.live.dispatch import Dispatcher, TenantCounts
from dragoman.live.ledger import Ledger
from dragoman.live.protocol import SchedulerToClient
from dragoman.live.sessions.ports import ClientLink, SessionPeers
from dragoman.live.sessions.record import SessionOwner, SessionRecords
from dragoman.live.sessions.rules import SessionRules
from dragoman.observability import Metrics, Tracing, Watch


class Tools(msgspec.Struct, frozen=True):
    """What every session of the process works with."""

    dispatcher: Dispatcher
    ledger: Ledger
    records: SessionRecords
    rules: SessionRules
    budget: Budget
    metrics: Metrics
    watch: Watch
    clock: Clock
    tracing: Tracing | None = None
    peers: SessionPeers | None = None
    """None: this instance is alone, and no other holds its sessions."""
    tenants: TenantCounts[SessionId] | None = None
    """None: a tenant's sessions are counted here alone."""


class Client:
    """A session's client, over one connection after another."""

    def __init__(self, owner: SessionOwner) -> None:
        self.link: ClientLink | None = None
        self.owner = owner
        """The connection that speaks for the session, or was the last to do so."""
        self.epoch = owner.epoch
        """Every write to the session's record carries it."""
        self.connections = {owner.connection_id}
        """All that spoke for the session here, or asked to."""

    def is_spoken_for_by(self, owner: SessionOwner) -> bool:
        """Whether an owner is this client's, here, without another owner in between.

        The answer to a resume may be still on its way, or lost: its connection owns the record
        before it is known here.
        """
        if owner == self.owner:
            return True
        mine = owner.instance_id == self.owner.instance_id
        return mine and owner.connection_id in self.connections and owner.epoch == self.epoch + 1

    def own(self, owner: SessionOwner) -> None:
        self.owner = owner
        self.epoch = owner.epoch

    def send(self, message: SchedulerToClient) -> bool:
        """False when the client cannot be reached now."""
        return self.link.send(message) if self.link is not None else False
