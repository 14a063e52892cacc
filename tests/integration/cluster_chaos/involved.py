"""Which processes the work on a job, or the end of an utterance, depended on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from tests.integration.cluster_chaos.faults import CABLES, REDIS
from tests.integration.cluster_chaos.records import (
    Asked,
    Gave,
    Heard,
    JobSeen,
    NodeBegan,
    NodeJoined,
    NodeRecord,
    Opened,
    Said,
    Took,
)
from tests.integration.cluster_chaos.story import EXPLAINS_SECONDS, Story, grouped

BETWEEN_ALL = frozenset({REDIS, CABLES})
"""What every message passes through."""


class Work(msgspec.Struct):
    """A node's work on one attempt."""

    took: Took
    instance_id: str
    """Where the node was connected when it took the attempt."""
    ended_at: float = float("inf")
    """When it gave an answer, or when its process began anew."""
    code: str | None = None
    """Of an answer that was a failure."""

    @property
    def around(self) -> set[str]:
        """The node's process, and its instance."""
        return {process_of(self.took.node_id), self.instance_id}


class Involved:
    """Looks up whom something depended on."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.works = grouped(_works(story), lambda work: work.took.job_id)
        """By job."""
        self._seen = {record.job_id: record for record in story.of(JobSeen)}
        self._jobs = grouped(
            self._seen.values(), lambda record: (record.session_id or "", record.index)
        )
        self._opened = grouped(story.of(Opened), lambda record: record.session_id)
        self._asked = grouped(story.of(Asked), lambda record: _text_of(record))
        self._said_at: dict[tuple[str, int], float] = {}
        for said in story.of(Said):
            self._said_at.setdefault((said.session_id, said.index), said.at)
        self._instances = {
            *(record.instance_id for record in story.of(Opened)),
            *(record.instance_id for record in story.of(Asked)),
            *(record.instance_id for record in story.of(NodeJoined)),
        }

    def said_at(self, heard: Heard) -> float:
        """When the utterance was said for the first time."""
        return self._said_at.get((heard.session_id, heard.index), heard.at)

    def works_for(self, heard: Heard) -> Sequence[Work]:
        """All work on an utterance, for whichever target."""
        jobs = self._jobs[heard.session_id, heard.index]
        return [work for seen in jobs for work in self.works[seen.job_id]]

    def drivers(self, job_id: str, until: float) -> set[str]:
        """The instances that may have driven a job by then; all of them if that is not known."""
        seen = self._seen.get(job_id)
        if seen is None:
            return self._instances
        if seen.session_id is None:
            asked = [record for record in self._asked[seen.text] if record.at <= until]
            since = asked[0].at if asked else until
            return self._or_all({record.instance_id for record in asked}, since, until)
        said_at = self._said_at.get((seen.session_id, seen.index or 0), until)
        return self.holders(seen.session_id, said_at, until)

    def holders(self, session_id: str, since: float, until: float) -> set[str]:
        """The instances that held a session in this time, and may have taken over its jobs."""
        held: set[str] = set()
        for record in self._opened[session_id]:
            if record.at <= since:
                held.clear()
            if record.at <= until:
                held.add(record.instance_id)
        return self._or_all(held, since, until)

    def _or_all(self, drivers: set[str], since: float, until: float) -> set[str]:
        """Where a driver was not well, any instance may have taken its jobs over."""
        story = self._story
        if (
            not drivers
            or story.disturbed(since, until, drivers)
            or story.stalled_seconds(since, until, drivers) >= EXPLAINS_SECONDS
        ):
            return self._instances
        return drivers


def process_of(name: str) -> str:
    """The process of a node or a speaker."""
    return name.partition(".")[0]


def by_node(story: Story) -> Mapping[str, Sequence[NodeRecord]]:
    return grouped(story.of(NodeRecord), lambda record: record.node_id)


def _text_of(asked: Asked) -> str:
    return f"{asked.request_id} asks"


def _works(story: Story) -> Iterator[Work]:
    for own in by_node(story).values():
        yield from _works_of_one(own)


def _works_of_one(records: Iterable[NodeRecord]) -> Iterator[Work]:
    instance_id = ""
    open_works: dict[str, Work] = {}
    for record in records:
        match record:
            case NodeJoined():
                instance_id = record.instance_id
            case Took():
                open_works[record.attempt_id] = Work(record, instance_id)
            case Gave():
                work = open_works.pop(record.attempt_id, None)
                if work is not None:
                    work.ended_at, work.code = record.at, record.code
                    yield work
            case NodeBegan():
                for work in open_works.values():
                    work.ended_at = record.at
                    yield work
                open_works.clear()
    yield from open_works.values()
