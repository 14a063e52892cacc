"""What holds for nodes: never too much, never twice, never taken away without a cause."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.integration.cluster_chaos.involved import BETWEEN_ALL, Involved, Work, by_node
from tests.integration.cluster_chaos.records import (
    Gave,
    NodeBegan,
    NodeParted,
    Took,
    TurnedAway,
)
from tests.integration.cluster_chaos.story import (
    ACK_SECONDS,
    EXPLAINS_SECONDS,
    SUPERSEDED,
    Story,
    grouped,
)

_OVERLOADED = "NODE_OVERLOADED"

_CATCHING_UP_SECONDS = 5.0
"""How long after it was stopped a process may still do what had been sent to it meanwhile."""


def no_node_is_given_more_than_it_can_take(story: Story) -> Iterator[str]:
    """By the node's own count. When Redis has lost data, the node's own limit is the last one."""
    for refused in story.of(TurnedAway):
        if refused.code == _OVERLOADED and not story.lost_data(refused.at, refused.at):
            yield f"{refused.node_id} had no slot for attempt {refused.attempt_id}"
    for node_id, records in by_node(story).items():
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
    involved = Involved(story)
    for job_id, works in involved.works.items():
        for first, second in pairwise(sorted(works, key=lambda work: work.took.at)):
            if second.took.at >= first.ended_at:
                continue
            if not (_disturbed(story, involved, first, second) or _took_late(story, first, second)):
                yield (
                    f"job {job_id} was given to {second.took.node_id}"
                    f" {second.took.at - first.took.at:.1f} s after {first.took.node_id} had taken"
                    " it, and while it worked on it"
                )


def _disturbed(story: Story, involved: Involved, first: Work, second: Work) -> bool:
    """Whether the first node, its connection, its instance or Redis gave a cause to try elsewhere.

    The plan may have broken one of them, or the job's driver. Or those on the way of one of the two
    attempts stood still, unplanned, for so long that an acknowledgement came too late.
    """
    since, until, node_id = first.took.at, second.took.at, first.took.node_id
    drivers = involved.drivers(first.took.job_id, until)
    parted = any(
        record.node_id == node_id and since <= record.at <= until for record in story.of(NodeParted)
    )
    return (
        parted
        or story.disturbed(since, until, first.around | BETWEEN_ALL)
        or story.disturbed(since, until, drivers, aftermath_seconds=_CATCHING_UP_SECONDS)
        or story.stalled_seconds(
            since - ACK_SECONDS, until, first.around | second.around | drivers | BETWEEN_ALL
        )
        >= EXPLAINS_SECONDS
    )


def _took_late(story: Story, first: Work, second: Work) -> bool:
    """Whether the second one may have been given its attempt before the first was.

    Which of two attempts is the older, nodes cannot know. One that was stopped takes late what it
    was given early: then it was stopped when the other took its own, or had only just moved again.
    """
    return story.disturbed(
        first.took.at,
        second.took.at,
        second.around | BETWEEN_ALL,
        aftermath_seconds=_CATCHING_UP_SECONDS,
    )
