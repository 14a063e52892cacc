"""What goes into Redis comes out as it was; the forms are those that the Lua files describe."""

from __future__ import annotations

from random import Random
from struct import pack as struct_pack

import pytest

from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    NodeId,
    RequestId,
    SessionId,
    TenantId,
    new_attempt_id,
    new_id,
    new_job_id_for,
    request_digits,
    request_in,
    shard_for_request,
    shard_in,
)
from dragoman.live.ledger import JobInput, JobSpec, Owner, PastAttempt, Times
from dragoman.live.protocol import ErrorInfo, JobClass, JobResult, Outcome, Pipeline, SessionInit
from dragoman.live.shared import records as r
from dragoman.live.shared.redis import cell_packing, packing

RANDOM = Random(20_261_116)
SPEC = JobSpec(TenantId("acme"), RequestId("r-1"), "zh", "en", Pipeline(use_nmt=True))
HERE = InstanceId("i-here")
FAILED = ErrorInfo(code="INTERNAL_ERROR", message="Ein Übel: 模型")


def new_job() -> r.NewJob:
    job_id = new_job_id_for(RANDOM, "acme", "r-1", "en")
    return r.NewJob(
        job_id, SPEC, JobInput(text="hello"), b"\0\xff", "en", new_attempt_id(RANDOM), 7, 5_000
    )


def head(state: bytes, flags: int = 0, release_ms: int = 0, forget_ms: int = 0) -> bytes:
    """As job.lua packs it: HEAD."""
    return struct_pack(
        "<cBB7d", state, flags, 3, 1_000, 6_000, 2_000, -1, 1_500, release_ms, forget_ms
    )


# --- ids ----------------------------------------------------------------------------------------


def test_a_job_id_names_its_shard_and_its_request() -> None:
    job_id = new_job_id_for(RANDOM, "acme", "r-1", "en")
    assert shard_in(job_id) == shard_for_request("acme", "r-1")
    assert request_in(job_id) == request_digits("acme", "r-1", "en")
    assert new_job_id_for(RANDOM, "acme", "r-1", "en") != job_id


def test_an_utterance_lies_in_the_shard_of_its_session_for_every_target() -> None:
    session_id = new_id(RANDOM, "s")
    shards = {
        shard_in(new_job_id_for(RANDOM, "acme", f"{session_id}/{index}", target))
        for index in range(5)
        for target in ("en", "fr")
    }
    assert shards == {shard_in(session_id)}


@pytest.mark.parametrize("name", ["", "s", "s-", "s-0", "j-zz00", "n-0011", "jx0011", "s-ä"])
def test_what_is_no_id_names_no_shard(name: str) -> None:
    assert shard_in(name) is None


@pytest.mark.parametrize("name", ["", "j-00", "j-" + "0" * 26, "s-" + "0" * 34, "j-" + "g" * 34])
def test_what_is_no_job_id_names_no_request(name: str) -> None:
    assert request_in(name) is None


def test_a_clients_request_that_looks_like_an_utterance_of_no_session_is_hashed() -> None:
    assert shard_for_request("acme", "s-xyz/1") == shard_for_request("acme", "s-xyz/1")
    assert shard_for_request("acme", "s-" + "z" * 24 + "/1") in range(256)


# --- names and blocks ---------------------------------------------------------------------------


def test_names_and_blocks_come_back() -> None:
    data = packing.names("ä", b"\0", "") + packing.block(b"x" * 300)
    first, at = packing.name_at(data, 0)
    second, at = packing.name_at(data, at)
    third, at = packing.name_at(data, at)
    assert (first.decode(), second, third) == ("ä", b"\0", b"")
    assert packing.block_at(data, at) == (b"x" * 300, len(data))


def test_a_name_that_is_too_long_is_refused() -> None:
    packing.names("x" * 255)
    with pytest.raises(ValueError, match="256 bytes"):
        packing.names("x" * 256)


# --- jobs ---------------------------------------------------------------------------------------


def test_an_open_job_comes_back_with_its_input_and_its_past() -> None:
    job = new_job()
    past = PastAttempt(AttemptId("a-0"), 3, NodeId("n-1"), error=FAILED, times=Times(1, 2, 3, 4))
    value = (
        head(b"O")
        + packing.new_record(job, HERE, packing.pack(job.input))
        + packing.block(packing.pack(past)) * 2
    )
    record = packing.read_record(value, 0)
    assert record.is_open
    assert record.input is not None
    assert packing.read_input(record.input) == job.input
    assert record.job == r.StoredJob(
        job.job_id,
        SPEC,
        b"\0\xff",
        HERE,
        job.attempt_id,
        7,
        created_ms=1_000,
        claim_until_ms=6_000,
        total_until_ms=None,
        past=(past, past),
        preemptions=3,
    )


def test_an_input_that_lies_elsewhere_is_not_taken_for_an_empty_one() -> None:
    value = head(b"O", packing.INPUT_ELSEWHERE) + packing.new_record(new_job(), HERE, b"")
    assert packing.read_record(value, 0).input is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_ended_job_has_its_result_until_its_payload_goes(outcome: Outcome) -> None:
    job = new_job()
    result = JobResult(job.job_id, job.attempt_id, True, tts_audio=b"\0\1")
    body = packing.end_body(FAILED, NodeId("n-1"), Times(1, 2, 3, 4), packing.pack(result))
    value = head(packing.STATES[outcome], release_ms=9_000, forget_ms=9_500)
    value += packing.new_record(job, HERE, body)
    before, after = packing.read_record(value, 8_999).job, packing.read_record(value, 9_000).job
    assert (before.outcome, before.error, before.node_id) == (outcome, FAILED, NodeId("n-1"))
    assert (before.output, before.released, before.times) == (result, False, Times(1, 2, 3, 4))
    assert (after.output, after.released) == (None, True)
    assert not packing.is_forgotten(value, 9_499)
    assert packing.is_forgotten(value, 9_500)


# --- sessions -----------------------------------------------------------------------------------


def test_a_session_comes_back_whole() -> None:
    sent = (
        r.SentDelivery(4, r.Delivery(1, "en", new_job().job_id)),
        r.SentDelivery(5, r.Delivery(2, "zh-Hant", None, "RATE_LIMITED")),
    )
    session = r.StoredSession(
        session_id=SessionId(new_id(RANDOM, "s")),
        tenant=TenantId("acme"),
        secret_hash="geheim",
        init=SessionInit(src_lang="zh", tgt_langs=("en", "zh-Hant")),
        owner=r.SessionOwner(HERE, ConnectionId("c-1"), 3),
        revision=9,
        next_chunk_seq=12,
        half_sample=b"\x7f",
        next_index=4,
        next_seq=6,
        open=(
            r.OpenUtterance(2, "en", new_job().job_id),
            r.OpenUtterance(3, "a target", new_job().job_id),
        ),
        unacknowledged=sent,
        ended={"en": 1, "zh-Hant": 2},
    )
    fields = packing.session_fields(session)
    stored = dict(zip(fields[::2], fields[1::2], strict=True))
    stored |= {b"h": packing.session_header(session), b"s": packing.session_start(session)}
    read, before = packing.read_session(session.session_id, stored)
    assert read == session
    assert before == session.owner


# --- cells --------------------------------------------------------------------------------------


def entry(state: int, extra: bytes = b"", node: bytes = b"\0" * 8) -> bytes:
    """As attempt.lua packs it: ENTRY."""
    numbers = struct_pack(
        "<BBBBB4I6d8s", 5, state, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, node
    )
    return numbers + packing.names("j-1", HERE, "a-heir") + extra


def test_an_attempt_comes_back_with_the_owner_of_its_seat() -> None:
    node_id, owner = NodeId("n-ä"), Owner(HERE, ConnectionId("c-1"), 4)
    read = cell_packing.read_entry(
        b"a-1~", entry(3, packing.pack(FAILED), cell_packing.node_digest(node_id))
    )
    stored = cell_packing.stored_attempt(2, read, cell_packing.pack_owner(node_id, owner))
    assert stored is not None
    assert (stored.attempt_id, stored.job_id, stored.cell) == ("a-1", "j-1", 2)
    assert (stored.node_id, stored.owner, stored.instance_id) == (node_id, owner, HERE)
    assert (stored.job_class, stored.preemptions, stored.asked) == (JobClass.BATCH, 3, True)
    assert (stored.error, stored.times, stored.due_at_ms) == (FAILED, Times(11, 12, 13, 0), 10)


def test_an_attempt_whose_seat_is_another_nodes_now_has_no_owner() -> None:
    read = cell_packing.read_entry(b"a-1", entry(0, node=cell_packing.node_digest(NodeId("n-1"))))
    other = cell_packing.pack_owner(NodeId("n-2"), Owner(HERE, ConnectionId("c-1"), 4))
    assert cell_packing.stored_attempt(0, read, other) is None
    assert cell_packing.stored_attempt(0, read, b"") is None


def test_a_finished_attempt_carries_its_owner_and_its_end() -> None:
    node_id, owner = NodeId("n-1"), Owner(HERE, ConnectionId("c-1"), 4)
    packed_owner = cell_packing.pack_owner(node_id, owner)
    result = JobResult(new_job().job_id, AttemptId("a-1"), True, text_translated="hola")
    extra = struct_pack("<H", len(packed_owner)) + packed_owner
    extra += cell_packing.pack_end(Outcome.SUCCESS, None, result)
    read = cell_packing.read_entry(b"a-1", entry(4, extra, cell_packing.node_digest(node_id)))
    stored = cell_packing.stored_attempt(0, read, b"")
    assert stored is not None
    assert (stored.owner, stored.outcome, stored.output) == (owner, Outcome.SUCCESS, result)
    assert stored.times.finished_ms == 14
    assert not read.result_elsewhere


@pytest.mark.parametrize(
    ("mask", "found"), [(0, b""), (0b101, b"\0\2"), (1 << 99, b"\x63"), (1 << 300 | 1, b"\0")]
)
def test_candidates_are_a_byte_each(mask: int, found: bytes) -> None:
    assert cell_packing.candidate_bytes(mask) == found
