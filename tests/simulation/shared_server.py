"""The server that instances share, and can lose what it knew: restart empty, or fail over."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from dragoman.clock import Clock
from dragoman.settings import Settings
from dragoman.testing import SharedServer

_OF_THE_HUB = ("instances", "finished", "letters", "windows", "leases")
"""What a hub keeps; who listens to it is no part of its memory."""

Memory = dict[str, dict[str, Any]]


class ForgetfulServer(SharedServer):
    """Ledger, records and hub in one place: they forget together."""

    def __init__(self, clock: Clock, seed: int, settings: Settings) -> None:
        super().__init__(clock, seed, settings)
        self._random = Random(f"{seed}/server")
        self.forgot_at: list[float] = []
        """When it lost something that it had confirmed."""

    def restart_empty(self) -> None:
        """Lose everything."""
        ledger = self._new_ledger(self.ledger._random)
        # As on Redis, a cell that lost its memory does not repeat a version.
        ledger._retired_version = self._random.getrandbits(32)
        vars(self.ledger).update(vars(ledger))
        vars(self.records).update(vars(self._new_records()))
        self.hub.forget()
        self._begin_again()

    def memory(self) -> Memory:
        """All that it knows now, as a replica that has got this far."""
        known = [*self.hub.instances.values(), *self.hub.finished.values()]
        # The copy tells the time by the same clock, and wakes the same readers.
        shared = [self._clock, self.ledger._random, *(one.inbox.news for one in known)]
        return deepcopy(
            {
                "ledger": vars(self.ledger),
                "records": vars(self.records),
                "hub": {name: getattr(self.hub, name) for name in _OF_THE_HUB},
            },
            {id(thing): thing for thing in shared},
        )

    def fail_over(self, replica: Memory) -> None:
        """A replica takes its place, and knows nothing of what came after."""
        vars(self.ledger).update(replica["ledger"])
        vars(self.records).update(replica["records"])
        vars(self.hub).update(replica["hub"])
        self._begin_again()

    def _begin_again(self) -> None:
        """Every connection is broken; what was asked over one is not known any more."""
        self.forgot_at.append(self._clock.monotonic())
        self._lives += 1
        self._unanswered.clear()
        self._running.set()
        self.hub.come_back()
