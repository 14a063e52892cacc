"""Places of a worker are shared between tenants, then between runs, by weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import TenantId
from dragoman.lab.model import ItemId, ItemKey, RunId
from dragoman.lab.queue import ItemOffer
from dragoman.lab.worker.backlog import Backlog, RunShare
from dragoman.lab.worker.fair_share import RunClaim, share_out


def claim(run: str, tenant: str = "acme", **standing: float) -> RunClaim:
    return RunClaim(RunId(run), TenantId(tenant), **{"waiting": 100, **standing})  # type: ignore[arg-type]


def test_runs_of_equal_weight_get_equally_many_places() -> None:
    assert share_out(8, [claim("large", waiting=100_000), claim("small", waiting=100)]) == {
        "large": 4,
        "small": 4,
    }


def test_places_in_use_count_so_that_a_new_run_catches_up() -> None:
    assert share_out(4, [claim("old", in_work=4), claim("new")]) == {"new": 4}


def test_weights_divide_the_places() -> None:
    assert share_out(8, [claim("heavy", weight=3), claim("light")]) == {"heavy": 6, "light": 2}


def test_tenants_come_before_runs() -> None:
    crowd = [claim(f"r{n}", "crowd") for n in range(9)]
    places = share_out(20, [*crowd, claim("alone", "single")])
    assert places[RunId("alone")] == 10


def test_a_tenant_of_more_weight_gets_more_however_few_runs_it_has() -> None:
    crowd = [claim(f"r{n}", "crowd") for n in range(3)]
    places = share_out(12, [*crowd, claim("alone", "single", tenant_weight=3)])
    assert places == {"alone": 9, "r0": 1, "r1": 1, "r2": 1}


def test_a_run_that_cannot_use_its_share_leaves_it_to_others() -> None:
    assert share_out(10, [claim("narrow", waiting=2), claim("wide")]) == {"narrow": 2, "wide": 8}


def test_without_room_nothing_is_taken() -> None:
    assert share_out(0, [claim("r")]) == {}
    assert share_out(-3, [claim("r")]) == {}
    assert share_out(3, []) == {}


def test_with_one_place_the_runs_take_turns_by_weight() -> None:
    turns = Counter[str]()
    for _ in range(40):
        runs = [
            claim("heavy", weight=3, turns=turns["heavy"]),
            claim("light", turns=turns["light"]),
        ]
        turns.update(share_out(1, runs))
    assert turns == {"heavy": 30, "light": 10}


weights = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])


@st.composite
def claims(draw: st.DrawFn) -> list[RunClaim]:
    of_tenant = {name: draw(weights) for name in "abc"}
    made = []
    for number in range(draw(st.integers(1, 8))):
        tenant = draw(st.sampled_from("abc"))
        made.append(
            RunClaim(
                RunId(f"r{number}"),
                TenantId(tenant),
                waiting=draw(st.integers(0, 40)),
                in_work=draw(st.integers(0, 20)),
                weight=draw(weights),
                tenant_weight=of_tenant[tenant],
            )
        )
    return made


@given(st.integers(0, 60), claims())
def test_no_place_stays_empty_while_an_item_waits(room: int, asked: list[RunClaim]) -> None:
    places = share_out(room, asked)
    assert sum(places.values()) == min(room, sum(one.waiting for one in asked))
    assert all(places.get(one.run_id, 0) <= one.waiting for one in asked)


@given(st.integers(0, 60), claims())
def test_none_got_a_place_while_another_with_items_had_fewer_for_its_weight(
    room: int, asked: list[RunClaim]
) -> None:
    """The law of shares by weight, between tenants and between the runs of one."""
    places = share_out(room, asked)

    def law(groups: dict[str, list[RunClaim]], weight: Callable[[RunClaim], float]) -> None:
        got = {
            name: sum(places.get(one.run_id, 0) for one in ours) for name, ours in groups.items()
        }
        held = {name: got[name] + sum(one.in_work for one in ours) for name, ours in groups.items()}
        left = {name: sum(one.waiting for one in ours) - got[name] for name, ours in groups.items()}
        for name, ours in groups.items():
            before_last = (held[name] - 1) / weight(ours[0])
            for other, theirs in groups.items():
                if got[name] and left[other]:
                    assert before_last <= held[other] / weight(theirs[0])

    by_tenant: dict[str, list[RunClaim]] = {}
    for one in asked:
        by_tenant.setdefault(one.tenant, []).append(one)
    law(by_tenant, lambda one: one.tenant_weight)
    for ours in by_tenant.values():
        law({one.run_id: [one] for one in ours}, lambda one: one.weight)


# --- turns of two runs, counted on a clock of whole turns -----------------------------------------


class Turns:
    """A worker whose items all take as many turns as their run says."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._backlog = Backlog()
        self._left: dict[RunId, int] = {}
        self._window: dict[RunId, int] = {}
        self._takes: dict[RunId, int] = {}
        self._working: list[tuple[int, RunId]] = []
        self._number = 0

    def start(self, run: str, items: int, concurrency: int, takes: int = 1) -> None:
        run_id = RunId(run)
        self._backlog.set_share(run_id, RunShare(TenantId("acme")))
        self._left[run_id], self._window[run_id] = items, concurrency
        self._takes[run_id] = takes

    def until_ended(self, run: str) -> int:
        """How many turns of the clock pass until the run has ended."""
        run_id, now = RunId(run), 0
        while True:
            self._hand_out()
            in_work = Counter(one for _, one in self._working)
            room = self._capacity - len(self._working)
            for offer in self._backlog.next_offers(room, in_work):
                self._working += [(now + self._takes[offer.run_id], offer.run_id)] * len(offer.keys)
            now += 1
            self._working = [(end, one) for end, one in self._working if end > now]
            in_progress = any(one == run_id for _, one in self._working)
            if not self._left[run_id] and not in_progress and not self._waiting(run_id):
                return now

    def _hand_out(self) -> None:
        """As drivers do: no more items of a run at once than its concurrency."""
        for run_id, left in self._left.items():
            open_items = sum(one == run_id for _, one in self._working) + self._waiting(run_id)
            given = min(left, self._window[run_id] - open_items)
            keys = tuple(ItemKey(ItemId(f"{self._number + n}")) for n in range(given))
            self._number += given
            self._left[run_id] -= given
            if keys:
                self._backlog.add(ItemOffer(run_id, keys))

    def _waiting(self, run_id: RunId) -> int:
        return self._backlog.waiting(run_id)


def alone(capacity: int, concurrency: int) -> int:
    turns = Turns(capacity)
    turns.start("small", 100, concurrency)
    return turns.until_ended("small")


def test_a_small_run_beside_a_large_one_takes_twice_its_time_when_every_worker_is_busy() -> None:
    for capacity in (1, 2, 7, 8, 32):
        turns = Turns(capacity)
        turns.start("large", 100_000, 500)
        turns.start("small", 100, capacity)
        assert turns.until_ended("small") <= 2.2 * alone(capacity, capacity), capacity


def test_a_small_run_is_as_fast_as_alone_when_concurrency_is_to_spare() -> None:
    turns = Turns(64)
    turns.start("large", 100_000, 32)
    turns.start("small", 100, 8)
    assert turns.until_ended("small") <= 1.2 * alone(64, 8)


def test_slow_items_of_a_large_run_take_no_more_than_its_share_of_places() -> None:
    turns = Turns(8)
    turns.start("large", 100_000, 500, takes=20)
    turns.start("small", 100, 8)
    assert turns.until_ended("small") <= 2.2 * alone(8, 8)


def test_a_run_that_comes_late_gets_its_share_and_not_all_that_others_had_before() -> None:
    backlog = Backlog()
    backlog.set_share(RunId("old"), RunShare(TenantId("acme")))
    backlog.add(ItemOffer(RunId("old"), tuple(ItemKey(ItemId(f"o{n}")) for n in range(100))))
    for _ in range(50):
        backlog.next_offers(1, {})
    backlog.set_share(RunId("new"), RunShare(TenantId("acme")))
    backlog.add(ItemOffer(RunId("new"), tuple(ItemKey(ItemId(f"n{n}")) for n in range(100))))
    served = Counter(backlog.next_offers(1, {})[0].run_id for _ in range(20))
    assert served == {"old": 10, "new": 10}
