"""What every session of the process works with, and the far end of one of them."""

from __future__ import annotations

import msgspec

from dragoman.clock import Clock
from dragoman.live.dispatch import Dispatcher
from dragoman.live.ledger import Ledger
from dragoman.live.protocol import SchedulerToClient
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import SessionRecords
from dragoman.live.sessions.rules import Budget, SessionRules
from dragoman.observability import Metrics, Tracing


class Tools(msgspec.Struct, frozen=True):
    """What every session of the process works with."""

    dispatcher: Dispatcher
    ledger: Ledger
    records: SessionRecords
    rules: SessionRules
    budget: Budget
    metrics: Metrics
    clock: Clock
    tracing: Tracing | None = None


class Client:
    """A session's client, over one connection after another."""

    def __init__(self) -> None:
        self.link: ClientLink | None = None
        self.epoch = 0
        """Of the connection that speaks for the session; every write to its record carries it."""

    def send(self, message: SchedulerToClient) -> bool:
        """False when the client cannot be reached now."""
        return self.link.send(message) if self.link is not None else False
