"""Masks say what reading the nodes one by one would say, after any changes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.snapshot.fleets import LANGUAGES as LANGUAGES_DRAWN
from tests.unit.snapshot.fleets import (
    RULES,
    asked_services,
    features,
    first_reason,
    in_pool,
    kind_wanted,
    knows_stages,
    languages,
    nodes,
    pairs,
    pipelines,
    rules,
)

from dragoman.ids import NodeId
from dragoman.live.protocol import Languages, NamedServices, Pipeline, PoolKind
from dragoman.live.snapshot import (
    CellView,
    JobRequirement,
    NodeFacts,
    Pair,
    PoolRule,
    PoolShards,
    Requirements,
    RuntimeSnapshot,
    SnapshotHolder,
    count_pools,
    is_in_a_pool,
    node_pools,
    pool_languages,
)
from dragoman.live.snapshot import cell as cell_module
from dragoman.live.snapshot import index as index_module

LANGUAGES = Languages(("zh",), (), (), ("en",))

fleets = st.integers(0, 5).flatmap(
    lambda count: st.tuples(*(nodes(index) for index in range(count)))
)


@given(fleets, rules, pairs, pipelines, features, asked_services)
def test_each_node_falls_under_the_first_reason_that_holds(
    fleet: tuple[NodeFacts, ...],
    rule: PoolRule,
    wanted: tuple[Pair, ...],
    pipeline: Pipeline,
    named: tuple[str, ...],
    chosen: NamedServices,
) -> None:
    requirement = JobRequirement(rule, wanted, pipeline, named, chosen)
    cell = CellView.of(0, fleet)
    fit = cell.fit(requirement)
    left_out = cell.left_out(requirement)
    for facts in fleet:
        reasons = [reason for reason, mask in left_out.items() if mask >> facts.index & 1]
        expected = first_reason(facts, requirement, pipeline)
        assert reasons == ([expected] if expected else [])
        assert bool(fit >> facts.index & 1) == (expected is None)
        kind = kind_wanted(pipeline)
        in_every_pool = all(in_pool(rule, kind, facts.languages, pair) for pair in wanted)
        assert bool(cell.pool(requirement) >> facts.index & 1) == in_every_pool


@given(fleets, pairs, pipelines)
def test_a_welcome_node_need_not_be_public(
    fleet: tuple[NodeFacts, ...], wanted: tuple[Pair, ...], pipeline: Pipeline
) -> None:
    requirement = JobRequirement(PoolRule.ASR_TTS, wanted, pipeline, ())
    cell = CellView.of(0, fleet)
    for facts in fleet:
        bit = 1 << facts.index
        welcome = cell.fit(requirement, welcome=bit)
        assert welcome & ~bit == cell.fit(requirement) & ~bit, "nobody else is let in"
        if facts.public:
            assert welcome == cell.fit(requirement)


@given(st.data(), st.sampled_from(RULES))
def test_the_index_counts_who_knows_a_job_s_languages_after_any_changes(
    data: st.DataObject, rule: PoolRule
) -> None:
    holder = SnapshotHolder(rule)
    fleet: dict[tuple[int, int], NodeFacts] = {}
    asked = data.draw(
        st.lists(st.builds(JobRequirement, st.just(rule), pairs, pipelines, features), max_size=4)
    )

    def check(snapshot: RuntimeSnapshot) -> None:
        for requirement in asked:
            kind = kind_wanted(requirement.pipeline)
            expected = Counter(
                cell
                for (cell, _), facts in fleet.items()
                if all(
                    in_pool(rule, kind, facts.languages, pair)
                    and knows_stages(facts, requirement.pipeline, pair)
                    for pair in requirement.pairs
                )
            )
            shards = snapshot.shards(requirement)
            assert (shards.members, shards.total) == (expected, expected.total())

    for _ in range(data.draw(st.integers(1, 12))):
        cell, index = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3))
        view = holder.current.cells.get(cell) or CellView(cell)
        if (cell, index) in fleet and data.draw(st.booleans()):
            del fleet[cell, index]
            holder.replace(view.without_node(index))
        else:
            fleet[cell, index] = data.draw(nodes(index, cell))
            holder.replace(view.with_node(fleet[cell, index]))
        if data.draw(st.booleans()):
            check(holder.current)
    check(holder.current)
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
    requirement = JobRequirement(
        data.draw(rules),
        data.draw(pairs),
        data.draw(pipelines),
        data.draw(features),
        data.draw(asked_services),
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
    shards = PoolShards({7: 1, 3: 3})
    random = Random(5)
    drawn = Counter(shards.draw(random) for _ in range(4_000))
    assert set(drawn) == {3, 7}
    assert 2.6 < drawn[3] / drawn[7] < 3.4


def test_equal_demands_are_one_object() -> None:
    requirements = Requirements(PoolRule.ASR_TTS)
    text = Pipeline(use_nmt=True)
    first = requirements.of((("zh", "en"),), text, ())
    assert requirements.of((("zh", "en"),), Pipeline(use_nmt=True), ()) is first
    assert first.kind is PoolKind.TEXT_TO_TEXT, "neither speech in nor speech out"
    assert requirements.of((("en", "zh"),), text, ()) is not first


# --- pools ---------------------------------------------------------------------------------------

everything_known = st.builds(Languages, languages, languages, languages, languages)


@given(rules, everything_known)
def test_a_node_s_pools_are_those_it_knows_the_languages_of(
    rule: PoolRule, known: Languages
) -> None:
    expected = {
        f"{source}:{target}": kinds
        for source in LANGUAGES_DRAWN
        for target in LANGUAGES_DRAWN
        if (
            kinds := tuple(
                kind for kind in PoolKind if in_pool(rule, kind, known, (source, target))
            )
        )
    }
    assert dict(node_pools(rule, known)) == expected
    assert count_pools(rule, known) == sum(map(len, expected.values()))
    assert is_in_a_pool(rule, known) == bool(expected)


@given(rules, everything_known, st.sampled_from(PoolKind), pairs)
def test_a_pool_asks_for_the_languages_its_members_know(
    rule: PoolRule, known: Languages, kind: PoolKind, wanted: tuple[Pair, ...]
) -> None:
    facts = NodeFacts(node_id=NodeId("n"), cell=0, index=0, languages=known, services=())
    view = CellView.of(0, [facts])
    for pair in wanted:
        needed = pool_languages(rule, kind, pair)
        found = needed is not None and bool(view.knowing(needed))
        assert found == in_pool(rule, kind, known, pair)


@pytest.mark.parametrize(
    ("known", "kinds"),
    [
        pytest.param(
            Languages(nmt_langs=("en", "es")), ("text_to_text",), id="one that translates"
        ),
        pytest.param(
            Languages(nmt_langs=("en", "es"), tts_langs=("es",)),
            ("text_to_speech", "text_to_text"),
            id="one that translates and speaks",
        ),
        pytest.param(
            Languages(asr_langs=("en",), nmt_langs=("en", "es")),
            ("speech_to_text", "text_to_text"),
            id="one that recognises and translates",
        ),
        pytest.param(
            Languages(asr_langs=("en",), tts_langs=("es",)),
            ("speech_to_speech",),
            id="one that recognises and speaks",
        ),
        pytest.param(Languages(asr_langs=("en",)), None, id="one that only recognises"),
    ],
)
def test_what_a_node_can_do_decides_which_kinds_of_pool_it_is_in(
    known: Languages, kinds: tuple[str, ...] | None
) -> None:
    assert dict(node_pools(PoolRule.ASR_TTS, known)).get("en:es") == kinds


def test_tags_are_compared_without_regard_to_case_and_shown_as_they_came() -> None:
    known = Languages(nmt_langs=("zh-TW", "en"))
    facts = NodeFacts(node_id=NodeId("n"), cell=0, index=0, languages=known, services=())
    view = CellView.of(0, [facts])
    snapshot = RuntimeSnapshot.empty(PoolRule.ASR_TTS).replacing(view)
    asked = JobRequirement(PoolRule.ASR_TTS, (("ZH-tw", "EN"),), Pipeline(use_nmt=True), ())
    assert snapshot.shards(asked).members == {0: 1}
    assert asked.shown == "ZH-tw:EN"
    assert [pair for pair, _ in node_pools(PoolRule.ASR_TTS, known)] == [
        "en:en",
        "en:zh-TW",
        "zh-TW:en",
        "zh-TW:zh-TW",
    ]


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        pytest.param(("zh-TW", "en"), ("zh",), id="the source has a relative"),
        pytest.param(("zh-TW", "en-GB"), ("zh", "en"), id="both have"),
        pytest.param(("fr", "en"), (), id="neither has"),
        pytest.param(("zh-TW", "zh"), (), id="the other end is the relative"),
        pytest.param(("zh-TW", "fr"), (), id="a relative that would not help"),
    ],
)
def test_a_near_relative_that_would_be_served_is_found(
    asked: tuple[str, str], near: tuple[str, ...]
) -> None:
    known = Languages(nmt_langs=("zh", "en"))
    facts = NodeFacts(node_id=NodeId("n"), cell=0, index=0, languages=known, services=())
    snapshot = RuntimeSnapshot.empty(PoolRule.ASR_TTS).replacing(CellView.of(0, [facts]))
    requirement = JobRequirement(PoolRule.ASR_TTS, (asked,), Pipeline(use_nmt=True), ())
    assert snapshot.near(requirement) == near


# --- what it costs -------------------------------------------------------------------------------


def test_an_older_snapshot_answers_for_itself() -> None:
    def facts(cell: int) -> NodeFacts:
        return NodeFacts(
            node_id=NodeId(f"n{cell}"), cell=cell, index=0, languages=LANGUAGES, services=()
        )

    speech = Pipeline(use_asr=True, use_tts=True)
    asked = JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), speech, ())
    older = RuntimeSnapshot.empty(PoolRule.ASR_TTS).replacing(CellView.of(0, [facts(0)]))
    newer = older.replacing(CellView.of(1, [facts(1)]))
    assert newer.shards(asked).members == {0: 1, 1: 1}
    assert older.shards(asked).members == {0: 1}
    assert newer.shards(asked).members == {0: 1, 1: 1}


def test_a_cell_remembers_a_limited_number_of_requirements() -> None:
    view = CellView.of(
        0, [NodeFacts(node_id=NodeId("n"), cell=0, index=0, languages=LANGUAGES, services=())]
    )
    for number in range(3 * cell_module.MAX_REMEMBERED):
        view.fit(JobRequirement(PoolRule.ASR_TTS, ((f"x{number}", "en"),), Pipeline(True), ()))
    assert len(view._fit) <= cell_module.MAX_REMEMBERED
    assert len(view._left_out) <= cell_module.MAX_REMEMBERED


def test_the_index_remembers_a_limited_number_of_pools() -> None:
    empty = RuntimeSnapshot.empty(PoolRule.ASR_TTS)
    for number in range(3 * index_module.MAX_REMEMBERED):
        empty.shards(JobRequirement(PoolRule.ASR_TTS, ((f"x{number}", "en"),), Pipeline(True), ()))
    assert len(empty._index) <= index_module.MAX_REMEMBERED
