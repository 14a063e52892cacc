"""Whether the laws held, judged only by what everybody wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.integration.cluster_chaos import laws_of_jobs, laws_of_nodes, laws_of_sessions
from tests.integration.cluster_chaos.records import GaveUp, LeftBehind, Record
from tests.integration.cluster_chaos.story import Story

Law = Callable[[Story], Iterator[str]]


def nobody_gives_up(story: Story) -> Iterator[str]:
    """An honest peer can go on, whatever happens to others."""
    for record in story.of(GaveUp):
        yield f"{record.who} could not go on: {record.why}"


def nothing_is_left_behind(story: Story) -> Iterator[str]:
    """Every slot returns, and nothing is kept of sessions that were closed."""
    for record in story.of(LeftBehind):
        yield f"{record.count} {record.what} left, as {record.seen_at} sees it"


LAWS: Sequence[Law] = (
    laws_of_nodes.no_node_is_given_more_than_it_can_take,
    laws_of_nodes.nothing_is_taken_from_a_live_node,
    laws_of_nodes.no_attempt_is_worked_on_twice,
    laws_of_sessions.every_utterance_ends_once,
    laws_of_sessions.order_is_kept,
    laws_of_sessions.what_comes_again_is_the_same,
    laws_of_sessions.results_are_their_own,
    laws_of_sessions.no_session_is_lost_without_cause,
    laws_of_sessions.no_session_is_taken_from_a_live_speaker,
    laws_of_sessions.nothing_is_missing_in_quiet_times,
    laws_of_jobs.a_request_is_one_job_with_one_end,
    nobody_gives_up,
    nothing_is_left_behind,
)


def broken_laws(records: Iterable[Record]) -> list[str]:
    """What went against which law; empty when all of them held."""
    story = Story(records)
    return [f"{law.__name__}: {broken}" for law in LAWS for broken in law(story)]
