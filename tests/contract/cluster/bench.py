"""A cluster on the bench: plain calls, time at will, and short words for what tests do most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.cluster import (
    AssignNote,
    Card,
    CleanUp,
    Cluster,
    ClusterTerms,
    EndedNote,
    Handed,
    NoteDelivery,
    Posted,
)
from dragoman.live.protocol import Cut, JobAssign, JobClass, Mode, Pipeline

T = TypeVar("T")

TERMS = ClusterTerms(
    presence_ttl_ms=30_000,
    owner_ttl_ms=45_000,
    inbox_max=5,
    reclaim_idle_ms=60_000,
    max_deliveries=3,
    dead_letters_max=4,
)
CARD = Card(url="http://10.0.0.1:8080", started_at_ms=1_700_000_000_000)
PRESENCE_SECONDS = TERMS.presence_ttl_ms / 1000
SUSPICION_SECONDS = TERMS.suspicion_ms / 1000

ASSIGN = AssignNote(
    job_id=JobId("j-1"),
    attempt_id=AttemptId("a-1"),
    cell=3,
    node_id=NodeId("n-1"),
    connection_id=ConnectionId("c-1"),
    epoch=7,
    driver=InstanceId("i-1"),
    message=JobAssign(
        job_id=JobId("j-1"),
        attempt_id=AttemptId("a-1"),
        trace_id="trace",
        job_class=JobClass.LIVE,
        src_lang="zh",
        tgt_lang="en",
        mode=Mode.ONE_WAY,
        pipeline=Pipeline(use_asr=True),
        features=(),
        padding_ms=0,
        cut=Cut.NONE,
        deadline_ms=5_000,
        audio=bytes(range(256)),
    ),
)


def ended(number: int) -> EndedNote:
    """A small note that can be told from others."""
    return EndedNote(JobId(f"j-{number}"))


class Bench:
    """Instances of one cluster; calling the bench runs a coroutine."""

    def __init__(
        self,
        runner: asyncio.Runner,
        open_peers: Callable[[InstanceId], Cluster],
        advance: Callable[[float], None],
        age_notes: Callable[[Any], Coroutine[Any, Any, None]],
        turn_back: Callable[[float], None],
    ) -> None:
        self._runner = runner
        self._open_peers = open_peers
        self.advance = advance
        """Let seconds pass for presence, windows and leases."""
        self.turn_back = turn_back
        """Have it earlier, for what is written as if it had been written before."""
        self._age_notes = age_notes
        self._opened: list[Cluster] = []

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def stranger(self, name: str) -> Cluster:
        """A process that has not joined."""
        cluster = self._runner.run(self._open(name))
        self._opened.append(cluster)
        return cluster

    def joined(self, name: str) -> Cluster:
        """An instance that is present."""
        cluster = self.stranger(name)
        self(cluster.join(CARD))
        return cluster

    def post(self, sender: Cluster, to: str, *numbers: int) -> None:
        for number in numbers:
            assert self(sender.post(InstanceId(to), ended(number))) == Posted()

    def take(
        self,
        reader: Cluster,
        count: int = 10,
        done: Collection[str] = (),
        in_hand: Collection[str] = (),
    ) -> tuple[NoteDelivery, ...]:
        handed = self(reader.take(count, done=done, in_hand=in_hand))
        assert isinstance(handed, Handed)
        return handed.deliveries

    def take_again(
        self, reader: Cluster, in_hand: Collection[str] = ()
    ) -> tuple[tuple[NoteDelivery, ...], int]:
        """Take after every note has lain for too long; the count says how many were buried."""
        self.age_notes(reader)
        handed = self(reader.take(10, in_hand=in_hand))
        assert isinstance(handed, Handed)
        return handed.deliveries, handed.buried

    def age_notes(self, reader: Cluster) -> None:
        """Let everything that the instance has in work lie for too long."""
        self(self._age_notes(reader))

    def alive(self, seen_by: Cluster) -> dict[str, bool]:
        return {view.instance_id: view.alive for view in self(seen_by.instances())}

    def taken_down(self, by: Cluster, name: str) -> CleanUp:
        """Take down an instance that has lapsed."""
        assert self(by.take_down(InstanceId(name))) is None
        self.advance(SUSPICION_SECONDS)
        clean_up = self(by.take_down(InstanceId(name)))
        assert clean_up is not None
        return clean_up

    def close(self) -> None:
        for cluster in self._opened:
            self(cluster.close())

    async def _open(self, name: str) -> Cluster:
        return self._open_peers(InstanceId(name))
