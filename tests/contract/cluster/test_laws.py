"""Whatever instances do, a note that was posted is in one place, and only once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.contract.cluster.bench import (
    CARD,
    PRESENCE_SECONDS,
    SUSPICION_SECONDS,
    TERMS,
    Bench,
    ended,
)

from dragoman.ids import InstanceId
from dragoman.live.cluster import Cluster, Drained, Handed, Note, Posted, decode_note

NAMES = ("one", "two", "three")
STEPS = 150


class Life:
    """Three instances that post, read, crash and clean up at random, and where each note went."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self._bench = bench
        self._random = Random(seed)
        self._instances = {name: bench.joined(name) for name in NAMES}
        self._in_hand: dict[str, dict[str, Note]] = {name: {} for name in NAMES}
        self.posted: Counter[Note] = Counter()
        self.done: Counter[Note] = Counter()
        self.drained: Counter[Note] = Counter()

    def step(self) -> None:
        name = self._random.choice(NAMES)
        act = self._random.choices(
            [self._post, self._take, self._fail, self._crash, self._lapse], [8, 6, 3, 1, 1]
        )[0]
        act(name)

    def _post(self, name: str) -> None:
        note = ended(self.posted.total())
        to = InstanceId(self._random.choice(NAMES))
        if self._bench(self._instances[name].post(to, note)) == Posted():
            self.posted[note] += 1

    def _take(self, name: str) -> None:
        """Finish some of what is in hand, and take more."""
        hand = self._in_hand[name]
        done = [entry_id for entry_id in hand if self._random.random() < 0.5]
        self.done.update(hand.pop(entry_id) for entry_id in done)
        self._hand_out(name, self._random.randrange(4), done)

    def _fail(self, name: str) -> None:
        """Let everything lie, so that it is handed out again, or buried."""
        self._in_hand[name].clear()
        self._bench.age_notes(self._instances[name])
        self._hand_out(name, 3, [])

    def _hand_out(self, name: str, count: int, done: list[str]) -> None:
        hand = self._in_hand[name]
        handed = self._bench(self._instances[name].take(count, done=done, in_hand=list(hand)))
        assert isinstance(handed, Handed)
        assert handed.length <= TERMS.inbox_max
        for delivery in handed.deliveries:
            assert delivery.deliveries <= TERMS.max_deliveries
            assert delivery.entry_id not in hand, "a note in hand was handed out again"
            hand[delivery.entry_id] = delivery.note

    def _crash(self, name: str) -> None:
        self._in_hand[name].clear()
        self._instances[name] = self._bench.joined(name)

    def _lapse(self, name: str) -> None:
        """Fall silent until a peer has cleaned up, then come back."""
        peer = self._instances[next(other for other in NAMES if other != name)]
        self._renew_all_but(name, PRESENCE_SECONDS)
        assert self._bench(peer.take_down(InstanceId(name))) is None
        self._renew_all_but(name, SUSPICION_SECONDS)
        clean_up = self._bench(peer.take_down(InstanceId(name)))
        assert clean_up is not None
        more = self._random.random() < 0.8
        while more:
            drained = self._bench(peer.drain(clean_up, 2))
            assert isinstance(drained, Drained)
            self.drained.update(drained.notes)
            more = drained.more
        self._crash(name)

    def _renew_all_but(self, silent: str, seconds: float) -> None:
        self._bench.advance(seconds)
        for name, instance in self._instances.items():
            if name != silent:
                self._bench(instance.renew(CARD))

    def left(self, watcher: Cluster) -> Counter[Note]:
        """What is still in the inboxes."""
        left: Counter[Note] = Counter()
        for name, instance in self._instances.items():
            self._bench(instance.leave())
            clean_up = self._bench(watcher.take_down(InstanceId(name)))
            if clean_up is not None:
                drained = self._bench(watcher.drain(clean_up))
                assert isinstance(drained, Drained)
                left.update(drained.notes)
        return left


@pytest.mark.parametrize("seed", range(3))
def test_every_note_is_done_or_drained_or_buried_or_still_there_and_only_one_of_these(
    bench: Bench, seed: int
) -> None:
    life = Life(bench, seed)
    letters: Counter[Note | None] = Counter()
    watcher = bench.joined("watcher")
    for _ in range(STEPS):
        life.step()
        # Taken out at once, so that none is thrown out when there are too many.
        for letter in bench(watcher.letters()):
            letters[decode_note(letter.written)] += 1
            bench(watcher.drop([letter.letter_id]))

    accounted = life.done + life.drained + life.left(watcher)
    accounted.update({note: count for note, count in letters.items() if note is not None})

    assert life.posted.total() > STEPS / 5
    assert accounted == life.posted, f"seed {seed}"
