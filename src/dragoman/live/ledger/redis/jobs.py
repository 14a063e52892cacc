"""Jobs on Redis: bindings, jobs, their attempts and their one end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b

from dragoman.ids import (
    JOB_SHARDS,
    AttemptId,
    InstanceId,
    JobId,
    NodeId,
    TenantId,
    job_shard,
    new_job_id,
    request_shard,
)
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Claim, Ending, Keep
from dragoman.live.ledger.records import JobInput, JobRecord, JobSpec, Times
from dragoman.live.ledger.redis import forms
from dragoman.live.ledger.redis.tags import Answer, Tags
from dragoman.live.protocol import ErrorInfo, JobResult

_AFTER_ALL_TIMES = "\x01"
"""Sorts after the separator that stands before the time in the name of a recent job."""

_SHARDS_TOGETHER = 4
"""Looked through at a time: sessions should not wait for all of them meanwhile."""


class JobOperations:
    """The part of the ledger that knows jobs."""

    _tags: Tags

    async def claim(self, claim: Claim) -> a.Claimed | a.Existing | a.BodyConflict:
        spec = claim.spec
        shard = request_shard(spec.tenant, spec.request_id, spec.target_key)
        job_id = new_job_id(self._tags.random, shard)
        answer = await self._tags.ask_shard(
            shard,
            "claim",
            (
                job_id,
                claim.instance_id,
                claim.claim_ms,
                _or_no_limit(claim.total_ms),
                _binding(spec),
                claim.body_hash.hex(),
                spec.tenant,
            ),
            forms.pack(spec),
            forms.pack(claim.input),
        )
        match answer[0]:
            case b"claimed":
                return a.Claimed(job_id, answer[1])
            case b"conflict":
                return a.BodyConflict(JobId(answer[1].decode()))
        return a.Existing(forms.job_in(JobId(answer[1].decode()), *answer[2:]))

    async def bind(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        cell: int,
        node_id: NodeId,
        *,
        total_ms: int | None,
    ) -> a.Bound | a.NotBound | a.JobGone:
        shard = job_shard(job_id)
        if shard is None:
            return a.JobGone()
        answer = await self._tags.ask_shard(
            shard, "bind", (job_id, attempt_id, cell, node_id, _or_no_limit(total_ms))
        )
        match answer[0]:
            case b"bound":
                return a.Bound(answer[1])
            case b"not_bound":
                return a.NotBound(ended=bool(answer[1]))
        return a.JobGone()

    async def retry(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        error: ErrorInfo,
        *,
        times: Times,
        instance_id: InstanceId | None,
        claim_ms: int,
        preempted: bool = False,
    ) -> a.Retrying | a.NotCurrent | a.Ended | a.JobGone:
        shard = job_shard(job_id)
        if shard is None:
            return a.JobGone()
        answer = await self._tags.ask_shard(
            shard,
            "retry",
            (
                job_id,
                attempt_id,
                forms.error_text(error),
                forms.times_list(times),
                instance_id or "",
                claim_ms,
                preempted,
            ),
        )
        if answer[0] == b"retrying":
            return a.Retrying(forms.job_in(job_id, *answer[1:]))
        return _ended_or_not(job_id, answer)

    async def end(
        self,
        job_id: JobId,
        attempt_id: AttemptId | None,
        ending: Ending,
        *,
        times: Times | None = None,
        keep: Keep,
    ) -> a.Ended | a.NotCurrent | a.JobGone:
        shard = job_shard(job_id)
        if shard is None:
            return a.JobGone()
        answer = await self._tags.ask_shard(
            shard,
            "end",
            (
                job_id,
                attempt_id or "",
                ending.outcome.value,
                forms.error_text(ending.error),
                forms.times_list(times),
                keep.lease_ms,
                keep.retention_ms,
            ),
            forms.result_blob(ending.output),
        )
        return _ended_or_not(job_id, answer, ending.output)

    async def renew_claims(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        by_shard = _by_shard(job_ids)
        unheard = by_shard.pop(None, [])
        answers = await asyncio.gather(
            *(
                self._tags.ask_shard(shard, "renew", (names, instance_id, claim_ms))
                for shard, names in by_shard.items()
                if shard is not None
            )
        )
        refused = {name.decode() for answer in answers for name in answer} | set(unheard)
        return tuple(job_id for job_id in job_ids if job_id in refused)

    async def take_over(
        self, job_id: JobId, instance_id: InstanceId, *, claim_ms: int
    ) -> a.Taken | a.StillHeld | a.JobGone:
        shard = job_shard(job_id)
        if shard is None:
            return a.JobGone()
        answer = await self._tags.ask_shard(shard, "take_over", (job_id, instance_id, claim_ms))
        match answer[0]:
            case b"taken":
                _, packed, spec, job_input = answer
                return a.Taken(
                    forms.job_in(job_id, packed, spec, None), forms.read_input(job_input)
                )
            case b"held":
                return a.StillHeld(InstanceId(answer[1].decode()) if answer[1] else None)
        return a.JobGone()

    async def release(self, job_ids: Sequence[JobId]) -> None:
        for shard, names in _by_shard(job_ids).items():
            if shard is not None:
                self._tags.releasing.add(shard, names)

    async def read(self, job_id: JobId) -> JobRecord | None:
        shard = job_shard(job_id)
        if shard is None:
            return None
        answer = await self._tags.ask_shard(shard, "read", (job_id,))
        return forms.job_in(job_id, *answer) if answer else None

    async def read_input(self, job_id: JobId) -> JobInput | None:
        shard = job_shard(job_id)
        if shard is None:
            return None
        answer = await self._tags.ask_shard(shard, "read_input", (job_id,))
        return forms.read_input(answer[0]) if answer else None

    async def read_open(self, job_id: JobId) -> a.OpenWork | None:
        shard = job_shard(job_id)
        if shard is None:
            return None
        answer = await self._tags.ask_shard(shard, "read_open", (job_id,))
        if not answer:
            return None
        packed, spec, job_input, at_ms = answer
        job = forms.job_in(job_id, packed, spec, None)
        return a.OpenWork(job, forms.read_input(job_input), at_ms)

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        first_out = (
            f"{tenant}{_AFTER_ALL_TIMES}"
            if before is None
            else f"{tenant}\0{before[0]:015d}\0{before[1]}"
        )
        answers = await asyncio.gather(
            *(
                self._tags.ask_shard(shard, "recent", (first_out, tenant, limit))
                for shard in range(JOB_SHARDS)
            )
        )
        newest = sorted((name for answer in answers for name in answer), reverse=True)[:limit]
        jobs = await asyncio.gather(
            *(self.read(JobId(name.split(b"\0")[1].decode())) for name in newest)
        )
        return tuple(job for job in jobs if job is not None)

    async def due_jobs(self, shards: Sequence[int], limit: int) -> tuple[JobRecord, ...]:
        found = []
        for start in range(0, len(shards), _SHARDS_TOGETHER):
            some = shards[start : start + _SHARDS_TOGETHER]
            answers = await asyncio.gather(
                *(self._tags.ask_shard(shard, "due_jobs", (limit,)) for shard in some)
            )
            found += [
                forms.job_in(JobId(name.decode()), packed, spec, result)
                for answer in answers
                for name, packed, spec, result in answer
            ]
        return tuple(found[:limit])


def _binding(spec: JobSpec) -> str:
    """A request's name among the bindings of its shard, the same length for all."""
    key = f"{spec.tenant}\0{spec.request_id}\0{spec.target_key}".encode()
    return blake2b(key, digest_size=16).hexdigest()


def _or_no_limit(value: int | None) -> int:
    return forms.NO_LIMIT if value is None else value


def _by_shard(job_ids: Sequence[JobId]) -> dict[int | None, list[JobId]]:
    shards: dict[int | None, list[JobId]] = {}
    for job_id in job_ids:
        shards.setdefault(job_shard(job_id), []).append(job_id)
    return shards


def _ended_or_not(
    job_id: JobId, answer: Answer, output: JobResult | None = None
) -> a.Ended | a.NotCurrent | a.JobGone:
    match answer[0]:
        case b"ended_now":
            # The asker brought the result, so that it need not travel back.
            return a.Ended(forms.job_in(job_id, answer[1], answer[2], output))
        case b"ended":
            return a.Ended(forms.job_in(job_id, *answer[1:]))
        case b"not_current":
            return a.NotCurrent(forms.job_in(job_id, *answer[1:]))
    return a.JobGone()
