"""The worker: takes items that were handed out, carries them out, keeps its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DragomanError, StoreError
from dragoman.lab.chain import Handler, chain
from dragoman.lab.failures import Failure, Revoked, failure_of, shortened
from dragoman.lab.model import Experiment, ItemKey, Run, RunId
from dragoman.lab.queue import ItemOffer, Queue
from dragoman.lab.repository import Lease, RunAtWork, items, runs
from dragoman.lab.states import WORKING
from dragoman.lab.worker.backlog import Backlog, Portion, RunShare
from dragoman.lab.worker.combiner import Combiner, Followers, Unstorable
from dragoman.lab.worker.execution import Allowance, ItemOutcome, TurnOutcome, carry_out
from dragoman.lab.worker.lease_journal import GIVEN_BACK, Handover, LeaseJournal
from dragoman.lab.worker.others import OtherWorkers
from dragoman.lab.worker.pacing import Pacer
from dragoman.lab.worker.taking import NextItems, TakenItem, run_and_experiment, take, take_next
from dragoman.lab.worker.terms import Terms
from dragoman.lab.worker.workplace import (
    FIRST_ROUNDS,
    MOST_AHEAD,
    PLACE_SECONDS,
    BenchOpener,
    InHand,
    OpenBench,
    Workplace,
    ahead_seconds,
)
from dragoman.observability import Metrics, get_logger
from dragoman.store import Store, StoreConnection
from dragoman.task_set import TaskSet

RENEWALS_IN_A_LEASE = 3
"""How often a lease is renewed before it would run out: two renewals may fail."""

LEAVE_SECONDS = 5.0
"""How long a worker that stops waits for calls that do not end when they are told to."""

TAKEN_AT_ONCE = 16
"""Items that a worker takes in one go of those that were not named to it: others want some, too."""

_TAKING = ("_hear_offers", "_take_offers", "_look_for_missed")
"""The loops that bring new work."""

MISSED_SECONDS = 0.05
"""Offered items that could not be taken are looked for again this much later."""

NEWS_SECONDS = 0.1
"""Results of items whose places are taken again are told to the scheduler this much later."""

_TROUBLE_PAUSE_SECONDS = 0.5


class Worker:
    """Carries out items of any run, many at once.

    What a worker is told is a hint. The database decides what it may do: there, every item
    it works on is leased to it; it writes nothing for an item that it no longer holds.
    """

    def __init__(
        self,
        store: Store,
        queue: Queue,
        open_bench: BenchOpener,
        terms: Terms,
        *,
        owner: str,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._queue = queue
        self._open_bench = open_bench
        self._terms = terms
        self._owner = owner
        self._clock = clock
        self._metrics = metrics
        self._log = get_logger(__name__, clock)
        self._others = OtherWorkers(store, owner)
        self._pacer = Pacer(store, owner, terms.lease_ms)
        self._combiner = Combiner(store, owner, clock, metrics, self, self._take_next)
        self._places: dict[RunId, Workplace] = {}
        self._backlog = Backlog()
        self._working = 0
        """Places of this worker that are taken, of all runs."""
        self._items_done = 0
        self._renewed_at = 0.0
        """When the leases were renewed last."""
        self._news_due: dict[RunId, asyncio.TimerHandle] = {}
        self._is_draining = False
        self._something_to_do = asyncio.Event()
        self._wants_more = asyncio.Event()
        self._wants_more.set()
        self._missed: dict[RunId, dict[ItemKey, None]] = {}
        """Named items that were to be taken and could not be."""
        self._missed_some = asyncio.Event()
        self._renewal_seconds = terms.lease_ms / 1000 / RENEWALS_IN_A_LEASE
        self._tick_seconds = min(terms.tick_seconds, self._renewal_seconds)
        self._handle: Handler[Portion] = chain([self._shield, self._check], self._execute)
        self._loops: list[asyncio.Task[None]] = []
        self._taking: asyncio.Future[Followers] | None = None
        self._leaving = TaskSet()
        self._giving_back = TaskSet()
        self._stopping = TaskSet()

    async def start(self) -> None:
        """Begin to take items."""
        for loop in (
            *(self._hear_offers, self._hear_stops, self._take_offers),
            *(self._renew_leases, self._look_around, self._look_for_missed),
        ):
            self._loops.append(asyncio.create_task(loop(), name=loop.__name__))

    async def stop(self) -> None:
        """Stop working and hand back unfinished items, so that others need not wait for a lease."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for timer in self._news_due.values():
            timer.cancel()
        self._is_draining = True
        held = [lease for place in self._places.values() for lease in place.held]
        held += await self._taken_in_vain()
        for run_id in list(self._places):
            self._leave(run_id)
        await self._stopping.wait(LEAVE_SECONDS)
        await self._leaving.wait(LEAVE_SECONDS)
        await self._combiner.close()
        await self._giving_back.wait(LEAVE_SECONDS)
        await self._unless_in_trouble(self._pacer.close())
        if held:
            await self._unless_in_trouble(self._give_back(held))

    async def drain(self) -> None:
        """Take nothing more, and wait until everything in progress is done.

        Leases are kept meanwhile, and runs that are stopped are left, so that it ends.
        """
        self._is_draining = True
        for loop in self._loops:
            if loop.get_name() in _TAKING:
                loop.cancel()
        await asyncio.gather(
            *(loop for loop in self._loops if loop.get_name() in _TAKING), return_exceptions=True
        )
        held = await self._taken_in_vain()
        self._taking = None
        held += [lease for place in self._places.values() for lease in place.take_ahead()]
        if held:
            await self._unless_in_trouble(self._give_back(held))
        while any(place.working for place in self._places.values()):
            self._something_to_do.clear()
            await self._something_to_do.wait()
        # What a write set aside that was on its way.
        await self._giving_back.wait(LEAVE_SECONDS)

    def doing(self) -> tuple[RunAtWork, ...]:
        """What is in progress, run by run."""
        return tuple(
            RunAtWork(
                run_id=run_id,
                experiment_id=place.run.experiment_id,
                tenant=place.run.tenant,
                items=len(begun_at_ms),
                since_ms=min(begun_at_ms),
            )
            for run_id, place in self._places.items()
            if (begun_at_ms := place.begun_at_ms)
        )

    @property
    def items_done(self) -> int:
        """Items that this worker carried out, well or not."""
        return self._items_done

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    async def _taken_in_vain(self) -> list[Lease]:
        """Items that were being taken when the worker stopped: leased, and not begun."""
        if self._taking is None:
            return []
        try:
            return [one.lease for some in await self._taking for one in some]
        except Exception:
            return []  # then they were not taken

    async def _give_back(self, held: Sequence[Lease]) -> None:
        await self._store.write(lambda c: items.give_back(c, self._owner, held))

    # --- hearing --------------------------------------------------------------------------------

    async def _hear_offers(self) -> None:
        """Hear offers; those that only one worker gets, when there is room, or an item ended.

        A busy worker hears of new runs, too: they share its places with those that it works on.
        """
        while True:
            if self._queue.gives_offers_once:
                await self._wants_more.wait()
            for offer in await self._queue.take_offers(self._items_to_ask_for):
                self._backlog.add(offer)
            self._wants_more.clear()
            self._something_to_do.set()

    @property
    def _items_to_ask_for(self) -> int:
        """Others want some of the first items of a run, too."""
        return 1 if self._others.are_there else self._terms.capacity - self._working

    async def _hear_stops(self) -> None:
        while True:
            for run_id in await self._queue.stops.take():
                place = self._places.get(run_id)
                if place is None:
                    self._backlog.forget(run_id)
                    continue
                place.is_ending = True  # from now on nothing of it begins
                self._stopping.spawn(self._unless_in_trouble(self._look_at_end(place)))

    async def _look_at_end(self, place: Workplace) -> None:
        """Leave a run that is over; of one that is being ended, what is served may finish."""
        run_id = place.run.run_id
        found = await self._store.read(lambda c: run_and_experiment(c, run_id))
        if self._places.get(run_id) is not place:
            return
        if found is None or not found[0].is_worked_on:
            self._leave(run_id)
        else:
            await self._leave_the_line(place)

    # --- taking and carrying out ----------------------------------------------------------------

    async def _take_offers(self) -> None:
        while True:
            await self._something_to_do.wait()
            self._something_to_do.clear()
            while True:
                await self._unless_in_trouble(self._learn_of_runs())
                in_work = {run_id: place.places for run_id, place in self._places.items()}
                offers = self._backlog.next_offers(self._terms.capacity - self._working, in_work)
                if not offers:
                    break
                for offer in offers:
                    await self._handle(offer)
            if self._working < self._terms.capacity:
                self._wants_more.set()

    async def _learn_of_runs(self) -> None:
        """Find out whose runs are offered; of those that are over nothing is taken."""
        for run_id in self._backlog.unknown_runs():
            found = await self._store.read(lambda c: run_and_experiment(c, run_id))  # noqa: B023
            if found is None or found[0].status not in WORKING:
                self._backlog.forget(run_id)
            else:
                self._backlog.set_share(run_id, self._share_of(found[1]))

    def _share_of(self, experiment: Experiment) -> RunShare:
        tenant_weight = self._terms.tenant_weights.get(experiment.tenant, 1.0)
        return RunShare(experiment.tenant, experiment.spec.weight, tenant_weight)

    async def _shield(self, offer: Portion, then: Handler[Portion]) -> None:
        """Keep errors with one offer from ending the worker: the offer can still be taken later."""
        try:
            await then(offer)
        except StoreError as error:
            self._log.warning_limited(
                "lab_take_failed", key=offer.run_id, every_seconds=10, reason=error.message
            )
            await asyncio.sleep(_TROUBLE_PAUSE_SECONDS)
        except Exception:
            self._log.exception("lab_take_failed", run_id=offer.run_id)
            await asyncio.sleep(_TROUBLE_PAUSE_SECONDS)

    async def _check(self, offer: Portion, then: Handler[Portion]) -> None:
        """Skip a run that has ended or is being ended."""
        if offer.run_id not in self._places:
            found = await self._store.read(lambda c: run_and_experiment(c, offer.run_id))
            if found is None or found[0].status not in WORKING:
                self._backlog.forget(offer.run_id)
                return
            self._places[offer.run_id] = Workplace(*found, await self._opened(*found))
            try:
                # Before its first call: the target's pace holds from the beginning.
                await self._pacer.settle(self._places)
            except BaseException:
                self._leave(offer.run_id)
                raise
        await then(offer)

    async def _opened(self, run: Run, experiment: Experiment) -> OpenBench | Failure:
        try:
            return await self._open_bench(experiment, run.mode)
        except StoreError:
            raise  # the database is away, and the target as good as before
        except DragomanError as error:
            # What cannot be opened fails every item, each with the reason.
            return Failure("TARGET_ERROR", failure_of(error).message)
        except Exception as error:  # a kind from another package may raise anything
            return Failure("TARGET_ERROR", shortened(f"{type(error).__name__}: {error}"))

    async def _execute(self, offer: Portion) -> None:
        """Lease the items, each for this worker alone, and set to work on them."""
        place = self._places.get(offer.run_id)
        if place is None or place.is_ending:
            return  # the run ended while its target's pace was asked for
        lease_ms = self._terms.lease_ms
        most = min(TAKEN_AT_ONCE, offer.most, self._terms.capacity - self._working)
        is_first = not place.knows_item_seconds and self._may_go_on(place)

        def take_some(connection: StoreConnection) -> Followers:
            taken = take(
                connection, place.experiment, place.run, offer.keys, most, self._owner, lease_ms
            )
            if not (taken and is_first):
                return taken, []
            # Nothing says yet how soon places become free, and the first write is a slow one.
            ahead = min(FIRST_ROUNDS * len(taken), MOST_AHEAD)
            next_ones = NextItems(place.run, place.experiment, places=0, ahead=ahead)
            return taken, self._take_next(connection, next_ones)

        self._taking = asyncio.ensure_future(self._store.write(take_some))
        taken, ahead = await asyncio.shield(self._taking)
        self._taking = None
        self._note_missed(offer, taken)
        if not offer.keys:
            self._backlog.took_fewer(offer, len(taken))
            if len(taken) == most:
                self._backlog.add(ItemOffer(offer.run_id, ()))  # there may be more
        if self._places.get(offer.run_id) is not place:
            return  # the run ended meanwhile, and with it these leases
        now = self._clock.monotonic()
        for number, one in enumerate(taken):
            if place.freed_at:
                self._metrics.lab_refill.observe(now - place.freed_at.popleft())
            self._working += 1
            place.places += 1
            # Not all at once, so that the run goes on meanwhile.
            self._begin(place, one, now + PLACE_SECONDS * (1 + number / len(taken)))
        place.set_aside(ahead, now)
        self._give_back_ahead(place)
        if place.has_no_share:
            await self._pacer.settle(self._places)  # the next tick may be far

    def _begin(self, place: Workplace, taken: TakenItem, place_until: float) -> InHand:
        one = InHand(
            asyncio.create_task(self._carry_out(place, taken)),
            self._clock.monotonic(),
            self._clock.now_ms(),
            place_until,
        )
        place.working[taken.lease] = one
        return one

    async def _carry_out(self, place: Workplace, taken: TakenItem) -> None:
        started = self._clock.monotonic()
        journal = LeaseJournal(
            self._combiner,
            place.run.tenant,
            taken.lease,
            place.evaluator_numbers,
            waits_for_outputs=len(taken.item.turns) > 1 or not place.scores_at_once,
            hand_over=lambda: self._hand_over(place, taken.lease),
        )
        try:
            try:
                await self._carry_out_under(journal, place, taken)
            except Unstorable as refused:
                self._log.warning("lab_item_refused", run_id=place.run.run_id, reason=str(refused))
                await journal.give_up(refused, taken.past.first_try, len(taken.item.turns))
            self._metrics.lab_item.observe(self._clock.monotonic() - started)
            self._items_done += 1
        except Revoked:
            self._log.info("lab_item_revoked", run_id=place.run.run_id)
            self._lose_place(place, taken.lease)
        except Exception:
            # The lease runs out, and a worker that can reach the database tries the item again.
            self._log.exception("lab_item_abandoned", run_id=place.run.run_id)
        finally:
            self._forget(place, taken.lease)

    def _forget(self, place: Workplace, lease: Lease) -> None:
        """Be done with an item, and give back its place if no other item has it."""
        one = place.working.pop(lease)
        if one.has_place or one.place_waits:
            self._free_place(place)
            one.handover = GIVEN_BACK
        if one.handover is GIVEN_BACK:
            self._queue.news.put(place.run.run_id)
        else:
            self._tell_soon(place.run.run_id)
        self._something_to_do.set()

    def _free_place(self, place: Workplace) -> None:
        """Let another run or worker have the place."""
        place.places -= 1
        self._working -= 1
        place.freed_at.append(self._clock.monotonic())
        self._wants_more.set()
        self._something_to_do.set()

    def _tell_soon(self, run_id: RunId) -> None:
        """Have the scheduler look at a run: there are results, and nothing that waits for it."""
        if run_id not in self._news_due:
            loop = asyncio.get_running_loop()
            self._news_due[run_id] = loop.call_later(NEWS_SECONDS, self._tell, run_id)

    def _tell(self, run_id: RunId) -> None:
        self._news_due.pop(run_id, None)
        self._queue.news.put(run_id)

    # --- from one item to the next ----------------------------------------------------------------

    def _hand_over(self, place: Workplace, lease: Lease) -> Handover:
        """Give an item's place to the next item of its run; its calls are over.

        Other runs that wait here have their turn first: then the place is given back, as it is
        after a while in any case.
        """
        one = place.working[lease]
        if not one.has_place:
            return one.handover
        one.has_place = False
        now = self._clock.monotonic()
        one.over_at = now
        place.note_item(now - one.begun_at)
        if self._is_due(one, now) or not self._may_go_on(place):
            self._free_place(place)
            self._give_back_ahead(place)
        elif not self._pass_on(place, one, now):
            one.handover = Handover(waits=True)
            one.place_waits = True
        if self._queue.gives_offers_once:
            self._wants_more.set()  # of other runs
        return one.handover

    def _pass_on(self, place: Workplace, one: InHand, now: float) -> bool:
        """Begin an item that was set aside in the place of this one, if there is any."""
        if not place.ahead or self._may_have_lost(place, now):
            return False
        successor = place.ahead.popleft()
        one.handover = Handover(successor.lease)
        self._metrics.lab_refill.observe(now - one.over_at)
        self._begin(place, successor, one.place_until).place_is_inherited = True
        return True

    def follow(self, lease: Lease) -> Lease | None:
        """Begin an item that was set aside since the place of this one waits for it."""
        place = self._places.get(lease.run_id)
        one = place.working.get(lease) if place is not None else None
        if place is None or one is None or not one.place_waits or not self._may_go_on(place):
            return None
        if not self._pass_on(place, one, self._clock.monotonic()):
            return None
        one.place_waits = False
        return one.handover.successor

    def _is_due(self, one: InHand, now: float) -> bool:
        """Whether a place is to go back, for a worker that has less to do."""
        if now < one.place_until:
            return False
        if one.place_until <= 0.0 or self._others.want_places_of(self._working):
            return True
        while one.place_until <= now:  # by whole spans: not all places at once
            one.place_until += PLACE_SECONDS
        return False

    def _may_go_on(self, place: Workplace) -> bool:
        """Whether places of the run may go from item to item."""
        run_id = place.run.run_id
        is_left = self._is_draining or self._places.get(run_id) is not place
        is_over = is_left or place.is_ending
        return not is_over and not self._backlog.has_of_another(run_id)

    def _may_have_lost(self, place: Workplace, now: float) -> bool:
        """Whether the leases of what was set aside may have run out, as after a pause."""
        return now - max(place.set_aside_at, self._renewed_at) > self._terms.lease_ms / 1000

    def _give_back_ahead(self, place: Workplace) -> None:
        """Hand back what was set aside when it is not going to begin here soon."""
        if place.ahead and not self._may_go_on(place):
            self._give_back_soon(place.take_ahead())

    def _give_back_soon(self, leases: Sequence[Lease]) -> None:
        if leases:
            self._giving_back.spawn(self._unless_in_trouble(self._give_back(leases)))

    def _lose_place(self, place: Workplace, lease: Lease) -> None:
        """Stop the item that took the place of one that was fenced off: the place went with it."""
        one = place.working.get(lease)
        while one is not None and one.handover.successor is not None:
            lease = one.handover.successor
            one = place.working.get(lease)
        if one is not None and one.has_place and one.place_is_inherited:
            place.revoke(lease)
            self._give_back_soon([lease])

    def _take_next(self, connection: StoreConnection, wanted: NextItems) -> list[TakenItem]:
        terms = self._terms
        return take_next(connection, wanted, self._owner, terms.lease_ms, terms.tenant_limits)

    def wanted(self, waiting: Sequence[Lease]) -> list[NextItems]:
        """What follows the items that end: for places that wait, and for those free soon."""
        waits = {lease.run_id for lease in waiting}
        soon_seconds = ahead_seconds(self._combiner.write_seconds)
        found = [
            NextItems(
                place.run,
                place.experiment,
                places=0,
                ahead=place.missing_ahead(soon_seconds) if self._may_go_on(place) else 0,
            )
            for place in self._places.values()
        ]
        return [one for one in found if one.ahead or one.run.run_id in waits]

    def took(
        self, waiting: Sequence[Lease], wanted: Sequence[NextItems], taken: Sequence[Followers]
    ) -> None:
        """Begin what was taken; places that got nothing are given back."""
        now = self._clock.monotonic()
        for asked, (begun, ahead) in zip(wanted, taken, strict=True):
            place = self._places.get(asked.run.run_id)
            vacant: list[InHand] = []
            if place is not None and not (self._is_draining or place.is_ending):
                ended = [place.working.get(lease) for lease in waiting]
                vacant = [one for one in ended if one is not None and one.place_waits]
                for one, follower in zip(vacant, begun, strict=False):
                    one.place_waits = False
                    self._metrics.lab_refill.observe(now - one.over_at)
                    self._begin(place, follower, one.place_until)
            self._give_back_soon([one.lease for one in begun[len(vacant) :]])
            if place is not None and self._may_go_on(place):
                place.set_aside(ahead, now)
            else:
                self._give_back_soon([one.lease for one in ahead])

    async def _carry_out_under(
        self, journal: LeaseJournal, place: Workplace, taken: TakenItem
    ) -> None:
        opened = place.opened
        if isinstance(opened, Failure):
            turns = (TurnOutcome(None, opened, {}),) * len(taken.item.turns)
            await journal.try_over(ItemOutcome(taken.past.first_try, turns), last=True)
        else:
            lease, bench = taken.lease, opened.bench
            allowance = Allowance(bench.limits.item_timeout_seconds, bench.clock)
            place.working[lease].allowance = allowance
            await carry_out(
                *(taken.item, taken.past, journal, bench, lease.repetition, lease.run_id),
                allowance=allowance,
            )

    # --- looking around -------------------------------------------------------------------------

    async def _renew_leases(self) -> None:
        """Renew in a task and on a connection of its own: it waits only for the database."""
        while True:
            await asyncio.sleep(self._renewal_seconds)
            await self._unless_in_trouble(self._keep_leases())

    async def _look_around(self) -> None:
        while True:
            await self._unless_in_trouble(self._others.look())
            await asyncio.sleep(self._tick_seconds)
            await self._unless_in_trouble(self._look_at_runs())
            await self._unless_in_trouble(self._pacer.settle(self._places))
            if not self._is_draining:
                await self._unless_in_trouble(self._look_for_work())

    def _note_missed(self, offer: Portion, taken: Sequence[TakenItem]) -> None:
        held = {one.lease.key for one in taken}
        missed = [key for key in offer.keys if key not in held]
        if missed:
            self._missed.setdefault(offer.run_id, {}).update(dict.fromkeys(missed))
            self._missed_some.set()

    async def _look_for_missed(self) -> None:
        """Look again for items that could not be taken.

        Mostly another worker has them. But a transaction that only passes by locks rows, too, in
        MariaDB above all: then no worker finds them, and no other hint comes for them.
        """
        while True:
            await self._missed_some.wait()
            await asyncio.sleep(MISSED_SECONDS)
            self._missed_some.clear()
            missed, self._missed = self._missed, {}
            await self._unless_in_trouble(self._offer_again(missed))

    async def _offer_again(self, missed: Mapping[RunId, Iterable[ItemKey]]) -> None:
        def untaken(connection: StoreConnection) -> list[ItemOffer]:
            return [
                ItemOffer(run_id, tuple(items.untaken(connection, run_id, tuple(keys))))
                for run_id, keys in missed.items()
            ]

        for offer in await self._store.read(untaken):
            if offer.keys:
                self._backlog.add(offer)
        self._something_to_do.set()

    async def _unless_in_trouble(self, look: Coroutine[Any, Any, None]) -> None:
        """Do something that is repeated anyway: a failure is only logged."""
        try:
            await look
        except StoreError as error:
            self._log.warning_limited(
                "lab_worker_cannot_look", key="", every_seconds=10, reason=error.message
            )
        except Exception:
            self._log.exception("lab_worker_cannot_look")

    async def _keep_leases(self) -> None:
        """Renew every lease, and stop working on items that this worker no longer holds."""
        held = [lease for place in self._places.values() for lease in place.held]
        if not held:
            return
        lease_ms = self._terms.lease_ms
        asked_at = self._clock.monotonic()
        kept = await self._store.write(
            lambda c: items.renew(c, self._owner, held, lease_ms), urgent=True
        )
        self._renewed_at = asked_at
        for lease in held:
            if lease not in kept and lease.run_id in self._places:
                self._places[lease.run_id].revoke(lease)

    async def _look_at_runs(self) -> None:
        """Take up changes of experiments that are worked on, and leave those that are over."""
        for run_id in list(self._places):
            found = await self._store.read(lambda c: run_and_experiment(c, run_id))  # noqa: B023
            if found is None or not found[0].is_worked_on:
                self._leave(run_id)
            elif run_id in self._places:
                place = self._places[run_id]
                place.take_up(found[1])
                if place.is_stale(self._clock.monotonic()):
                    await self._give_back(place.take_ahead())
                self._backlog.set_share(run_id, self._share_of(found[1]))
                if found[0].status not in WORKING or self._is_draining:
                    await self._leave_the_line(place)

    async def _leave_the_line(self, place: Workplace) -> None:
        """Give back items whose calls no node serves yet, of a run that is being ended here.

        Calls that are served are let finish, since they are paid for. Those that wait in line may
        wait for ever, and nothing is lost with them.
        """
        place.is_ending = True
        self._give_back_ahead(place)
        asked = [
            (lease, one, one.allowance.waits_in_line())
            for lease, one in place.working.items()
            if one.allowance is not None
        ]
        answers = await asyncio.gather(*(waits for _, _, waits in asked))
        waiting = [
            (lease, one) for (lease, one, _), waits in zip(asked, answers, strict=True) if waits
        ]
        for lease, _ in waiting:
            place.revoke(lease)
        await asyncio.gather(*(one.task for _, one in waiting), return_exceptions=True)
        if waiting:
            await self._give_back([lease for lease, _ in waiting])
            self._queue.news.put(place.run.run_id)

    async def _look_for_work(self) -> None:
        """Find offers that came without a hint."""
        room = self._terms.capacity - self._working
        if room <= 0:
            return
        known = list(self._places)

        def offered(connection: StoreConnection) -> list[ItemOffer]:
            run_ids = runs.working_runs(connection) if self._terms.any_run else []
            return [
                ItemOffer(run_id, tuple(items.offered(connection, run_id, room)))
                for run_id in dict.fromkeys([*known, *run_ids])
            ]

        for offer in await self._store.read(offered):
            if offer.keys:
                self._backlog.add(offer)
        self._something_to_do.set()

    def _leave(self, run_id: RunId) -> None:
        """Stop working on a run, without waiting for targets that are slow to stop."""
        self._backlog.forget(run_id)
        place = self._places.pop(run_id, None)
        if place is not None:
            self._leaving.spawn(self._unless_in_trouble(place.close()))
