"""Reports that a model is not available: queued, limited, marked, followed up now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.fleet import Feedback, FeedbackRules, Mark
from dragoman.live.protocol import ModelNotAvailable
from dragoman.observability import KeyCount, Metrics
from dragoman.testing import VirtualClock, run_virtual

A, B = NodeId("a"), NodeId("b")


class Shown:
    """Where marks are shown, and when that changed."""

    def __init__(self, *known: NodeId) -> None:
        self.known = known
        self.marks: dict[NodeId, set[str]] = {}

    def set_marks(self, node_id: NodeId, marks: tuple[Mark, ...]) -> bool:
        if node_id in self.known:
            self.marks[node_id] = {mark.service_id for mark in marks}
        return node_id in self.known

    def has_version(self, node_id: NodeId, service_id: str, version: str) -> bool:
        return False


class Scene:
    """Feedback at work, and everything that can be seen of it."""

    def __init__(
        self, nodes: Shown | None = None, clock: Clock | None = None, **rules: Any
    ) -> None:
        self.metrics = Metrics()
        self.nodes = nodes or Shown(A, B)
        self.follow_ups = 0
        self.follow_up_fails = False
        values = {
            "ttl_seconds": 60,
            "debounce_seconds": 5,
            "node_window_seconds": 10,
            "node_max": 30,
            "queue_max": 100,
            "top_k": 3,
        }
        self.feedback = Feedback(
            FeedbackRules(**{**values, **rules}),
            nodes=self.nodes,
            follow_up=self.follow_up,
            metrics=self.metrics,
            clock=clock or VirtualClock(asyncio.get_running_loop()),
        )

    def follow_up(self, service_id: str, version: str | None) -> None:
        self.follow_ups += 1
        if self.follow_up_fails:
            raise RuntimeError("on purpose")

    def say(self, node_id: NodeId, service_id: str, reason: str = "gone", **fields: Any) -> None:
        self.feedback.report(node_id, ModelNotAvailable(service_id, reason, **fields))

    def metric(self, name: str) -> float:
        for line in self.metrics.exposition().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")


def play(story: Callable[[Scene], Awaitable[None]], **rules: Any) -> None:
    async def main() -> None:
        scene = Scene(**rules)
        worker = asyncio.get_running_loop().create_task(scene.feedback.run())
        try:
            await story(scene)
        finally:
            worker.cancel()
            await asyncio.wait([worker])

    run_virtual(main, seed=1)


def test_a_report_is_only_queued_and_marks_in_the_background() -> None:
    async def story(scene: Scene) -> None:
        scene.say(A, "nmt")
        assert scene.nodes.marks == {}
        await asyncio.sleep(0.001)
        assert scene.nodes.marks == {A: {"nmt"}}

    play(story)


def test_marks_end_by_themselves_at_their_time() -> None:
    async def story(scene: Scene) -> None:
        scene.say(A, "nmt")
        await asyncio.sleep(30)
        scene.say(B, "tts")
        await asyncio.sleep(29.9)
        assert scene.nodes.marks == {A: {"nmt"}, B: {"tts"}}
        await asyncio.sleep(0.2)
        assert scene.nodes.marks == {A: set(), B: {"tts"}}
        await asyncio.sleep(30)
        assert scene.nodes.marks == {A: set(), B: set()}

    play(story)


class CountingShown(Shown):
    """Where marks are shown, and how many change within one turn of the event loop."""

    def __init__(self, *known: NodeId) -> None:
        super().__init__(*known)
        self.in_this_turn = 0
        self.most_in_a_turn = 0

    def set_marks(self, node_id: NodeId, marks: tuple[Mark, ...]) -> bool:
        if not self.in_this_turn:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self.in_this_turn += 1
        self.most_in_a_turn = max(self.most_in_a_turn, self.in_this_turn)
        return super().set_marks(node_id, marks)

    def _next_turn(self) -> None:
        self.in_this_turn = 0


class BusyClock(VirtualClock):
    """A clock that goes on by itself during work: 50 us from one look to the next."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * 50e-6


def test_reports_and_the_ends_of_marks_are_handled_in_slices_between_which_others_work() -> None:
    names = [NodeId(f"n{number}") for number in range(1_000)]

    async def main() -> None:
        shown = CountingShown(*names)
        scene = Scene(
            nodes=shown, clock=BusyClock(asyncio.get_running_loop()), queue_max=len(names)
        )
        worker = asyncio.create_task(scene.feedback.run())
        for name in names:
            scene.say(name, "asr")
        await asyncio.sleep(1)
        assert [shown.marks[name] for name in names] == [{"asr"}] * len(names)
        assert shown.most_in_a_turn * 50e-6 <= 0.002, "two milliseconds of work"

        shown.most_in_a_turn = 0
        await asyncio.sleep(60)
        assert not any(shown.marks.values())
        assert 0 < shown.most_in_a_turn <= 20
        worker.cancel()
        await asyncio.wait([worker])

    run_virtual(main, seed=1)


def test_a_full_queue_drops_and_counts() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(8):
            scene.say(A, "nmt")
        await asyncio.sleep(0.001)
        assert scene.metric("scheduler_model_na_received_total") == 8
        assert scene.metric("scheduler_model_na_overflow_total") == 3
        assert scene.metric("scheduler_model_na_marked_total") == 5

    play(story, queue_max=5)


def test_past_its_limit_a_node_s_reports_are_counted_and_nothing_else() -> None:
    async def story(scene: Scene) -> None:
        for number in range(5):
            scene.say(A, f"s{number}")
        scene.say(B, "nmt")
        await asyncio.sleep(0.001)
        assert scene.nodes.marks == {A: {"s0", "s1"}, B: {"nmt"}}
        view = scene.feedback.view()
        assert (view.received, view.rate_limited, view.marked) == (6, 3, 3)
        assert view.rate_limited_by_node_top == [KeyCount("a", 3)]
        assert view.marked_by_node_top == [KeyCount("a", 2), KeyCount("b", 1)]
        assert {entry.key for entry in view.by_service_top} == {"s0", "s1", "nmt"}
        await asyncio.sleep(10)
        scene.say(A, "s4")
        await asyncio.sleep(0.001)
        assert scene.nodes.marks[A] == {"s0", "s1", "s4"}

    play(story, node_max=2)


def test_one_service_and_version_is_followed_up_once_in_the_window() -> None:
    async def story(scene: Scene) -> None:
        for node_id in (A, B):
            scene.say(node_id, "nmt", version="1")
            scene.say(node_id, "nmt", version="2")
        await asyncio.sleep(4)
        scene.say(A, "nmt", version="1")
        await asyncio.sleep(0.001)
        assert scene.follow_ups == 2
        await asyncio.sleep(1)
        scene.say(A, "nmt", version="1")
        await asyncio.sleep(0.001)
        assert scene.follow_ups == 3

    play(story)


def test_reasons_are_counted_in_their_normal_form_and_never_kept_whole() -> None:
    async def story(scene: Scene) -> None:
        scene.say(A, "nmt", "  Not Loaded ")
        scene.say(B, "nmt", "not loaded")
        scene.say(B, "nmt", "x" * 1_000_000)
        await asyncio.sleep(0.001)
        assert scene.feedback.view().by_reason_top == [
            KeyCount("not loaded", 2),
            KeyCount("x" * 64, 1),
        ]

    play(story)


def test_top_lists_are_no_longer_than_asked_for() -> None:
    async def story(scene: Scene) -> None:
        for number in range(20):
            scene.say(A, f"s{number}", f"reason {number}")
        await asyncio.sleep(0.001)
        view = scene.feedback.view()
        assert len(view.by_service_top) == len(view.by_reason_top) == 3

    play(story)


def test_a_node_that_is_gone_by_then_is_not_marked() -> None:
    async def story(scene: Scene) -> None:
        scene.say(NodeId("gone"), "nmt")
        await asyncio.sleep(0.001)
        view = scene.feedback.view()
        assert (view.received, view.marked) == (1, 0)
        await asyncio.sleep(61)
        assert scene.nodes.marks == {}

    play(story)


def test_a_follow_up_that_fails_does_not_stop_the_worker() -> None:
    async def story(scene: Scene) -> None:
        scene.follow_up_fails = True
        scene.say(A, "nmt")
        scene.say(B, "nmt")
        await asyncio.sleep(0.001)
        assert scene.nodes.marks == {A: {"nmt"}, B: {"nmt"}}

    play(story)
