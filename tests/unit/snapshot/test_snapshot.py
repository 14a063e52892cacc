"""Masks say what reading the nodes one by one would say, after any changes."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.snapshot.fleets import (
    RULES,
    features,
    first_reason,
    in_pool,
    nodes,
    pairs,
    pipelines,
    rules,
)

from dragoman.ids import NodeId
from dragoman.live.protocol import Languages, Pipeline
from dragoman.live.snapshot import (
    CellView,
    NodeFacts,
    Pair,
    PoolRule,
    Requirement,
    Requirements,
    RuntimeSnapshot,
    Shards,
    SnapshotHolder,
    node_pairs,
)

LANGUAGES = Languages(("zh",), (), (), ("en",))

fleets = st.integers(0, 5).flatmap(
    lambda count: st.tuples(*(nodes(index) for index in range(count)))
)


@given(fleets, rules, pairs, pipelines, features)
def test_each_node_falls_under_the_first_reason_that_holds(
    fleet: tuple[NodeFacts, ...],
    rule: PoolRule,
    wanted: tuple[Pair, ...],
    pipeline: Pipeline,
    named: tuple[str, ...],
) -> None:
    requirement = Requirement(rule, wanted, pipeline, named)
    cell = CellView.of(0, fleet)
    fit = cell.fit(requirement)
    left_out = cell.left_out(requirement)
    for facts in fleet:
        reasons = [reason for reason, mask in left_out.items() if mask >> facts.index & 1]
        expected = first_reason(facts, requirement, pipeline)
        assert reasons == ([expected] if expected else [])
        assert bool(fit >> facts.index & 1) == (expected is None)
        in_every_pool = all(in_pool(requirement.rule, facts, pair) for pair in wanted)
        assert bool(cell.pool(requirement) >> facts.index & 1) == in_every_pool


@given(fleets, pairs, pipelines)
def test_a_welcome_node_need_not_be_public(
    fleet: tuple[NodeFacts, ...], wanted: tuple[Pair, ...], pipeline: Pipeline
) -> None:
    requirement = Requirement(PoolRule.ASR_TTS, wanted, pipeline, ())
    cell = CellView.of(0, fleet)
    for facts in fleet:
        bit = 1 << facts.index
        welcome = cell.fit(requirement, welcome=bit)
        assert welcome & ~bit == cell.fit(requirement) & ~bit, "nobody else is let in"
        if facts.public:
            assert welcome == cell.fit(requirement)


@given(st.data(), st.sampled_from(RULES))
def test_the_index_counts_every_pool_s_members_after_any_changes(
    data: st.DataObject, rule: PoolRule
) -> None:
    holder = SnapshotHolder(rule)
    fleet: dict[tuple[int, int], NodeFacts] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        cell, index = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3))
        view = holder.current.cells.get(cell) or CellView(cell)
        if (cell, index) in fleet and data.draw(st.booleans()):
            del fleet[cell, index]
            holder.replace(view.without_node(index))
        else:
            fleet[cell, index] = data.draw(nodes(index, cell))
            holder.replace(view.with_node(fleet[cell, index]))
    for wanted in (rule, PoolRule.TEXT):
        expected: dict[Pair, Counter[int]] = {}
        for (cell, _), facts in fleet.items():
            for pair in node_pairs(wanted, facts):
                expected.setdefault(pair, Counter())[cell] += 1
        pools = holder.current.pools(wanted)
        assert {pair: dict(shards.members) for pair, shards in pools.items()} == expected
    for (cell, _), facts in fleet.items():
        found = holder.find(facts.node_id)
        assert found is not None
        assert found.number == cell
    assert holder.find(NodeId("nobody")) is None


@given(st.data())
def test_a_changed_cell_answers_as_one_made_anew(data: st.DataObject) -> None:
    view = CellView(0)
    fleet: dict[int, NodeFacts] = {}
    for _ in range(8):
        index = data.draw(st.integers(0, 3))
        if index in fleet and data.draw(st.booleans()):
            del fleet[index]
            view = view.without_node(index)
        else:
            fleet[index] = data.draw(nodes(index))
            view = view.with_node(fleet[index])
    anew = CellView.of(0, fleet.values())
    requirement = Requirement(
        data.draw(rules), data.draw(pairs), data.draw(pipelines), data.draw(features)
    )
    assert view.left_out(requirement) == anew.left_out(requirement)
    assert (view.members, view.indexes) == (anew.members, anew.indexes)


def test_a_node_with_a_new_place_leaves_the_old_one() -> None:
    def facts(name: str, index: int) -> NodeFacts:
        return NodeFacts(
            node_id=NodeId(name), cell=0, index=index, languages=LANGUAGES, services=()
        )

    view = CellView.of(0, [facts("a", 0), facts("b", 1)]).with_node(facts("b", 0))
    assert (view.indexes, view.members) == ({"b": 0}, 0b1)


def test_a_change_shares_every_other_cell() -> None:
    def facts(cell: int) -> NodeFacts:
        return NodeFacts(
            node_id=NodeId(f"n{cell}"), cell=cell, index=0, languages=LANGUAGES, services=()
        )

    before = RuntimeSnapshot.empty(PoolRule.ASR_TTS)
    for cell in range(3):
        before = before.replacing(CellView.of(cell, [facts(cell)]))
    after = before.replacing(CellView(1))
    assert after.version == before.version + 1
    assert after.cells[0] is before.cells[0]
    assert set(after.cells) == {0, 2}, "an empty cell disappears"
    assert set(before.cells) == {0, 1, 2}, "whoever still reads the old one sees no change"


def test_a_shard_is_drawn_with_the_weight_of_its_members() -> None:
    shards = Shards({7: 1, 3: 3})
    random = Random(5)
    drawn = Counter(shards.draw(random) for _ in range(4_000))
    assert set(drawn) == {3, 7}
    assert 2.6 < drawn[3] / drawn[7] < 3.4


def test_equal_demands_are_one_object() -> None:
    requirements = Requirements(PoolRule.ASR_TTS)
    text = Pipeline(use_nmt=True)
    first = requirements.of((("zh", "en"),), text, ())
    assert requirements.of((("zh", "en"),), Pipeline(use_nmt=True), ()) is first
    assert first.rule is PoolRule.TEXT, "neither speech in nor speech out"
    assert requirements.of((("en", "zh"),), text, ()) is not first
