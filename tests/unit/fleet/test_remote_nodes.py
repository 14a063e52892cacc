"""Nodes of other instances in the snapshot, beside our own."""

from __future__ import annotations

import msgspec

from dragoman.ids import ConnectionId, InstanceId, NodeId
from dragoman.live.fleet import Census, RemoteNodes
from dragoman.live.fleet.remote_nodes import SharedFacts, read_facts
from dragoman.live.ledger import CellRecord, Owner, SeatRecord
from dragoman.live.protocol import Languages, NodeHealth
from dragoman.live.snapshot import CellView, NodeFacts, PoolRule, SnapshotHolder
from dragoman.observability import Metrics
from dragoman.testing import SERVICES

HERE = InstanceId("here")
LANGUAGES = Languages(("zh",), (), ("zh", "en"), ("en",))
LEASE_MS = 45_000


def written(status: NodeHealth = NodeHealth.READY) -> bytes:
    return msgspec.msgpack.encode(SharedFacts(status, LANGUAGES, SERVICES))


def seat(
    name: str,
    index: int,
    *,
    at: str = "there",
    epoch: int = 1,
    facts: bytes | None = None,
    online: bool = True,
    drained: bool = False,
) -> SeatRecord:
    return SeatRecord(
        node_id=NodeId(name),
        index=index,
        slots=2,
        held=0,
        owner=Owner(InstanceId(at), ConnectionId("c"), epoch),
        online=online,
        drained=drained,
        alive_until_ms=100_000,
        mean_ms=0.0,
        facts=written() if facts is None else facts,
    )  # fmt: skip


class Scene:
    """A snapshot with one node of ours, at index 0 of cell 0."""

    def __init__(self) -> None:
        self.snapshots = SnapshotHolder(PoolRule.ASR_TTS)
        self.census = Census(Metrics())
        self.far = RemoteNodes(self.snapshots, self.census, HERE, LEASE_MS)
        ours = NodeFacts(
            node_id=NodeId("ours"), cell=0, index=0, languages=LANGUAGES, services=SERVICES
        )
        self.snapshots.replace(CellView.of(0, [ours]))

    def read(self, *seats: SeatRecord) -> bool:
        return self.far.take(CellRecord(0, 1, seats), ours={NodeId("ours")})

    @property
    def shown(self) -> dict[int, str]:
        view = self.snapshots.current.cells.get(0)
        return {} if view is None else {i: facts.node_id for i, facts in view.nodes.items()}

    @property
    def ready(self) -> list[str]:
        view = self.snapshots.current.cells[0]
        return [str(name) for name in view.node_ids(view.ready)]


def test_nodes_of_others_are_shown_beside_ours() -> None:
    scene = Scene()
    assert scene.read(seat("ours", 0, at="here"), seat("far", 1))
    assert scene.shown == {0: "ours", 1: "far"}
    assert scene.ready == ["far"]


def test_one_that_vanished_leaves_and_its_place_is_the_next_ones() -> None:
    scene = Scene()
    scene.read(seat("far", 1))
    scene.read(seat("other", 1))
    assert scene.shown == {0: "ours", 1: "other"}
    assert scene.far.get(NodeId("far")) is None
    scene.read()
    assert scene.shown == {0: "ours"}


def test_in_a_cell_that_lost_its_memory_our_place_may_be_anothers() -> None:
    scene = Scene()
    scene.read(seat("ours", 0, at="here"), seat("far", 1))
    scene.read(seat("far", 0), seat("ours", 1, at="here"))
    assert scene.shown == {0: "far"}, "ours is shown again where it sits now"


def test_only_a_node_that_is_ready_online_and_not_drained_gets_jobs() -> None:
    scene = Scene()
    scene.read(
        seat("ready", 1),
        seat("offline", 2, online=False),
        seat("drained", 3, drained=True),
        seat("degraded", 4, facts=written(NodeHealth.DEGRADED)),
        seat("of our earlier life", 5, at="here"),
    )
    assert scene.ready == ["ready"]
    assert [node.status.value for node in scene.far] == [
        "ready", "offline", "draining", "degraded", "offline",
    ]  # fmt: skip


def test_a_cell_that_did_not_change_costs_no_new_snapshot() -> None:
    scene = Scene()
    scene.read(seat("far", 1))
    before = scene.snapshots.current
    assert not scene.read(seat("far", 1, epoch=2))
    assert scene.snapshots.current is before


def test_a_node_that_comes_to_us_is_no_longer_shown_as_another_instances() -> None:
    scene = Scene()
    scene.read(seat("far", 1))
    scene.far.moved_in(NodeId("far"))
    assert scene.shown == {0: "ours"}
    assert len(scene.far) == 0


def test_the_nodes_of_a_cold_cell_stay_known_and_get_no_jobs() -> None:
    scene = Scene()
    scene.read(seat("far", 1))
    scene.far.cool(0)
    assert scene.far.cold == {0}
    assert (scene.shown, scene.ready) == ({0: "ours", 1: "far"}, [])
    scene.read(seat("far", 1))
    assert (scene.far.cold, scene.ready) == (set(), ["far"])


def test_the_nodes_of_an_unreachable_instance_get_no_jobs() -> None:
    scene = Scene()
    scene.read(seat("far", 1), seat("farther", 2, at="elsewhere"))
    scene.far.cut_off(InstanceId("there"))
    assert scene.ready == ["farther"]


def test_facts_that_cannot_be_read_are_nobodys() -> None:
    scene = Scene()
    scene.read(seat("older", 1, facts=b"\x93\x01\x02\x03"), seat("none", 2, facts=b""))
    assert scene.shown == {0: "ours"}
    assert read_facts(b"nonsense") is None
