"""Sessions of several instances as one list: complete, in order, each once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.api.live.sessions import SessionPage, merged_pages, page_of, recorded_view
from dragoman.api.paging import decode_cursor
from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import Mode, SessionInit, SessionState, SessionView
from dragoman.live.shared.records import OpenUtterance, SessionOwner, StoredSession


def view(session_id: str, instance_id: str) -> SessionView:
    return SessionView(
        session_id=SessionId(session_id),
        tenant_id=TenantId("t"),
        src_lang="en",
        tgt_langs=("es",),
        state=SessionState.ACTIVE,
        instance_id=InstanceId(instance_id),
        utterances=0,
        in_flight=0,
    )


def first_page(sessions: set[str], instance_id: str, after: str, limit: int) -> SessionPage:
    """What one instance answers."""
    later = sorted(session_id for session_id in sessions if session_id > after)
    return page_of((view(session_id, instance_id) for session_id in later[: limit + 1]), limit)


@given(
    st.lists(st.sets(st.text("abc", min_size=1, max_size=4)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_page_after_page_shows_every_session_once_and_in_order(
    instances: list[set[str]], limit: int
) -> None:
    shown: list[str] = []
    after = ""
    while True:
        answers = [first_page(own, str(n), after, limit) for n, own in enumerate(instances)]
        page = merged_pages(answers, limit)
        shown += [found.session_id for found in page.items]
        assert len(page.items) <= limit
        if page.next is None:
            break
        after = decode_cursor(page.next, str)

    assert shown == sorted(set().union(*instances))


def test_a_session_whose_instance_is_gone_is_shown_as_its_record_has_it() -> None:
    record = StoredSession(
        session_id=SessionId("s"),
        tenant=TenantId("t"),
        secret_hash="",
        init=SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="zh", lang_b="en"),
        owner=SessionOwner(InstanceId("one"), ConnectionId("c"), 3),
        next_index=7,
        open=(
            OpenUtterance(5, "en", JobId("j1")),
            OpenUtterance(5, "zh", JobId("j2")),
            OpenUtterance(6, "en", JobId("")),
        ),
    )

    shown = recorded_view(record, owner_present=False)

    assert (shown.state, shown.instance_id) == (SessionState.DISCONNECTED, "one")
    assert shown.tgt_langs == ("zh", "en")
    assert (shown.utterances, shown.in_flight) == (7, 2)
    assert recorded_view(record, owner_present=True).state is SessionState.ACTIVE
