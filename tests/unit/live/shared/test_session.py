"""A session's record in memory, without a ledger around it."""

from __future__ import annotations

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.ledger import Keep
from dragoman.live.protocol import SessionInit
from dragoman.live.shared import records as r
from dragoman.live.shared.memory.session import ShardSession

OWNER = r.SessionOwner(InstanceId("i-1"), ConnectionId("c-1"), 1)


def new_session(keep_delivered: int = 100) -> ShardSession:
    record = r.StoredSession(
        session_id=SessionId("s-00"),
        tenant=TenantId("acme"),
        secret_hash="",
        init=SessionInit(src_lang="zh", tgt_lang="en"),
        owner=OWNER,
    )
    return ShardSession(record, keep_delivered)


def open_next(session: ShardSession, *targets: str, chunk: int = 0, half: bytes = b"") -> int:
    """Open the next utterance for some targets; its index."""
    index = session.next_index
    opening = r.UtteranceOpening(
        jobs=(),
        instance_id=OWNER.instance_id,
        claim_ms=1,
        keep=Keep(1, 1),
        index=index,
        next_chunk_seq=chunk,
        half_sample=half,
    )
    session.open(opening, [r.OpenUtterance(index, to, JobId(f"j-{index}")) for to in targets])
    return index


def end_of(index: int, target: str = "en") -> r.Delivery:
    return r.Delivery(index, target, JobId(f"j-{index}"))


def test_a_record_survives_being_written_and_read() -> None:
    session = new_session()
    for _ in range(3):
        open_next(session, "en", "fr")
    session.deliver([end_of(0, "fr"), end_of(0, "en"), end_of(1, "fr")])
    session.acknowledge(1)
    record = session.record()
    assert ShardSession(record, 100).record() == record


def test_the_half_sample_goes_with_the_chunks_before_it() -> None:
    session = new_session()
    open_next(session, "en", chunk=5, half=b"5")
    open_next(session, "en", chunk=4, half=b"4")
    assert (session.next_chunk_seq, session.half_sample) == (5, b"5")


def test_an_end_takes_its_turn_only_after_those_before_it() -> None:
    session = new_session()
    for _ in range(3):
        open_next(session, "en")
    assert session.deliver([end_of(2), end_of(0), end_of(2), end_of(1), end_of(2)]) == (
        None,
        1,
        None,
        2,
        3,
    )


def test_an_utterance_without_the_target_is_not_waited_for() -> None:
    session = new_session()
    open_next(session, "fr")
    open_next(session, "en")
    assert session.deliver([end_of(1, "en"), end_of(0, "fr")]) == (1, 2)


def test_a_late_delivery_gets_no_number_although_its_target_was_forgotten() -> None:
    session = new_session()
    targets = [f"t{number:02}" for number in range(r.MOST_TARGETS_ENDED + 1)]
    for index, target in enumerate(targets):
        open_next(session, target)
        session.deliver([end_of(index, target)])
    session.acknowledge(len(targets))
    assert targets[0] not in session.record().ended
    assert session.deliver([end_of(0, targets[0])]) == (0,)


def test_only_a_step_that_changed_something_is_a_revision() -> None:
    session = new_session()
    open_next(session, "en")
    session.deliver([end_of(0)])
    session.acknowledge(1)
    revision = session.revision
    session.deliver([end_of(0), end_of(7)])
    session.acknowledge(1)
    session.acknowledge(0)
    assert session.revision == revision


def test_marks_are_bounded_too() -> None:
    session = new_session(keep_delivered=1)
    last = 3 + r.MARKS_PER_DELIVERY
    for _ in range(last):
        session.deliver([end_of(open_next(session, "en"))])
    sent = session.record().unacknowledged
    assert [each.seq for each in sent] == list(range(last - r.MARKS_PER_DELIVERY, last + 1))
    assert [each.delivery.job_id is None for each in sent] == [True] * 16 + [False]
    assert session.deliver([end_of(0)]) == (0,)


def test_an_owner_remembers_whom_it_took_the_session_from() -> None:
    session = new_session()
    assert session.before == OWNER
    session.take(InstanceId("i-2"), ConnectionId("c-2"))
    assert session.owner == r.SessionOwner(InstanceId("i-2"), ConnectionId("c-2"), 2)
    assert session.before == OWNER
