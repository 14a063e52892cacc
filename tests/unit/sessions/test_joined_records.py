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
from dragoman.live.sessions.revival import is_behind, numbered_on

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


# --- numbers that the client has had ------------------------------------------------------------


@pytest.mark.parametrize("has_upto", [0, 7, 8])
def test_numbers_go_on_after_what_the_record_knows(has_upto: int) -> None:
    assert numbered_on(KNOWN, has_upto) == KNOWN


def test_a_client_that_heard_more_hears_of_several_targets_under_new_numbers() -> None:
    assert numbered_on(KNOWN, 11).next_delivery_seq == 12


def test_with_one_target_each_end_has_its_number_again() -> None:
    one = msgspec.structs.replace(KNOWN, init=SessionInit(src_lang="en", tgt_lang="es"))
    assert numbered_on(one, 11) == one
    with_another = msgspec.structs.replace(one, open_jobs=(job(3), job(4, "fr")))
    assert numbered_on(with_another, 11).next_delivery_seq == 12


def test_a_client_that_heard_everything_the_record_knows_hears_nothing_again() -> None:
    most = KNOWN.next_utterance_index * len(KNOWN.init.targets)
    on = numbered_on(KNOWN, most)
    assert (on.next_delivery_seq, on.open_jobs) == (most + 1, ())
    assert set(on.ended.values()) == {KNOWN.next_utterance_index - 1}
    assert not is_behind(KNOWN, most)


def test_a_record_is_behind_a_client_that_heard_of_an_utterance_it_does_not_know() -> None:
    most = KNOWN.next_utterance_index * len(KNOWN.init.targets)
    assert is_behind(KNOWN, most + 1)
    assert not is_behind(KNOWN, 0)
