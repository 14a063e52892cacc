"""Keeps a mirror up to date with the database.

The database notes which items changed, in the transactions that change them. Once a second, or when
a reader asks, the changes are copied, written to the mirror, and crossed out: a crash at any point
leaves changes noted that the mirror has already, and they are copied once more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import msgspec

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.mirror.batches import Batch, Slots
from dragoman.lab.mirror.interface import Mirror, MirrorAway
from dragoman.lab.mirror.opening import open_mirror
from dragoman.lab.model import ExperimentId, ItemId
from dragoman.lab.repository import Held, Ousted, leases, mirroring
from dragoman.observability import Metrics, get_logger
from dragoman.store import Store, StoreConnection, Work

FLUSH_SECONDS = 1.0
FRESH_SECONDS = 5.0
"""How long a reader waits for the mirror to catch up; then the database answers."""
QUIET_ROUNDS = 5
"""After so many rounds without a change the mirror has time for itself."""
ITEMS_IN_A_BATCH = 2_000
KNOWN_EXPERIMENTS = 1_000
LAG_COUNTED = 10_000
"""Of how many experiments slots are kept and changes counted; others are found anew."""
LEASE_MS = 30_000
LEASE_NAME = "mirror"
ROWS_OF_A_HOLDER = 1 << 40
"""How many numbers of rows each holder of the lease has."""


Asked = ParamSpec("Asked")
Result = TypeVar("Result")


class Stamp(msgspec.Struct, frozen=True):
    """A state of what a mirror has of an experiment."""

    opened: int
    changes: int


class Following:
    """The mirror of a lab, kept up to date by one process at a time.

    ``await following.up_to_date(experiment_id)`` is the mirror, or None while it is away or behind.
    """

    def __init__(
        self, store: Store, url: str, *, owner: str, mirror_id: str, clock: Clock, metrics: Metrics
    ) -> None:
        """`mirror_id` names the copy that is made if a new one is needed."""
        self._store = store
        self._url = url
        self._owner = owner
        self._new_id = mirror_id
        self._metrics = metrics
        self._log = get_logger(__name__, clock)
        self._mirror: Mirror | None = None
        self._held: Held | None = None
        self._rows_numbered = 0
        self._flushes: tuple[int, ...] = ()
        """The number of the last flush, and of one that is being crossed out."""
        self._left_to_copy: int | None = None
        """Items that a copy of everything has not reached; None while there is no such copy."""
        self._opened = 0
        self._changes: Counter[ExperimentId] = Counter()
        """Counted when a write of an experiment begins and again when it ends: odd meanwhile."""
        self._slots: dict[ExperimentId, Slots] = {}
        self._ready = False
        self._rebuild_wanted = False
        self._quiet_rounds = 0
        self._kicked = asyncio.Event()
        self._waiting: list[asyncio.Future[bool]] = []
        self._working: set[asyncio.Future[Any]] = set()
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._follow(), name="the mirror")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        # What a thread has begun goes on without the task that waited for it.
        await asyncio.gather(*self._working, return_exceptions=True)
        self._answer_waiting(caught_up=False)
        await self._close()
        if self._held is not None:
            held, self._held = self._held, None
            with suppress(StoreError):  # else it runs out by itself
                await self._store.write(lambda c: leases.release(c, held))

    # --- what readers and operators ask -----------------------------------------------------------

    async def up_to_date(self, experiment_id: ExperimentId) -> Mirror | None:
        """The mirror with everything that the database had of the experiment when this was asked.

        None when that cannot be had soon; the database has the answers then.
        """
        if not self._ready:
            return None
        noted, behind = await self._store.read(
            lambda c: (mirroring.state(c), mirroring.is_behind(c, experiment_id))
        )
        if noted is None or noted.flush_no not in self._flushes:
            return None  # another process writes to the mirror now
        if behind and not await self._catch_up_soon():
            return None
        # It may have been lost since.
        return self._mirror

    def stamp(self, experiment_id: ExperimentId) -> Stamp | None:
        """Changes whenever something of the experiment is written to the mirror.

        Answers between two equal stamps are of the same state. None while it is written to.
        """
        changes = self._changes.get(experiment_id, 0)
        return None if changes % 2 else Stamp(self._opened, changes)

    @property
    def ready(self) -> bool:
        """Whether the mirror answers; while it does not, the database does."""
        return self._ready

    @property
    def known_experiments(self) -> int:
        """Of how many experiments something is kept in memory."""
        return max(len(self._changes), len(self._slots))

    def rebuild(self) -> None:
        """Throw the mirror away and copy everything anew, beginning now."""
        self._rebuild_wanted = True
        self._ready = False
        self._kicked.set()

    async def lag_rows(self) -> int:
        """Items whose last change the mirror does not have yet.

        This is asked every second, so above some number they are not counted further.
        """

        def count(connection: StoreConnection) -> int:
            if self._left_to_copy is not None:
                return self._left_to_copy
            if mirroring.state(connection) is None:  # no change is noted: there is no copy yet
                return mirroring.count_first_items(connection, LAG_COUNTED)
            return mirroring.count_changes(connection, LAG_COUNTED)

        return await self._store.read(count)

    async def _catch_up_soon(self) -> bool:
        waiting = self._ask()
        try:
            async with asyncio.timeout(FRESH_SECONDS):
                return await waiting
        except TimeoutError:
            return False

    def _ask(self) -> asyncio.Future[bool]:
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._kicked.set()
        return waiting

    def _answer_waiting(self, *, caught_up: bool, asked: int | None = None) -> None:
        answered, self._waiting = self._waiting[:asked], self._waiting[len(self._waiting[:asked]) :]
        for waiting in answered:
            if not waiting.done():
                waiting.set_result(caught_up)

    # --- following --------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            self._kicked.clear()
            # Those who ask from now on are answered by the next round.
            asked = len(self._waiting)
            caught_up = False
            try:
                caught_up = await self._catch_up()
            except (MirrorAway, StoreError) as error:
                self._log.warning_limited(
                    "lab_mirror_away", key="", every_seconds=60, reason=error.message
                )
                await self._lose()
            except Ousted:
                self._log.info("lab_mirror_taken_over")
                self._held = None
                await self._lose()
            except Exception:
                self._log.exception("lab_mirror_failed")
                await self._lose()
            self._answer_waiting(caught_up=caught_up, asked=asked)
            await self._measure()
            await self._kicked_within(FLUSH_SECONDS)

    async def _catch_up(self) -> bool:
        """Copy everything that changed; False when another process does that."""
        held = await self._lease()
        if held is None:
            return False
        if self._mirror is None:
            await self._in_thread(self._open)
        mirror = self._mirror
        assert mirror is not None, "it was opened"
        if not self._ready:
            if self._rebuild_wanted or not await self._is_ours(mirror):
                await self._copy_everything(mirror, held)
            self._ready = not self._rebuild_wanted
        self._quiet_rounds += 1
        while changes := await self._store.read(lambda c: mirroring.changes(c, ITEMS_IN_A_BATCH)):
            self._quiet_rounds = 0
            await self._flush(mirror, held, changes)
        await self._in_thread(mirror.tidy, quiet=self._quiet_rounds >= QUIET_ROUNDS)
        return True

    async def _lease(self) -> Held | None:
        held = self._held
        if held is not None:
            await self._store.write(lambda c: leases.renew(c, held, LEASE_MS))
            return held
        self._held = await self._store.write(
            lambda c: leases.take(c, LEASE_NAME, self._owner, LEASE_MS)
        )
        return self._held

    async def _is_ours(self, mirror: Mirror) -> bool:
        """Whether the mirror is the copy that the database's notes are about."""
        noted = await self._store.read(mirroring.state)
        found = await self._in_thread(mirror.identity)
        if noted is None or found is None or not found.complete:
            return False
        if found.mirror_id != noted.mirror_id:
            return False
        self._flushes = (noted.flush_no,)
        if found.flush_no == noted.flush_no:
            return True
        # A crash between the two writes of a flush leaves the mirror one ahead, and its changes
        # noted. Anything else is a database that was restored, or an old copy of the mirror.
        is_one_ahead = found.flush_no == noted.flush_no + 1
        return is_one_ahead and bool(await self._store.read(lambda c: mirroring.changes(c, 1)))

    async def _copy_everything(self, mirror: Mirror, held: Held) -> None:
        self._rebuild_wanted = False
        self._slots.clear()
        self._opened += 1
        self._changes.clear()
        self._flushes = (0,)
        self._left_to_copy = await self._store.read(mirroring.count_items)
        await self._in_thread(mirror.begin, self._new_id)
        await self._store.write(lambda c: mirroring.begin_following(c, held, self._new_id))
        flush_no, after = 0, ""
        while (found := await self._store.read(_next_experiment(after))) is not None:
            after, last = found, ""
            while items := await self._store.read(_next_items(found, last)):
                flush_no, last = flush_no + 1, items[-1]
                batch = Batch(flush_no, self._next_row_no(held))
                await self._add(mirror, batch, found, items)
                batch.items.clear()  # there is nothing to replace yet
                await self._write(mirror, held, batch, ())
                self._left_to_copy = max(0, self._left_to_copy - len(items))
                self._metrics.lab_mirror_lag.set(self._left_to_copy)
        await self._in_thread(mirror.set_complete)
        self._left_to_copy = None
        self._log.info("lab_mirror_copied", batches=flush_no)

    async def _flush(
        self, mirror: Mirror, held: Held, changes: Sequence[mirroring.MirrorChange]
    ) -> None:
        """Write some changes to the mirror, then cross them out."""
        noted = await self._store.read(mirroring.state)
        if noted is None:
            self._ready = False
            raise MirrorAway("Another process made this database forget its mirror.")
        batch = Batch(noted.flush_no + 1, self._next_row_no(held))
        by_experiment: dict[ExperimentId, list[ItemId]] = {}
        for change in changes:
            by_experiment.setdefault(change.experiment_id, []).append(change.item_id)
        for experiment_id, item_ids in by_experiment.items():
            await self._add(mirror, batch, experiment_id, [one for one in item_ids if one])
        await self._write(mirror, held, batch, changes)

    def _next_row_no(self, held: Held) -> int:
        """Above all that were given out, also by a holder of the lease that was killed.

        A batch that a crash cut short may be partly written. What is copied next has other rows.
        """
        return held.token * ROWS_OF_A_HOLDER + self._rows_numbered

    async def _write(
        self, mirror: Mirror, held: Held, batch: Batch, changes: Sequence[mirroring.MirrorChange]
    ) -> None:
        self._rows_numbered += len(batch.turns)
        written = {*batch.items, *batch.deleted}
        self._changes.update(written)
        await self._in_thread(mirror.apply, batch)
        self._changes.update(written)
        self._flushes = (batch.flush_no - 1, batch.flush_no)
        for experiment_id in batch.slots:
            self._slots[experiment_id].settled()

        def cross_out(connection: StoreConnection) -> None:
            leases.renew(connection, held, LEASE_MS)
            mirroring.cross_out(connection, held, changes, batch.flush_no)

        await self._store.write(cross_out)
        self._forget_some()
        await self._in_thread(mirror.tidy, quiet=False)

    def _forget_some(self) -> None:
        """Keep what is known of experiments bounded; nothing is being written meanwhile."""
        if len(self._changes) > KNOWN_EXPERIMENTS:
            # A count that begins again must not look like an earlier state.
            self._opened += 1
            self._changes.clear()
        while len(self._slots) > KNOWN_EXPERIMENTS:
            del self._slots[next(iter(self._slots))]

    async def _add(
        self,
        mirror: Mirror,
        batch: Batch,
        experiment_id: ExperimentId,
        item_ids: list[ItemId],
    ) -> None:
        copied = await self._store.read(
            lambda c: mirroring.turns_of_items(c, experiment_id, item_ids)
        )
        if copied is None:
            self._slots.pop(experiment_id, None)
            batch.deleted.append(experiment_id)
            return
        slots = self._slots.get(experiment_id)
        if slots is None:
            slots = await self._in_thread(mirror.slots, experiment_id)
            self._slots[experiment_id] = slots
        await self._in_thread(batch.add, copied, item_ids, slots)

    async def _in_thread(
        self, function: Callable[Asked, Result], *args: Asked.args, **kwargs: Asked.kwargs
    ) -> Result:
        """Call a function that may take long."""
        working = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        return await asyncio.shield(working)

    def _open(self) -> None:
        # Kept by the thread itself: a stop that does not wait for the answer must close it.
        self._mirror = open_mirror(self._url)

    async def _lose(self) -> None:
        """Begin again with the next round: the mirror may be another one then."""
        self._ready = False
        self._slots.clear()
        # What was being written may or may not be there.
        self._opened += 1
        self._changes.clear()
        await self._close()

    async def _close(self) -> None:
        mirror, self._mirror = self._mirror, None
        if mirror is not None:
            await self._in_thread(mirror.close)

    async def _measure(self) -> None:
        try:
            lag = await self.lag_rows()
        except StoreError:
            return
        self._metrics.lab_mirror_lag.set(lag)

    async def _kicked_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._kicked.wait()
        except TimeoutError:
            pass


async def forget_mirror(store: Store, owner: str) -> None:
    """A lab without a mirror: the database need note no changes, unless another lab has one."""

    def forget(connection: StoreConnection) -> None:
        if mirroring.state(connection) is None:
            return
        held = leases.take(connection, LEASE_NAME, owner, LEASE_MS)
        if held is not None:
            mirroring.stop_following(connection)
            leases.release(connection, held)

    await store.write(forget)


def _next_experiment(after: str) -> Work[ExperimentId | None]:
    return lambda connection: mirroring.next_experiment(connection, after)


def _next_items(experiment_id: ExperimentId, after: str) -> Work[list[ItemId]]:
    return lambda connection: mirroring.next_items(
        connection, experiment_id, after, ITEMS_IN_A_BATCH
    )
