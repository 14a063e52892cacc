"""What holds for any order of results, failures, losses, acknowledgements and resumes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.sessions.delivery import Delivery, Ready

TARGETS = ("en", "de")
UTTERANCES = 8
GRACE = 10.0


@dataclass
class Client:
    """Shows each delivery number once, and knows the last one it has seen."""

    shown: list[Ready[str]] = field(default_factory=list)
    connected: bool = True

    @property
    def last_seen(self) -> int:
        return self.shown[-1].delivery_seq if self.shown else 0

    def receive(self, sent: list[Ready[str]]) -> None:
        if self.connected:
            self.shown += [ready for ready in sent if ready.delivery_seq > self.last_seen]


@dataclass
class Conversation:
    """A session's delivery, its client, and how many results there were."""

    delivery: Delivery[str]
    client: Client = field(default_factory=Client)
    now: float = 0.0
    ends_brought: int = 0

    def bring(self, index: int, target: str, fails: bool) -> None:
        if index >= self.delivery.next_index:
            return
        self.ends_brought += 1
        if fails:
            self.client.receive(self.delivery.missing(index, target, "JOB_TIMEOUT", self.now))
        else:
            self.client.receive(
                self.delivery.result(index, target, f"{target}{index}", 3, self.now)
            )

    def resume(self) -> None:
        self.client.connected = True
        last_seen = self.client.last_seen
        self.delivery.acknowledge(last_seen)
        self.client.receive(self.delivery.unacknowledged(last_seen))

    def step(self, action: str, index: int, target: str) -> None:
        match action:
            case "open" if self.delivery.next_index < UTTERANCES:
                self.delivery.open(self.delivery.next_index, self.now)
            case "result" | "failure":
                self.bring(index, target, fails=action == "failure")
            case "abandon":
                self.delivery.abandoned(index, target, self.now)
            case "time":
                self.now += 6.0
                self.client.receive(self.delivery.due(self.now))
            case "acknowledge":
                self.delivery.acknowledge(self.client.last_seen)
            case "disconnect":
                self.client.connected = False
            case "resume":
                self.resume()

    def finish(self) -> None:
        """Every utterance is spoken, every job ends, and the client is there to see it."""
        while self.delivery.next_index < UTTERANCES:
            self.delivery.open(self.delivery.next_index, self.now)
        for index in reversed(range(UTTERANCES)):
            for target in TARGETS:
                self.bring(index, target, fails=False)
        self.resume()


ACTIONS = (
    *("open", "open", "result", "result", "failure", "abandon", "time"),
    *("acknowledge", "disconnect", "resume"),
)

STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, UTTERANCES - 1), st.sampled_from(TARGETS)),
    max_size=60,
)


def live(
    steps: list[tuple[str, int, str]], reorder_window: int, keep_messages: int
) -> Conversation:
    conversation = Conversation(
        Delivery(
            TARGETS,
            reorder_window=reorder_window,
            gap_grace_seconds=GRACE,
            keep_messages=keep_messages,
            keep_bytes=3 * keep_messages,
        )
    )
    for step in steps:
        conversation.step(*step)
    conversation.finish()
    return conversation


@given(STEPS, st.integers(1, 10), st.integers(1, 20))
def test_every_utterance_ends_once_for_each_target_and_in_order(
    steps: list[tuple[str, int, str]], reorder_window: int, keep_messages: int
) -> None:
    conversation = live(steps, reorder_window, keep_messages)
    shown = conversation.client.shown
    assert [ready.delivery_seq for ready in shown] == list(range(1, len(shown) + 1))
    for target in TARGETS:
        indexes = [ready.index for ready in shown if ready.target == target]
        assert indexes == list(range(UTTERANCES))
    for ready in shown:
        assert (ready.payload is None) != (ready.reason is None)
        assert ready.payload in (None, f"{ready.target}{ready.index}")
    assert conversation.delivery.in_flight == 0
    assert conversation.delivery.deadline is None


@given(STEPS, st.integers(1, 10))
def test_every_end_is_sent_or_counted_as_dropped(
    steps: list[tuple[str, int, str]], reorder_window: int
) -> None:
    conversation = live(steps, reorder_window, keep_messages=100)
    announced = sum(ready.reason == "gap_timeout" for ready in conversation.client.shown)
    dropped = conversation.delivery.dropped.total()
    sent = len(conversation.client.shown) - announced
    assert sent + dropped == conversation.ends_brought


@given(STEPS)
def test_without_gaps_and_drops_every_result_is_shown(steps: list[tuple[str, int, str]]) -> None:
    calm = [step for step in steps if step[0] not in ("abandon", "failure")]
    conversation = live(calm, reorder_window=UTTERANCES, keep_messages=100)
    assert all(ready.reason is None for ready in conversation.client.shown)


@given(STEPS, st.integers(1, 10), st.integers(1, 5))
def test_what_is_kept_is_bounded(
    steps: list[tuple[str, int, str]], reorder_window: int, keep_messages: int
) -> None:
    conversation = live(steps, reorder_window, keep_messages)
    assert conversation.delivery.buffered_bytes <= 3 * keep_messages
    conversation.delivery.acknowledge(conversation.client.last_seen)
    assert conversation.delivery.buffered_bytes == 0
    assert conversation.delivery.unacknowledged(0) == []
