"""Instances with sessions over one shared ledger, jobs that end by themselves, and clients.

The jobs are driven as a dispatcher of instances does it: opened with their utterance, closed with
their delivery, watched where another instance drives them. No nodes and no slots are in it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any

from tests.unit.live.sessions.unreliable import Unreliable, shared_ledger

from dragoman import errors
from dragoman.ids import (
    ConnectionId,
    InstanceId,
    JobId,
    SessionId,
    TenantId,
    new_attempt_id,
    new_id,
    new_job_id_for,
)
from dragoman.live.budget import ByteBudget
from dragoman.live.dispatch import Claimed
from dragoman.live.dispatch.job import Job, OnPartial, OnProgress, Stop
from dragoman.live.gateway.rules import session_rules
from dragoman.live.ledger import Ending, JobSpec, Keep, Times
from dragoman.live.protocol import (
    AudioChunk,
    ErrorInfo,
    JobResult,
    MissingResult,
    Outcome,
    SchedulerToClient,
    ServiceType,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from dragoman.live.sessions.recent import RecentDeliveries
from dragoman.live.sessions.session import Session, SessionContext
from dragoman.live.sessions.sessions import Sessions
from dragoman.live.shared import records as r
from dragoman.live.snapshot import JobRequirement, PoolRule, Requirements
from dragoman.observability import Metrics
from dragoman.randomness import Secrets
from dragoman.settings import load_settings
from dragoman.testing import VirtualClock, run_virtual

TENANT = TenantId("acme")
KEEP = Keep(lease_ms=90_000, retention_ms=600_000)
CLAIM_MS = 5_000
SWEEP_SECONDS = 1.0
"""A job that no instance drives at two sweeps is ended by the second."""

End = TranslationResult | MissingResult


class World:
    """Some instances, the ledger that they share, and the notes between them."""

    def __init__(self, seed: int, names: str = "ab", **settings: Any) -> None:
        self.random = Random(seed)
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.ledger = shared_ledger(self.clock, self.random)
        self.settings = load_settings(flags=settings, environ={}).settings
        self.loses_notes = False
        self.service_seconds = 0.1
        self.instances: dict[str, Instance] = {}
        self.tenants: dict[TenantId, set[SessionId]] = {}
        for name in names:
            self.begin(name)

    def __getitem__(self, name: str) -> Instance:
        return self.instances[name]

    def begin(self, name: str) -> Instance:
        instance = self.instances[name] = Instance(self, name)
        instance.spawn(instance.sessions.run())
        return instance

    def kill(self, name: str) -> None:
        """The instance is gone; its jobs are ended by those that are left."""
        instance = self.instances.pop(name)
        instance.is_dead = instance.shared.is_away = True
        for task in list(instance.tasks):
            task.cancel()
        for client in instance.links:
            client.is_closed = True

    async def sweep(self) -> None:
        """End the jobs that no instance drives."""
        seen: set[JobId] = set()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            driven = {job_id for each in self.instances.values() for job_id in each.jobs}
            stray = {
                job.job_id: job.input.text or "audio"
                for shard in self.ledger._shards
                for job in shard.jobs.values()
                if job.input is not None and job.job_id not in driven
            }
            for job_id in seen & set(stray):
                attempt_id = new_attempt_id(self.random)
                output = JobResult(job_id, attempt_id, True, text_translated=stray[job_id])
                ending = Ending(Outcome.SUCCESS, output)
                await self.ledger.close(r.Closing(job_id, None, ending, Times(), None, KEEP))
            seen = set(stray)

    def post_taken(self, session_id: SessionId, to: InstanceId, epoch: int) -> None:
        instance = self.instances.get(to)
        if instance is not None and not self.loses_notes:
            instance.spawn(instance.hear_of_taken(session_id, epoch))

    def holders(self, session_id: SessionId) -> list[str]:
        return [
            name
            for name, instance in self.instances.items()
            if instance.sessions.find(session_id) is not None
        ]

    async def record(self, session_id: SessionId) -> r.StoredSession | None:
        return await self.ledger.read_session(session_id)

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.01)


class Instance:
    """One instance: its sessions, and the jobs that it drives."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = InstanceId(name)
        self.shared = Unreliable(world.ledger, world.random)
        self.is_dead = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.jobs: dict[JobId, Job] = {}
        self.started = 0
        self.on_start: Callable[[Job], None] = lambda job: None
        self.links: list[Link] = []
        self.released: list[JobId] = []
        self.total_seconds = 60.0
        self._requirements = Requirements(PoolRule("asr_tts"))
        rules = session_rules(world.settings)
        stand_in: Any = self
        self.budget = ByteBudget(1 << 30)
        self.sessions = Sessions(
            SessionContext(
                dispatcher=stand_in,
                ledger=stand_in,
                rules=rules,
                budget=self.budget,
                metrics=Metrics(),
                clock=world.clock,
                tracing=None,
                recent=RecentDeliveries(100),
                shared=self.shared,
                peers=stand_in,
                tenants=stand_in if rules.sessions_per_tenant else None,
                watching=stand_in,
                claim_ms=CLAIM_MS,
                keep=KEEP,
            ),
            self.name,
            Secrets(world.random),
        )

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        if self.is_dead:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    run = spawn

    async def hear_of_taken(self, session_id: SessionId, epoch: int) -> None:
        with contextlib.suppress(errors.DependencyDown):
            await self.sessions.taken(session_id, epoch)

    # --- the ledger's and the peers' doors ------------------------------------------------------

    def release_now(self, job: Job) -> None:
        self.released.append(job.job_id)

    def taken(self, session_id: SessionId, before: r.SessionOwner, now: r.SessionOwner) -> None:
        self.world.post_taken(session_id, before.instance_id, now.epoch)

    async def acquire(self, tenant: TenantId, counted: SessionId) -> None:
        held = self.world.tenants.setdefault(tenant, set())
        if len(held) >= self.world.settings.limits.sessions_per_tenant:
            raise errors.RateLimited("The tenant has as many sessions as it may.")
        held.add(counted)

    def adopt(self, tenant: TenantId, counted: SessionId) -> None:
        self.world.tenants.setdefault(tenant, set()).add(counted)

    def hand_on(self, tenant: TenantId, counted: SessionId) -> None:
        """The instance that has it now counts it."""

    def release(self, tenant: TenantId, counted: SessionId) -> None:
        self.world.tenants[tenant].discard(counted)

    # --- the dispatcher's door ------------------------------------------------------------------

    def requirement(self, spec: JobSpec) -> JobRequirement:
        return self._requirements.of(((spec.src_lang, spec.tgt_lang),), spec.pipeline, ())

    def start(self, job: Job, now: float) -> None:
        spec, writer = job.spec, job.writer
        if spec.tgt_lang == "xx":
            raise errors.PairUnsupported("No node speaks it.")
        self.started += 1
        self.on_start(job)
        random = self.world.random
        assert job.input is not None
        new = r.NewJob(
            new_job_id_for(random, spec.tenant, spec.request_id, job.target_key),
            spec,
            job.input,
            job.body_hash,
            job.target_key,
            new_attempt_id(random),
            0,
            60_000,
        )
        index = spec.utterance_index or 0
        if writer is not None and spec.request_id == f"{spec.session_id}/{index}":
            writer.claim(job, new, lambda job, answer, _: self._claimed(job, new, answer))
        else:
            known = writer.elsewhere(index, job.target_key) if writer is not None else None
            self.spawn(self._open_elsewhere(job, new, known))

    async def _open_elsewhere(
        self, job: Job, new: r.NewJob, known: Callable[[JobId | None], None] | None
    ) -> None:
        opening = r.UtteranceOpening((new,), self.name, CLAIM_MS, KEEP)
        opened = await self._until_answered(lambda: self.shared.open(opening))
        (answer,) = opened.jobs
        other = isinstance(answer, r.JobFound) and not answer.same_body
        if known is not None:
            found = answer.job.job_id if isinstance(answer, r.JobFound) else new.job_id
            known(None if other else found)
        self._claimed(job, new, answer)

    def _claimed(self, job: Job, new: r.NewJob, answer: Claimed) -> None:
        now = self.world.clock.monotonic()
        if isinstance(answer, r.JobFound) and answer.job.job_id != new.job_id:
            if job.owner is None:
                return
            if answer.same_body:
                job.owner.job_found(job, _job_of(answer.job), now)
            else:
                details = {"job_id": answer.job.job_id}
                job.owner.job_refused(job, errors.RequestConflict("Taken.", details=details), now)
        elif isinstance(answer, r.JobOpened | r.JobFound):
            job.job_id = new.job_id
            self.jobs[job.job_id] = job
            self.spawn(self._work(job))
        elif isinstance(answer, r.Behind) and job.owner is not None:
            job.owner.job_refused(job, errors.DependencyDown("The record lost it."), now)

    async def _work(self, job: Job) -> None:
        random = self.world.random
        await asyncio.sleep(self.world.service_seconds * (0.5 + random.random()))
        text = (job.input.text if job.input is not None else None) or "audio"
        output = JobResult(job.job_id, new_attempt_id(random), True, text_translated=text)
        await self._end(job, Ending(Outcome.SUCCESS, output))

    async def _end(self, job: Job, ending: Ending) -> None:
        if job.outcome is not None:
            return
        writer = job.writer
        own = writer is not None and job.spec.request_id.startswith(writer.session_id)

        async def ask() -> Any:
            held = writer.holding if own and writer is not None else None
            delivery = r.Delivery(job.spec.utterance_index or 0, job.target_key, job.job_id)
            return await self.shared.close(
                r.Closing(
                    job.job_id,
                    None,
                    ending,
                    Times(),
                    None,
                    KEEP,
                    held=held,
                    delivery=delivery if held is not None else None,
                )
            )

        answer = await self._until_answered(ask)
        if job.job_id not in self.jobs:
            return
        job.outcome, job.output, job.error = ending.outcome, ending.output, ending.error
        if isinstance(answer, r.HasEnded):
            known = answer.job
            job.outcome, job.output, job.error = known.outcome, known.output, known.error
        elif isinstance(answer, r.Closed) and own and writer is not None:
            writer.saw(answer.revision)
            job.delivery_seq = answer.seq or 0
        self.jobs.pop(job.job_id, None)
        owner, job.owner = job.owner, None
        if owner is not None:
            owner.job_ended(job, self.world.clock.monotonic())

    def services_of(self, job: Job) -> dict[ServiceType, str]:
        return {}

    def stop_job(self, job: Job, stop: Stop) -> None:
        if job.job_id:
            self.spawn(self._end(job, Ending(stop.outcome, error=stop.error)))

    async def cancel(self, job_id: JobId) -> None:
        error = ErrorInfo("JOB_CANCELLED", "It was cancelled.")
        ending = Ending(Outcome.CANCELLED, error=error)
        closing = r.Closing(job_id, None, ending, Times(), None, KEEP)
        await self._until_answered(lambda: self.shared.close(closing))

    def watch(
        self,
        job_id: JobId,
        then: Callable[[Job | None], None],
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.spawn(self._watch(job_id, then))

    async def _watch(self, job_id: JobId, then: Callable[[Job | None], None]) -> None:
        while True:
            stored = await self._until_answered(lambda: self.shared.read(job_id))
            if stored is None or stored.outcome is not None:
                then(_job_of(stored) if stored is not None else None)
                return
            await asyncio.sleep(0.1)

    async def find_ended(self, job_ids: Iterable[JobId]) -> Mapping[JobId, Job]:
        found = [await self.shared.read(job_id) for job_id in job_ids]
        return {job.job_id: _job_of(job) for job in found if job is not None and job.outcome}

    async def _until_answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await ask()
            except errors.DependencyDown:
                await asyncio.sleep(0.1)


def _job_of(stored: r.StoredJob) -> Job:
    requirement = Requirements(PoolRule("asr_tts")).of(
        ((stored.spec.src_lang, stored.spec.tgt_lang),), stored.spec.pipeline, ()
    )
    job = Job(
        stored.spec,
        None,
        stored.body_hash,
        requirement,
        None,
        0.0,
        0.0,
        False,
        stored.spec.target_key,
    )
    job.job_id = stored.job_id
    job.delivery_seq = 1  # In the record of the session that made it, which may be another.
    job.outcome, job.output, job.error = stored.outcome, stored.output, stored.error
    return job


class Link:
    """A connection of a client to an instance."""

    def __init__(self, client: Client, instance: Instance) -> None:
        self.id = ConnectionId(new_id(instance.world.random, "c"))
        self._client = client
        self._instance = instance
        self.session: Session | None = None
        self.is_closed = False
        self.why: str | None = None

    def send(self, message: SchedulerToClient) -> bool:
        if self.is_closed:
            return False
        self._client.hear(message)
        return True

    def _close(self, why: str) -> None:
        if not self.is_closed:
            self.is_closed, self.why = True, why
            asyncio.get_running_loop().call_soon(self.is_gone)

    def is_gone(self) -> None:
        """The instance notices that the connection is closed."""
        if self.session is not None and not self._instance.is_dead:
            self._instance.sessions.disconnected(self.session, self)

    def superseded(self) -> None:
        self._close("superseded")

    def timed_out(self) -> None:
        self._close("timed out")
        self.is_gone()

    def overrun(self, reason: str) -> None:
        self._close("overrun")

    def finished(self) -> None:
        self._close("finished")

    def ended(self) -> None:
        self._close("ended")

    def draining(self) -> None:
        self._close("draining")


class Client:
    """Says utterances, hears their ends, and goes on at any instance."""

    def __init__(self, world: World, *targets: str, acknowledges: bool = True) -> None:
        self.world = world
        self.targets = targets or ("en",)
        self.acknowledges = acknowledges
        self.token: str | None = None
        self.session_id = SessionId("")
        self.at: Instance | None = None
        self.session: Session | None = None
        self.link: Link | None = None
        self.said: list[Utterance] = []
        self.ends: list[End] = []
        self.repeated: list[End] = []
        self.others: list[SchedulerToClient] = []
        self.acks: list[SessionInitAck] = []

    @property
    def is_connected(self) -> bool:
        return self.link is not None and not self.link.is_closed

    async def connect(self, at: str) -> SessionInitAck:
        """Open the session, or go on with it, and say again what is not stored."""
        if self.link is not None and not self.link.is_closed:
            self.leave()
        instance = self.at = self.world[at]
        link = Link(self, instance)
        instance.links.append(link)
        self.link = link
        init = SessionInit(
            src_lang="zh",
            tgt_langs=self.targets,
            resume_token=self.token,
            last_delivery_seq=len(self.ends),
        )
        asked = len(self.acks)
        try:
            session = await instance.sessions.open(init, TENANT, link)
        except BaseException:
            link.is_closed = True
            raise
        self.session = link.session = session
        if link.is_closed:
            link.is_gone()
        if len(self.acks) == asked:
            raise errors.DependencyDown("The connection broke before there was an answer.")
        ack = self.acks[asked]
        self.token, self.session_id = ack.resume_token, ack.session_id
        for message in self.said[ack.next_utterance_index :]:
            self._send(message)
        return ack

    def leave(self, *, noticed: bool = True) -> None:
        """The connection breaks; the instance may not notice."""
        assert self.link is not None
        self.link.is_closed = True
        if noticed:
            self.link.is_gone()

    def say(self, text: str | None = None, **more: Any) -> None:
        index = len(self.said)
        message = Utterance(index, text=text or f"utterance {index}", **more)
        self.said.append(message)
        if self.is_connected:
            self._send(message)

    def speak(self, seq: int, payload: bytes, *, final: bool = True) -> None:
        assert self.session is not None
        chunk = AudioChunk(seq, final, payload)
        self.session.input.audio(chunk, self.world.clock.monotonic())

    def _send(self, message: Utterance) -> None:
        if self.session is None or not self.is_connected:
            return
        try:
            self.session.utterance(message, self.world.clock.monotonic())
        except errors.SessionClosed:
            return

    def hear(self, message: SchedulerToClient) -> None:
        if isinstance(message, SessionInitAck):
            self.acks.append(message)
        elif isinstance(message, TranslationResult | MissingResult):
            if message.delivery_seq <= len(self.ends):
                self.repeated.append(message)
                return
            self.ends.append(message)
            if self.acknowledges:
                asyncio.get_running_loop().call_soon(self.beat, len(self.ends))
        else:
            self.others.append(message)

    def beat(self, upto: int) -> None:
        if self.session is not None and self.is_connected:
            self.session.heartbeat(upto)

    async def until_ended(self, ends: int, seconds: float = 60) -> list[End]:
        await self.world.until(lambda: len(self.ends) >= ends, seconds)
        return self.ends

    def check(self, utterances: int) -> None:
        """Every utterance ended once for each target, in order, under ascending numbers."""
        numbers = [end.delivery_seq for end in self.ends]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        for target in self.targets:
            indexes = [end.utterance_index for end in self.ends if end.tgt_lang == target]
            assert indexes == list(range(utterances)), f"{target}: {indexes}"
        for again in self.repeated:
            first = self.ends[again.delivery_seq - 1]
            same = (again.utterance_index, again.tgt_lang)
            assert same == (first.utterance_index, first.tgt_lang), "a number changed its meaning"


async def opened(world: World, at: str, *targets: str, acknowledges: bool = True) -> Client:
    """A client with a session."""
    client = Client(world, *targets, acknowledges=acknowledges)
    await client.connect(at)
    return client


def play(
    story: Callable[[World], Awaitable[None]], *, seed: int = 1, names: str = "ab", **settings: Any
) -> None:
    async def main() -> None:
        world = World(seed, names, **settings)
        sweep = asyncio.create_task(world.sweep())
        await story(world)
        sweep.cancel()
        for instance in world.instances.values():
            for task in instance.tasks:
                task.cancel()

    run_virtual(main, seed=seed)
