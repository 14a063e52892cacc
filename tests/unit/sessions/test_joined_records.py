"""What an owner knows to be stored, and what it finds in a record that was taken back in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions import Delivered, OpenJob, SessionOwner, SessionRecord
from dragoman.live.sessions.hold import joined
from dragoman.live.sessions.revival import is_behind

START = SessionRecord(
    SessionId("s"),
    TenantId("t"),
    "",
    SessionInit(src_lang="en", tgt_langs=("es", "de")),
    SessionOwner(InstanceId("a"), ConnectionId("c"), 1),
)


def job(index: int, target: str = "es") -> OpenJob:
    return OpenJob(index, target, JobId(f"j{index}{target}"))


def sent(seq: int, index: int, target: str = "es") -> Delivered:
    return Delivered(seq, index, target, JobId(f"j{index}{target}"))


def record(
    *jobs: OpenJob,
    said: int,
    ended: Mapping[str, int],
    next_seq: int = 1,
    unacknowledged: Sequence[Delivered] = (),
    revision: int = 1,
) -> SessionRecord:
    return msgspec.structs.replace(
        START,
        revision=revision,
        next_chunk_seq=10 * said,
        next_utterance_index=said,
        next_delivery_seq=next_seq,
        open_jobs=jobs,
        unacknowledged=tuple(unacknowledged),
        ended=dict(ended),
    )


KNOWN = record(
    job(3),
    job(4),
    said=5,
    ended={"es": 2, "de": 4},
    next_seq=9,
    unacknowledged=[sent(7, 2), sent(8, 4, "de")],
    revision=20,
)


def test_an_earlier_state_adds_nothing_but_targets_of_single_utterances() -> None:
    earlier = record(
        job(2), job(3), job(3, "de"), said=4, ended={"es": 1, "de": 2, "fr": 1}, next_seq=7
    )
    found = joined(KNOWN, earlier)
    assert found == msgspec.structs.replace(KNOWN, ended={"es": 2, "de": 4, "fr": 1})


def test_an_utterance_that_ended_for_a_target_of_its_own_does_not_open_again() -> None:
    assert joined(KNOWN, record(job(1, "fr"), said=4, ended={})).open_jobs == KNOWN.open_jobs


def test_an_utterance_that_was_stored_unheard_stays() -> None:
    found = joined(KNOWN, record(job(5), job(5, "de"), said=6, ended={}, revision=12))
    assert found.open_jobs == (job(3), job(4), job(5, "de"), job(5))
    assert (found.next_utterance_index, found.next_chunk_seq) == (6, 60)


def test_an_end_that_was_stored_unheard_stays() -> None:
    earlier = record(
        job(4), said=5, ended={"es": 3}, next_seq=10, unacknowledged=[sent(7, 2), sent(9, 3)]
    )
    found = joined(KNOWN, earlier)
    assert found.open_jobs == (job(4),)
    assert found.unacknowledged == (*KNOWN.unacknowledged, sent(9, 3))
    assert found.next_delivery_seq == 10


def test_the_newer_revision_counts() -> None:
    assert joined(KNOWN, record(said=4, ended={}, revision=12)).revision == 20
    assert joined(KNOWN, record(said=4, ended={}, revision=25)).revision == 25


HISTORY = st.lists(st.sampled_from(("say", "end es", "end de", "ack")), max_size=40)


def told(steps: Sequence[str]) -> SessionRecord:
    """The record after an owner has told all this."""
    said, seq, acknowledged = 0, 0, 0
    ended = {"es": -1, "de": -1}
    deliveries: list[Delivered] = []
    for step in steps:
        target = step.rpartition(" ")[2]
        if step == "say":
            said += 1
        elif step == "ack":
            acknowledged = seq
        elif ended[target] < said - 1:
            ended[target] += 1
            seq += 1
            deliveries.append(sent(seq, ended[target], target))
    jobs = [
        job(index, target)
        for index in range(said)
        for target in ("de", "es")
        if index > ended[target]
    ]
    return record(
        *jobs,
        said=said,
        ended={target: index for target, index in ended.items() if index >= 0},
        next_seq=seq + 1,
        unacknowledged=[entry for entry in deliveries if entry.delivery_seq > acknowledged],
        revision=1 + len(steps),
    )


@given(HISTORY, st.integers(0, 40))
def test_whatever_was_lost_comes_back(steps: list[str], kept: int) -> None:
    assert joined(told(steps), told(steps[:kept])) == told(steps)


@given(HISTORY, st.integers(0, 40))
def test_whatever_was_stored_unheard_stays(steps: list[str], heard: int) -> None:
    unheard = [step for step in steps[heard:] if step != "ack"]
    stored = [*steps[:heard], *unheard]
    assert joined(told(steps[:heard]), told(stored)) == told(stored)


# --- clients that have heard more ----------------------------------------------------------------

ONE = msgspec.structs.replace(KNOWN, init=SessionInit(src_lang="en", tgt_lang="es"))


@pytest.mark.parametrize("has_upto", [0, 7, 8])
def test_a_record_that_knows_what_its_client_heard_is_gone_on_with(has_upto: int) -> None:
    assert not is_behind(KNOWN, has_upto)
    assert not is_behind(ONE, has_upto)


def test_with_several_targets_a_client_that_heard_more_goes_on_in_a_new_session() -> None:
    assert is_behind(KNOWN, 9)
    assert is_behind(msgspec.structs.replace(ONE, open_jobs=(job(3), job(4, "fr"))), 9)


def test_with_one_target_each_end_has_its_number_again() -> None:
    assert not is_behind(ONE, 9)
