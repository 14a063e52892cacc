"""Slots that come free: heirs take theirs over, those who wait are called."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from dragoman.ids import InstanceId, JobId
from dragoman.live.dispatch.inheritance import Inheritances
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.ports import PeerPort
from dragoman.live.dispatch.reception import Reception
from dragoman.live.ledger import Freed, Inherited, Ledger


class FreedSlots:
    """Brings slots to the jobs of this instance, and has others bring them to theirs."""

    def __init__(
        self,
        *,
        jobs: Mapping[JobId, LiveJob],
        reception: Reception,
        inheritances: Inheritances,
        ledger: Ledger,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        instance_id: InstanceId,
        peers: PeerPort | None,
    ) -> None:
        self._jobs = jobs
        self._reception = reception
        self._inheritances = inheritances
        self._ledger = ledger
        self._spawn = spawn
        self._instance_id = instance_id
        self._peers = peers

    def freed(self, freed: Freed | None) -> None:
        """Slots came free: the heirs take theirs, the others are woken."""
        if freed is None:
            return
        for inherited in freed.inherited:
            if not self.inherited(inherited) and self._peers is not None:
                self._spawn(self._pass_on(inherited, self._peers))
        if freed.slots:
            self._reception.wake(freed.slots)
            if self._peers is not None:
                self._peers.freed(freed.slots)

    def inherited(self, inherited: Inherited) -> bool:
        """A slot passed to a job; False when this instance does not drive it."""
        job = self._jobs.get(inherited.job_id)
        if job is not None:
            self._inheritances.came(job, inherited)
        return job is not None

    async def _pass_on(self, inherited: Inherited, peers: PeerPort) -> None:
        """Tell the heir's driver; if it is not heard, the slot is given back unacknowledged."""
        record = await self._ledger.read(inherited.job_id)
        if record is not None and record.claimed_by != self._instance_id:
            peers.inherited(inherited.job_id, inherited.attempt_id, record.claimed_by)
