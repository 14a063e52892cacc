"""The waiting room's laws: in order within a tenant, tenants in turn, bounded for each pair."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import JobId, NodeId, TenantId
from dragoman.live.dispatch.job import Demand
from dragoman.live.dispatch.pending import WaitingRoom
from dragoman.live.protocol import Pipeline
from dragoman.live.snapshot import JobRequirement, PoolRule

TEXT = Pipeline(use_nmt=True)
DEMANDS: list[Demand] = [
    (JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), TEXT, ()), None, None),
    (JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), Pipeline(use_asr=True), ()), None, None),
    (JobRequirement(PoolRule.ASR_TTS, (("en", "zh"),), TEXT, ()), None, None),
]


@dataclass(frozen=True)
class Person:
    """A job in line."""

    job_id: JobId
    tenant: TenantId
    demand: Demand


def person(number: int, tenant: str = "t", demand: Demand = DEMANDS[0]) -> Person:
    return Person(JobId(f"j{number}"), TenantId(tenant), demand)


def serve_all(room: WaitingRoom[Person], *, without: tuple[Demand, ...] = ()) -> list[Person]:
    served = []
    while (head := next(room.line(without), None)) is not None:
        room.served(head)
        served.append(head)
    return served


people = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(DEMANDS)), max_size=30).map(
    lambda drawn: [person(n, tenant, demand) for n, (tenant, demand) in enumerate(drawn)]
)


@given(people)
def test_a_tenant_s_jobs_of_a_pair_are_served_in_the_order_they_came(line: list[Person]) -> None:
    room = WaitingRoom[Person](None)
    for one in line:
        room.join(one)
    served = serve_all(room)
    assert len(room) == 0
    for tenant in "abc":
        for pair in (("zh", "en"), ("en", "zh")):

            def of(those: list[Person]) -> list[Person]:
                return [p for p in those if p.tenant == tenant and p.demand[0].pair == pair]  # noqa: B023

            assert of(served) == of(line)


@given(people)
def test_no_tenant_is_served_twice_while_another_waits_for_the_same(line: list[Person]) -> None:
    room = WaitingRoom[Person](None)
    for one in line:
        room.join(one)
    served = serve_all(room)
    for pair in (("zh", "en"), ("en", "zh")):
        turns = [one.tenant for one in served if one.demand[0].pair == pair]
        for turn, (tenant, following) in enumerate(pairwise(turns)):
            alone = set(turns[turn + 1 :]) == {tenant}
            assert tenant != following or alone


@given(people)
def test_the_line_shows_everybody_in_the_order_in_which_they_will_be_served(
    line: list[Person],
) -> None:
    room = WaitingRoom[Person](None)
    for one in line:
        room.join(one)
    foreseen = list(room.line())
    assert foreseen == serve_all(room)


def test_a_demand_that_cannot_be_met_does_not_hold_up_the_others() -> None:
    room = WaitingRoom[Person](None)
    blocked, free = person(1), person(2, demand=DEMANDS[1])
    room.join(blocked)
    room.join(free)
    assert next(room.line()) is blocked
    assert serve_all(room, without=(DEMANDS[0],)) == [free]
    assert next(room.line()) is blocked


def test_a_job_that_names_a_node_waits_in_a_demand_of_its_own() -> None:
    room = WaitingRoom[Person](None)
    named = person(2, demand=(DEMANDS[0][0], NodeId("mine"), TenantId("t")))
    room.join(person(1))
    room.join(named)
    assert next(room.line({DEMANDS[0]})) is named


def test_each_pair_has_its_share_of_the_room() -> None:
    room = WaitingRoom[Person](2)
    assert room.join(person(1))
    assert room.join(person(2, "other"))
    assert not room.join(person(3)), "full for this pair"
    assert room.join(person(4, demand=DEMANDS[2])), "but not for another"
    room.leave(JobId("j1"))
    assert room.join(person(3))


def test_standing_in_line_twice_keeps_the_first_place() -> None:
    room = WaitingRoom[Person](2)
    first, second = person(1), person(2)
    for one in (first, second, first):
        assert room.join(one)
    assert len(room) == 2
    assert serve_all(room) == [first, second]


@given(people, st.data())
def test_a_job_that_leaves_is_gone_and_nothing_is_left_behind(
    line: list[Person], data: st.DataObject
) -> None:
    room = WaitingRoom[Person](100)
    for one in line:
        room.join(one)
    leaving = data.draw(st.sets(st.sampled_from(line))) if line else set()
    for one in leaving:
        room.leave(one.job_id)
        room.leave(one.job_id)
    assert set(serve_all(room)) == set(line) - leaving
    assert room._pairs == {}
    assert room._by_pair == {}
