"""What holds for nodes: never too much, never twice, never taken away without a cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
from tests.integration.cluster_chaos.faults import REDIS
from tests.integration.cluster_chaos.records import (
    Gave,
    NodeBegan,
    NodeJoined,
    NodeParted,
    NodeRecord,
    Took,
    TurnedAway,
)
from tests.integration.cluster_chaos.story import SUPERSEDED, Story, grouped

_ACK_SECONDS = 3.0
"""As in the instances' settings: an attempt may have been on its way for so long."""

_OVERLOADED = "NODE_OVERLOADED"

_CATCHING_UP_SECONDS = 5.0
"""How long after it stood still another may take what had been sent to it meanwhile."""


class _Work(msgspec.Struct):
    """A node's work on one attempt."""

    took: Took
    ended_at: float
    """When it gave an answer, or when its process began anew."""
    instance_id: str
    """Where the node was connected when it took the attempt."""


def no_node_is_given_more_than_it_can_take(story: Story) -> Iterator[str]:
    """By the node's own count. When Redis has lost data, the node's own limit is the last one."""
    for refused in story.of(TurnedAway):
        if refused.code == _OVERLOADED and not story.lost_data(refused.at, refused.at):
            yield f"{refused.node_id} had no slot for attempt {refused.attempt_id}"
    for node_id, records in _by_node(story).items():
        in_hand: set[str] = set()
        slots = 0
        for record in records:
            match record:
                case NodeBegan():
                    in_hand, slots = set(), record.slots
                case Took():
                    in_hand.add(record.attempt_id)
                    if len(in_hand) > slots:
                        yield f"{node_id} worked on {len(in_hand)} attempts with {slots} slots"
                case Gave():
                    in_hand.discard(record.attempt_id)


def no_attempt_is_worked_on_twice(story: Story) -> Iterator[str]:
    """An attempt is one try on one node."""
    for attempt_id, taken in grouped(story.of(Took), lambda record: record.attempt_id).items():
        if len(taken) > 1:
            nodes = ", ".join(record.node_id for record in taken)
            yield f"attempt {attempt_id} was taken by {nodes}"


def nothing_is_taken_from_a_live_node(story: Story) -> Iterator[str]:
    """A node that nothing happened to keeps its place, and its jobs until they have ended."""
    for record in story.of(NodeParted):
        if record.code == SUPERSEDED:
            yield f"{record.node_id} was superseded, and there was no other of its name"
    for job_id, works in grouped(_works(story), lambda work: work.took.job_id).items():
        for first, second in pairwise(sorted(works, key=lambda work: work.took.at)):
            if second.took.at >= first.ended_at:
                continue
            if not (_disturbed(story, first, second.took.at) or _took_late(story, first, second)):
                yield (
                    f"job {job_id} was given to {second.took.node_id} while"
                    f" {first.took.node_id} worked on it"
                )


def _works(story: Story) -> list[_Work]:
    return [work for own in _by_node(story).values() for work in _works_of_one(own)]


def _by_node(story: Story) -> Mapping[str, Sequence[NodeRecord]]:
    return grouped(story.of(NodeRecord), lambda record: record.node_id)


def _works_of_one(records: Sequence[NodeRecord]) -> Iterator[_Work]:
    instance_id = ""
    open_works: dict[str, _Work] = {}
    for record in records:
        match record:
            case NodeJoined():
                instance_id = record.instance_id
            case Took():
                open_works[record.attempt_id] = _Work(record, float("inf"), instance_id)
            case Gave():
                work = open_works.pop(record.attempt_id, None)
                if work is not None:
                    work.ended_at = record.at
                    yield work
            case NodeBegan():
                for work in open_works.values():
                    work.ended_at = record.at
                    yield work
                open_works.clear()
    yield from open_works.values()


def _disturbed(story: Story, work: _Work, until: float) -> bool:
    """Whether the node, its connection, its instance or Redis gave a cause to try elsewhere."""
    since, node_id = work.took.at, work.took.node_id
    parted = any(
        record.node_id == node_id and since <= record.at <= until for record in story.of(NodeParted)
    )
    return (
        parted
        or story.disturbed(since, until, _around(work))
        # Any process may be the one that was late: nodes do not know which instance drives a job.
        or story.stalled(since - _ACK_SECONDS, until)
    )


def _took_late(story: Story, first: _Work, second: _Work) -> bool:
    """Whether the second one may have been given its attempt before the first was.

    Which of two attempts is the older, nodes cannot know. One that stood still takes late what it
    was given early: then it did so when the other took its own, or had only just moved again.
    """
    return story.disturbed(
        first.took.at, second.took.at, _around(second), aftermath_seconds=_CATCHING_UP_SECONDS
    )


def _around(work: _Work) -> set[str]:
    """Whose faults the work may feel."""
    return {work.took.node_id.partition(".")[0], work.instance_id, REDIS}
