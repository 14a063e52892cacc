"""Instances that drive jobs over a shared ledger, and what can go wrong for them.

Not the scheduler: only its protocol with the ledger, in few words. An instance opens a job and asks
for a slot at the same time, tells the node when it has both, ends the job with the result, and
sweeps after others. Any operation may be lost on its way, carried out late, or its answer lost; any
instance may be killed before or after any operation.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.contract.shared.bench import (
    ACK_MS,
    CANCELLED,
    CLAIM_MS,
    DUE_MS,
    GRACE_MS,
    KEEP,
    LEASE_MS,
    RUN_MS,
    TOMBSTONE_MS,
    Bench,
    failure,
    success,
)

from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, new_attempt_id, new_id, shard_in
from dragoman.live.ledger import (
    Adoption,
    Beat,
    Done,
    Ending,
    Heartbeat,
    NodeRegistered,
    Owner,
    Placed,
    Placement,
    Registration,
    Sender,
    Strategy,
    Times,
)
from dragoman.live.protocol import AttemptState, JobClass, Outcome, RunningJob
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r

CLAIM_SECONDS = CLAIM_MS / 1000
ACK_SECONDS = ACK_MS / 1000
CANCELLING, FINISHED = AttemptState.CANCELLING, AttemptState.FINISHED
REQUESTS = 150


class Killed(Exception):
    """The instance that asked is no more."""


@dataclass
class Worker:
    """A node: what it runs, and the connection that it is reached through."""

    node_id: NodeId
    slots: int
    running: dict[AttemptId, JobId] = field(default_factory=dict)
    done: set[AttemptId] = field(default_factory=set)
    """What it has ended, and its instance has not yet brought to the ledger; listed until then."""
    most: int = 0
    """How many attempts it ever worked on at the same time."""
    connecting: bool = False
    """It has one connection at a time."""
    host: Instance | None = None
    owner: Owner | None = None
    cell: int = 0
    index: int = 0
    said: int = 0
    """How many things it has said."""

    def say(self) -> int:
        """The number of what it says next."""
        self.said += 1
        return self.said

    @property
    def sender(self) -> Sender:
        assert self.owner is not None
        return Sender(self.node_id, self.owner.epoch)

    @property
    def listing(self) -> tuple[RunningJob, ...]:
        return tuple(RunningJob(job_id, name) for name, job_id in self.running.items())

    def assign(self, granted: r.Granted, attempt_id: AttemptId, job_id: JobId) -> None:
        """Take a job, if it was granted under the connection that there is."""
        if self.host is not None and self.owner == granted.owner:
            self.running[attempt_id] = job_id
            self.most = max(self.most, len(self.running.keys() - self.done))

    def stop(self, attempt_id: AttemptId) -> None:
        self.running.pop(attempt_id, None)
        self.done.discard(attempt_id)


@dataclass
class Drive:
    """A job that an instance drives."""

    new: r.NewJob
    attempt_id: AttemptId
    cell: int
    opened: bool
    claimed_at: float
    """When the last open, move or renewal that was confirmed was first sent."""
    asked_at: float | None = None
    """When a slot was first asked for."""
    granted: r.Granted | None = None
    told: bool = False
    ending: Ending | None = None


class World:
    """The ledger behind bad lines, the nodes, and the time."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.random = Random(seed)
        self.now = 0.0
        self.faults = True
        self.late: list[Callable[[], Awaitable[object]]] = []
        self.ends: Counter[JobId] = Counter()
        self.names: set[JobId] = set()
        self.workers = [Worker(NodeId(f"n-{number}"), 1 + number % 2) for number in range(4)]
        self.instances = [Instance(self) for _ in range(3)]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    async def carry_out(self, name: str, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
        answer = await getattr(self.ledger, name)(*args, **more)
        if isinstance(answer, r.Closed):
            self.ends[args[0].job_id] += 1
        return answer

    async def run(self, rounds: int) -> None:
        for _ in range(rounds):
            await self.turn()
        self.faults = False
        while self.late:
            await self.late.pop()()
        for _ in range(120):
            await self.turn()

    async def turn(self) -> None:
        """Each instance takes its turn, or goes on with an earlier one in which it was stopped."""
        await asyncio.gather(*(instance.work() for instance in self.instances))
        for position, instance in enumerate(self.instances):
            if instance.dead:
                instance.end()
                self.instances[position] = Instance(self)
        for worker in self.workers:
            if worker.host is not None and worker.host.dead:
                worker.host = None
            worker.done |= {name for name in worker.running if self.chance(0.4)}
        for position in range(len(self.late) - 1, -1, -1):
            if self.chance(0.2):
                await self.late.pop(position)()
        seconds = self.random.choice((0, 1, 1, 2)) if self.faults else 1
        self.now += seconds
        self.bench.advance(seconds)

    def new_instance_id(self) -> InstanceId:
        return InstanceId(new_id(self.random, "i"))


class Line:
    """One instance's way to the ledger."""

    def __init__(self, world: World, instance: Instance) -> None:
        self._world = world
        self._instance = instance

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*args: Any, **more: Any) -> Any:
            return await self._call(name, args, more)

        return call

    async def _call(self, name: str, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
        world = self._world
        for _ in range(world.random.randint(0, 3)):
            await asyncio.sleep(0)
        await self._maybe_stop(0.005)
        fate = world.random.random() if world.faults else 1.0
        if fate < 0.04:
            raise DependencyDown("lost on its way")
        if fate < 0.08:
            world.late.append(lambda: world.carry_out(name, args, more))
            raise DependencyDown("late")
        answer = await world.carry_out(name, args, more)
        # The worst moment: a slot is held, and its node is told much later, or so it seems.
        await self._maybe_stop(0.05 if name == "reserve" else 0.005)
        if fate < 0.12:
            raise DependencyDown("answer lost")
        return answer

    async def _maybe_stop(self, share: float) -> None:
        """The instance is killed, or its process stands still for a while."""
        world, instance = self._world, self._instance
        if world.faults and world.chance(0.002):
            instance.dead = True
        if world.faults and world.chance(share):
            instance.stopped_until = world.now + world.random.randint(2, 30)
        if instance.stopped_until > world.now:
            await instance.stop()
        if instance.dead:
            raise Killed


class Instance:
    """A scheduler, as far as the ledger sees it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.name = world.new_instance_id()
        self.dead = False
        self.stopped_until = 0.0
        self._turn: asyncio.Task[None] | None = None
        self._pauses = asyncio.Event()
        """Its turn is over, or it stands still."""
        self._goes_on = asyncio.Event()
        self.ledger: SharedLedger = Line(world, self)
        self.drives: dict[JobId, Drive] = {}

    async def work(self) -> None:
        """Take a turn, or go on with one, until it is over or the process stands still."""
        if self.stopped_until > self.world.now:
            return
        self._pauses.clear()
        self._goes_on.set()
        if self._turn is None or self._turn.done():
            self._turn = asyncio.create_task(self.turn())
            self._turn.add_done_callback(lambda _: self._pauses.set())
        await self._pauses.wait()
        if self._turn.done():
            self._turn.result()

    def end(self) -> None:
        """Nothing that it had begun goes on."""
        if self._turn is not None:
            self._turn.cancel()

    async def stop(self) -> None:
        """Stand still until the world lets the process go on."""
        self._goes_on.clear()
        self._pauses.set()
        await self._goes_on.wait()

    async def turn(self) -> None:
        steps = [self.host_nodes, self.submit, self.drive_all, self.renew, self.sweep]
        for step in steps:
            try:
                await step()
            except Killed:
                return
            except DependencyDown:
                continue  # What was not done is done in a later turn.

    # --- driving --------------------------------------------------------------------------------

    async def submit(self) -> None:
        world = self.world
        if not world.faults or world.chance(0.2):
            return
        new = world.bench.new_job(f"r-{world.random.randrange(REQUESTS)}")
        world.names.add(new.job_id)
        cell = self.some_cell()
        self.drives[new.job_id] = Drive(new, new.attempt_id, cell, False, world.now)

    def some_cell(self) -> int:
        return self.world.random.choice(self.world.workers).cell

    async def drive_all(self) -> None:
        for drive in list(self.drives.values()):
            try:
                await self.drive(drive)
            except DependencyDown:
                continue

    async def drive(self, drive: Drive) -> None:
        if drive.ending is not None:
            await self.close(drive, drive.ending)
        elif not drive.told and (not drive.opened or drive.granted is None):
            # Never for a job that was taken over while its node worked: the node, told again just
            # after its result has freed the slot, would work without one.
            results = await asyncio.gather(
                self.open(drive), self.reserve(drive), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            self.tell(drive)
        elif not drive.told:
            self.tell(drive)
            if self.slot_may_be_gone(drive) and drive in self.untold():
                await self.start_anew(drive)
        elif self.world.chance(0.3):
            await self.look_after(drive)

    async def open(self, drive: Drive) -> None:
        if drive.opened:
            return
        opening = self.world.bench.opening(drive.new, instance_id=self.name)
        answer = await self.ledger.open(opening)
        assert isinstance(answer, r.Opened)
        found = answer.jobs[0]
        if isinstance(found, r.JobFound) and (
            found.job.job_id != drive.new.job_id
            or found.job.outcome is not None
            or (found.job.instance_id, found.job.attempt_id) != (self.name, drive.attempt_id)
        ):
            await self.let_go(drive)
        drive.opened = True

    async def reserve(self, drive: Drive) -> None:
        if drive.granted is not None:
            return
        world = self.world
        seats = [worker for worker in world.workers if worker.cell == drive.cell]
        ask = r.SlotAsk(
            cell=drive.cell,
            candidates=sum({1 << worker.index for worker in seats}),
            attempt_id=drive.attempt_id,
            job_id=drive.new.job_id,
            job_class=JobClass.LIVE,
            instance_id=self.name,
            strategy=world.random.choice(list(Strategy)),
            headroom=0.0,
            ack_ms=ACK_MS,
            lease_ms=LEASE_MS,
            run_ms=RUN_MS,
        )
        if drive.asked_at is None:
            drive.asked_at = world.now
        answer = await self.ledger.reserve(ask)
        if isinstance(answer, r.Granted):
            drive.granted = answer
        elif isinstance(answer, r.Gone):
            await self.move_on(drive.new, drive.attempt_id)
        else:
            drive.asked_at = None  # No slot is held that could run out.

    def tell(self, drive: Drive) -> None:
        """Tell the node, while neither the claim nor the slot can have run out."""
        world = self.world
        if drive.new.job_id not in self.drives or self.drives[drive.new.job_id] is not drive:
            return
        if not drive.opened or drive.granted is None:
            return
        if world.now - drive.claimed_at >= CLAIM_SECONDS:
            return
        if self.slot_may_be_gone(drive):
            return
        drive.told = True
        worker = next(one for one in world.workers if one.node_id == drive.granted.node_id)
        if not (world.faults and world.chance(0.05)):
            worker.assign(drive.granted, drive.attempt_id, drive.new.job_id)

    def untold(self) -> list[Drive]:
        """Jobs whose nodes do not know of them yet."""
        return [drive for drive in self.drives.values() if not drive.told]

    def slot_may_be_gone(self, drive: Drive) -> bool:
        """A sweep may take a slot back whose node has not acknowledged in time."""
        return drive.asked_at is None or self.world.now - drive.asked_at >= ACK_SECONDS

    async def start_anew(self, drive: Drive) -> None:
        """The slot was held too long without the node: give it back, and go on elsewhere."""
        await self.ledger.drop(drive.cell, drive.attempt_id, tombstone_ms=TOMBSTONE_MS)
        await self.move_on(drive.new, drive.attempt_id)

    async def look_after(self, drive: Drive) -> None:
        """The driver looks at an attempt that it has not heard of for a while."""
        found = await self.ledger.look(drive.cell, drive.attempt_id, tombstone_ms=TOMBSTONE_MS)
        if isinstance(found, r.Tombstone) or found.state is CANCELLING:
            await self.move_on(drive.new, drive.attempt_id)
        elif found.state is FINISHED:
            await self.take_end(found)

    async def let_go(self, drive: Drive) -> None:
        """The job is another's: what is held for this attempt, and untold, is given back."""
        if not drive.told:
            await self.ledger.drop(drive.cell, drive.attempt_id, tombstone_ms=TOMBSTONE_MS)
        self.drives.pop(drive.new.job_id, None)

    async def move_on(self, new: r.NewJob, seen: AttemptId) -> None:
        """Another attempt in another cell, and this instance drives it."""
        self.drives.pop(new.job_id, None)
        attempt_id, cell = new_attempt_id(self.world.random), self.some_cell()
        sent = self.world.now
        move = r.Move(new.job_id, seen, attempt_id, cell, self.name, CLAIM_MS)
        answer = await self.ledger.move(move)
        if isinstance(answer, r.MovedOn):
            self.drives[new.job_id] = Drive(new, attempt_id, cell, True, sent)

    async def close(self, drive: Drive, ending: Ending) -> None:
        drive.ending = ending
        await self.ledger.close(self.closing(drive.new.job_id, drive.attempt_id, ending))
        if self.drives.get(drive.new.job_id) is drive:
            del self.drives[drive.new.job_id]

    def closing(self, job_id: JobId, attempt_id: AttemptId | None, ending: Ending) -> r.Closing:
        return r.Closing(job_id, attempt_id, ending, Times(), None, KEEP)

    async def renew(self) -> None:
        opened = [drive for drive in self.drives.values() if drive.opened]
        by_shard: dict[int | None, list[Drive]] = {}
        for drive in opened:
            by_shard.setdefault(shard_in(drive.new.job_id), []).append(drive)
        for drives in by_shard.values():
            names = [drive.new.job_id for drive in drives]
            sent = self.world.now
            lost = await self.ledger.renew(names, self.name, claim_ms=CLAIM_MS)
            for drive in drives:
                if drive.new.job_id not in lost:
                    drive.claimed_at = sent
                elif self.drives.get(drive.new.job_id) is drive:
                    await self.let_go(drive)

    # --- nodes ----------------------------------------------------------------------------------

    async def host_nodes(self) -> None:
        for worker in self.world.workers:
            if worker.host is None and not worker.connecting:
                worker.connecting = True
                try:
                    await self.connect(worker)
                finally:
                    worker.connecting = False
            if worker.host is self:
                await self.hear(worker)

    async def connect(self, worker: Worker) -> None:
        connection_id = self.world.bench.connection_id()
        registered = await self.ledger.register(
            Registration(worker.node_id, self.name, connection_id)
        )
        assert isinstance(registered, NodeRegistered)
        placed = await self.ledger.seat(
            registered.cell,
            Placement(worker.node_id, registered.owner, worker.slots, LEASE_MS, worker.listing),
        )
        if not isinstance(placed, Placed):
            return
        worker.host, worker.owner = self, registered.owner
        worker.cell, worker.index = registered.cell, placed.index
        await self.compare(worker, placed.cancelling, placed.unknown)

    async def hear(self, worker: Worker) -> None:
        """The node's steps, its results, and its heartbeat."""
        sender, listing, number = worker.sender, worker.listing, worker.say()
        steps = [
            r.AttemptStep(
                one.attempt_id, sender.node_id, sender.epoch, AttemptState.RUNNING, number
            )
            for one in listing
        ]
        await self.ledger.step(worker.cell, steps)
        for attempt_id in list(worker.done):
            await self.take_result(worker, attempt_id)
        heartbeat = Heartbeat(worker.node_id, sender.epoch, LEASE_MS, worker.listing, worker.say())
        beat = await self.ledger.beat(worker.cell, heartbeat)
        if isinstance(beat, Beat):
            await self.compare(worker, beat.cancelling, beat.unknown)
        elif worker.host is self:
            worker.host = None

    async def take_result(self, worker: Worker, attempt_id: AttemptId) -> None:
        """A result: end the job beside the slot where it is this instance's, else keep it."""
        job_id = worker.running[attempt_id]
        drive = self.drives.get(job_id)
        ending = success(job_id, attempt_id)
        ours = drive is not None and drive.attempt_id == attempt_id
        finish = r.Finish(Outcome.SUCCESS, None if ours else ending.output, due_ms=DUE_MS)
        asked: list[Coroutine[Any, Any, object]] = [
            self.ledger.finish(worker.cell, attempt_id, worker.sender, finish)
        ]
        if ours and drive is not None:
            asked.append(self.close(drive, ending))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        if not isinstance(answers[0], BaseException):
            worker.stop(attempt_id)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def compare(
        self,
        worker: Worker,
        cancelling: tuple[RunningJob, ...],
        unknown: tuple[RunningJob, ...],
    ) -> None:
        for one in cancelling:
            worker.stop(one.attempt_id)
        for one in unknown:
            job = await self.ledger.read(one.job_id)
            wanted = job is not None and job.outcome is None and job.attempt_id == one.attempt_id
            adoption = Adoption(
                one,
                worker.sender,
                JobClass.LIVE,
                wanted,
                LEASE_MS,
                RUN_MS,
                number=worker.said,
                instance_id=job.instance_id if job is not None else InstanceId(""),
            )
            answer = await self.ledger.adopt(worker.cell, adoption)
            if wanted and answer != Done():
                worker.stop(one.attempt_id)

    # --- sweeping -------------------------------------------------------------------------------

    async def sweep(self) -> None:
        shards = {shard_in(job_id) for job_id in self.world.names}
        for shard in sorted(one for one in shards if one is not None):
            if self.world.chance(0.3):
                for job in await self.ledger.due((shard,), 10):
                    await self.settle_job(job)
        for cell in {worker.cell for worker in self.world.workers}:
            for attempt in await self.ledger.due_attempts(cell, 10):
                await self.settle_attempt(attempt)

    async def settle_job(self, job: r.StoredJob) -> None:
        if job.job_id in self.drives:
            return
        work = await self.ledger.read_open(job.job_id)
        if work is None:
            return
        new = self.world.bench.new_job(job.spec.request_id)
        new = r.NewJob(
            job.job_id,
            job.spec,
            work.input,
            job.body_hash,
            new.target_key,
            job.attempt_id,
            job.cell,
            None,
        )
        found = await self.ledger.look(job.cell, job.attempt_id, tombstone_ms=TOMBSTONE_MS)
        if isinstance(found, r.Tombstone) or found.state is CANCELLING:
            await self.move_on(new, job.attempt_id)
        elif found.state is FINISHED:
            await self.take_end(found)
        else:
            sent = self.world.now
            taken = await self.ledger.take_over(
                job.job_id, job.attempt_id, self.name, claim_ms=CLAIM_MS
            )
            if isinstance(taken, r.TakenOver):
                self.drives[job.job_id] = Drive(
                    new, job.attempt_id, job.cell, True, sent, told=True
                )

    async def settle_attempt(self, attempt: r.StoredAttempt) -> None:
        if attempt.state is FINISHED:
            await self.take_end(attempt)
        elif attempt.state is CANCELLING:
            await self.ledger.mark_asked(attempt.cell, attempt.attempt_id, grace_ms=GRACE_MS)
        else:
            await self.ledger.cancel(attempt.cell, attempt.attempt_id, CANCELLED, grace_ms=GRACE_MS)

    async def take_end(self, attempt: r.StoredAttempt) -> None:
        """Bring an end that a cell kept to its job, then let the cell forget it."""
        job_id, attempt_id = attempt.job_id, attempt.attempt_id
        if attempt.outcome is Outcome.SUCCESS:
            ending = Ending(Outcome.SUCCESS, output=attempt.output)
            await self.ledger.close(self.closing(job_id, attempt_id, ending))
            self.drives.pop(job_id, None)
        else:
            work = await self.ledger.read_open(job_id)
            if work is not None and work.job.attempt_id == attempt_id:
                ending = failure()
                await self.ledger.close(self.closing(job_id, attempt_id, ending))
                self.drives.pop(job_id, None)
        await self.ledger.settle(attempt.cell, [attempt_id])
