"""A record's writer at work: utterances are opened, their jobs end, and a client listens.

Jobs are opened and closed as a ledger of instances does: the writer opens them with their
utterance, and their closing asks for the delivery number in the same step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from random import Random
from typing import Any

from tests.unit.live.sessions.unreliable import KEEP_DELIVERED, Unreliable

from dragoman.errors import DependencyDown
from dragoman.ids import (
    ConnectionId,
    InstanceId,
    JobId,
    RequestId,
    SessionId,
    TenantId,
    new_attempt_id,
    new_id,
    new_job_id_for,
)
from dragoman.live.dispatch import Claimed
from dragoman.live.dispatch.job import Job
from dragoman.live.ledger import Ending, JobInput, JobSpec, Keep, Times
from dragoman.live.protocol import JobResult, Outcome, Pipeline, SessionInit
from dragoman.live.sessions.record_writer import RecordWriter, WriterTerms
from dragoman.live.shared import records as r
from dragoman.live.snapshot import JobRequirement, PoolRule

HERE = InstanceId("i-here")
THERE = InstanceId("i-there")
TENANT = TenantId("acme")
KEEP = Keep(lease_ms=90_000, retention_ms=600_000)
TERMS = WriterTerms(claim_ms=5_000, keep=KEEP, keep_delivered=KEEP_DELIVERED)
ANY = JobRequirement(PoolRule("asr_tts"), (("zh", "en"),), Pipeline(), ())

End = tuple[int, str]


class Writing:
    """One session's writer, and all that it is told and tells."""

    def __init__(self, shards: Unreliable, random: Random, *targets: str) -> None:
        self.shards = shards
        self.random = random
        self.targets = targets or ("en",)
        self.session_id = SessionId(new_id(random, "s"))
        self.start = r.StoredSession(
            session_id=self.session_id,
            tenant=TENANT,
            secret_hash="secret",
            init=SessionInit(src_lang="zh", tgt_langs=self.targets),
            owner=r.SessionOwner(HERE, self.connection_id(), 1),
        )
        self.tasks: set[asyncio.Task[Any]] = set()
        self.lost_to: list[r.SessionOwner] = []
        self.restored = 0
        self.writer = RecordWriter(
            self.start,
            shards,
            TERMS,
            run=self.run,
            on_lost=self.lost_to.append,
            on_restored=self._restored,
            on_down=lambda: None,
        )
        self.writer.client_is_here = True
        self.next_index = 0
        self.answers: dict[End, Claimed] = {}
        self.order: dict[str, deque[int]] = {target: deque() for target in self.targets}
        self.ended: dict[End, tuple[JobId | None, str | None, int]] = {}
        self.told: list[tuple[int, int, str]] = []
        """What the client heard: the number, the utterance, the target."""
        self.forgets = False
        """The ledger may lose what it stored."""

    def connection_id(self) -> ConnectionId:
        return ConnectionId(new_id(self.random, "c"))

    def run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def begin(self) -> None:
        await self.shards.ledger.begin_session(self.start)

    async def stored(self) -> r.StoredSession:
        found = await self.shards.ledger.read_session(self.session_id)
        assert found is not None, "the record is gone"
        return found

    # --- utterances -----------------------------------------------------------------------------

    def say(self, *, without_job: tuple[str, ...] = (), work: bool = True) -> int:
        """The next utterance, with a job for each target but some; `work` ends the jobs, too."""
        index = self.next_index
        self.next_index += 1
        for target in self.targets:
            self.order[target].append(index)
            if target in without_job:
                continue
            job, new = self.new_job(index, target)
            job.weight = int(work)
            self.writer.claim(job, new, self._claimed)
        self.writer.open(index, self.targets, index + 1, b"h" * (index % 2))
        for target in without_job:
            self.end(index, target, None, "NO_CAPACITY", 0)
        return index

    def new_job(self, index: int, target: str) -> tuple[Job, r.NewJob]:
        request = RequestId(f"{self.session_id}/{index}")
        spec = JobSpec(
            tenant=TENANT,
            request_id=request,
            src_lang="zh",
            tgt_lang=target,
            pipeline=Pipeline(use_nmt=True),
            session_id=self.session_id,
            utterance_index=index,
        )
        new = r.NewJob(
            job_id=new_job_id_for(self.random, TENANT, request, target),
            spec=spec,
            input=JobInput(text=f"utterance {index}"),
            body_hash=b"body",
            target_key=target,
            attempt_id=new_attempt_id(self.random),
            cell=0,
            total_ms=60_000,
        )
        job = Job(spec, new.input, b"body", ANY, None, 0.0, 0.0, True, target)
        job.writer = self.writer
        job.job_id = new.job_id
        return job, new

    def _claimed(self, job: Job, answer: Claimed, at_ms: int) -> None:
        index = job.spec.utterance_index
        assert index is not None
        place = (index, job.target_key)
        assert place not in self.answers, "a claim was answered twice"
        self.answers[place] = answer
        if job.weight:
            self.run(self._work(job))

    async def _work(self, job: Job) -> None:
        """A node works on the job, and its ledger closes it."""
        await asyncio.sleep(self.random.random() * 0.3)
        await self.close(job)

    async def close(self, job: Job) -> None:
        index, seq = job.spec.utterance_index or 0, 0
        while True:
            closing = r.Closing(
                job.job_id,
                None,
                Ending(Outcome.SUCCESS, JobResult(job.job_id, new_attempt_id(self.random), True)),
                Times(),
                None,
                KEEP,
                held=self.writer.holding,
                delivery=r.Delivery(index, job.target_key, job.job_id),
            )
            try:
                answer = await self.shards.close(closing)
                break
            except DependencyDown:
                await asyncio.sleep(0.1)
        if isinstance(answer, r.Closed):
            self.writer.saw(answer.revision)
            seq = answer.seq or 0
        self.end(index, job.target_key, job.job_id, None, seq)

    # --- ends -----------------------------------------------------------------------------------

    def end(
        self, index: int, target: str, job_id: JobId | None, reason: str | None, seq: int
    ) -> None:
        """An utterance has its end; the ends of a target go on in the order spoken."""
        self.ended[index, target] = (job_id, reason, seq)
        order = self.order[target]
        while order and (order[0], target) in self.ended:
            head = order.popleft()
            job_id, reason, seq = self.ended[head, target]
            entry = r.Delivery(head, target, job_id, reason)
            self.writer.deliver(entry, partial(self._told, entry), seq)

    def _told(self, entry: r.Delivery, seq: int) -> None:
        index, target = entry.index, entry.target
        if not self.forgets:
            self._check_stored(seq, index, target)
        self.told.append((seq, index, target))

    def _check_stored(self, seq: int, index: int, target: str) -> None:
        """What is stored is never behind what the client hears."""
        ledger = self.shards.ledger
        record = ledger._shard(self.session_id)[0].sessions[self.session_id].record()
        assert record.next_seq > seq
        assert record.next_index > index
        sent = {
            each.seq: (each.delivery.index, each.delivery.target) for each in record.unacknowledged
        }
        assert sent[seq] == (index, target)

    def check_told(self) -> None:
        """The client heard every end once, in order, under ascending numbers."""
        assert [seq for seq, _, _ in self.told] == list(range(1, len(self.told) + 1))
        for target in self.targets:
            ends = [index for _, index, its in self.told if its == target]
            assert ends == list(range(len(ends))), f"{target}: {ends}"

    async def until_told(self, ends: int, seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while len(self.told) < ends:  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.05)

    async def until_idle(self) -> None:
        async with asyncio.timeout(60):
            while self.tasks or not self.writer.is_idle:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)

    def _restored(self) -> None:
        self.restored += 1
