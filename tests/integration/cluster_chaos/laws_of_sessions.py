"""What holds for speakers: every utterance ends once, in order, and as its own."""

from __future__ import annotations

from collections.abc import Iterator

from tests.integration.cluster_chaos.instances import RESUME_GRACE_SECONDS
from tests.integration.cluster_chaos.involved import BETWEEN_ALL, Involved, process_of
from tests.integration.cluster_chaos.node_process import translated
from tests.integration.cluster_chaos.records import (
    Closed,
    Heard,
    Opened,
    Parted,
    Said,
    SpeakerRecord,
)
from tests.integration.cluster_chaos.speakers import targets_of
from tests.integration.cluster_chaos.story import EXPLAINS_SECONDS, SUPERSEDED, Story, grouped

_MOST_ATTEMPTS = 3
"""As in the instances' settings."""


def every_utterance_ends_once(story: Story) -> Iterator[str]:
    """For each target, with a result or with a reason, unless the speaker lost the session.

    And under one number, also when Redis lost data: a client that heard more than the record of
    its session knows gets the same numbers again, or another session.
    """
    closed = {record.session_id for record in story.of(Closed)}
    opened = {record.session_id: record.speaker for record in story.of(Opened)}
    gone = {session_id for session_id, _ in _lost_sessions(story)}
    said = grouped(story.of(Said), lambda record: record.session_id)
    heard = grouped(story.of(Heard), lambda record: record.session_id)
    for session_id, speaker in opened.items():
        if session_id not in closed | gone:
            yield f"{speaker}'s session {session_id} was never closed"
        ends = grouped(heard[session_id], lambda record: (record.index, record.tgt_lang))
        for (index, tgt_lang), found in ends.items():
            numbers = {record.number for record in found}
            if len(numbers) > 1:
                yield f"{speaker}'s {index} to {tgt_lang} ended as {sorted(numbers)}"
        for index in {record.index for record in said[session_id]}:
            unheard = [lang for lang in targets_of(speaker) if not ends[index, lang]]
            if unheard and session_id in closed:
                yield f"{speaker}'s {index} never ended for {', '.join(unheard)} in {session_id}"


def order_is_kept(story: Story) -> Iterator[str]:
    """Numbers come one after the other, and with them the utterances of each target."""
    for session_id, heard in _first_times(story).items():
        numbers = [record.number for record in heard]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"session {session_id} heard {_first_break(numbers)}"
        for tgt_lang, ends in grouped(heard, lambda record: record.tgt_lang).items():
            indexes = [record.index for record in ends]
            if indexes != sorted(indexes):
                yield f"session {session_id} heard {indexes} for {tgt_lang}"


def what_comes_again_is_the_same(story: Story) -> Iterator[str]:
    """A number stands for one end. A result that is no longer kept may come again as missing."""
    deliveries = grouped(story.of(Heard), lambda record: (record.session_id, record.number))
    for (session_id, number), heard in deliveries.items():
        ends = {(record.index, record.tgt_lang) for record in heard}
        texts = {record.text for record in heard if record.reason is None}
        if len(ends) > 1 or len(texts) > 1:
            yield f"number {number} of session {session_id} was {heard}"


def results_are_their_own(story: Story) -> Iterator[str]:
    """What a speaker hears is the translation of what it said."""
    said = {(record.session_id, record.index): record.text for record in story.of(Said)}
    for record in story.of(Heard):
        if record.reason is not None:
            continue
        text = said.get((record.session_id, record.index))
        if text is None or record.text != translated(text, record.tgt_lang or ""):
            yield f"{record.speaker} said {text!r} and heard {record.text!r}"


def no_session_is_lost_without_cause(story: Story) -> Iterator[str]:
    """Only when Redis lost data, or when the speaker stayed away for longer than it may."""
    for session_id, (left_at, back_at) in _lost_sessions(story):
        if back_at - left_at < RESUME_GRACE_SECONDS and not story.lost_data(left_at, back_at):
            yield f"session {session_id} was gone after {back_at - left_at:.1f} s"


def no_session_is_taken_from_a_live_speaker(story: Story) -> Iterator[str]:
    """A speaker has one connection at a time: no other can have gone on with its session."""
    for record in story.of(Parted):
        if record.code == SUPERSEDED:
            yield f"{record.speaker} was superseded, and there was no other"


def nothing_is_missing_in_quiet_times(story: Story) -> Iterator[str]:
    """An utterance for which nothing went wrong has a result."""
    involved = Involved(story)
    for record in story.of(Heard):
        if record.reason is None or story.disturbed(involved.said_at(record), record.at):
            continue
        if not (_stood_still(story, involved, record) or _failed_everywhere(involved, record)):
            yield f"{record.speaker}'s {record.index} is missing: {record.reason}"


def _stood_still(story: Story, involved: Involved, missing: Heard) -> bool:
    """Whether those the utterance depended on stood still, unplanned, past a time limit."""
    since, until = involved.said_at(missing), missing.at
    whom = {
        process_of(missing.speaker),
        *involved.holders(missing.session_id, since, until),
        *BETWEEN_ALL,
    }
    for work in involved.works_for(missing):
        whom |= work.around
    return story.stalled_seconds(since, until, whom) >= EXPLAINS_SECONDS


def _failed_everywhere(involved: Involved, missing: Heard) -> bool:
    """Whether as many nodes as may be tried for one target answered with a failure."""
    jobs = grouped(involved.works_for(missing), lambda work: work.took.job_id)
    return any(
        sum(work.code is not None for work in works) >= _MOST_ATTEMPTS for works in jobs.values()
    )


def _first_times(story: Story) -> dict[str, list[Heard]]:
    """The ends of each session without those that came again."""
    known: set[tuple[str, int]] = set()
    first: list[Heard] = []
    for record in story.of(Heard):
        if (record.session_id, record.number) not in known:
            known.add((record.session_id, record.number))
            first.append(record)
    return grouped(first, lambda record: record.session_id)


def _lost_sessions(story: Story) -> Iterator[tuple[str, tuple[float, float]]]:
    """Sessions in whose place the speaker got another, with when it left and when it was back.

    It is away since the first connection that it lost. Those that it lost before an instance
    acknowledged the session again were no return.
    """
    for own in grouped(story.of(SpeakerRecord), lambda record: record.speaker).values():
        current: str | None = None
        left_at: float | None = None
        for record in own:
            match record:
                case Opened():
                    if current is not None and record.session_id != current:
                        yield current, (left_at or 0.0, record.at)
                    current, left_at = record.session_id, None
                case Parted() if left_at is None:
                    left_at = record.at
                case Closed():
                    current = None


def _first_break(numbers: list[int]) -> str:
    for expected, number in enumerate(numbers, 1):
        if number != expected:
            return f"number {number} where {expected} was due"
    return "nothing wrong"
