"""Sessions over HTTP: their languages, what is in flight, and how to end them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.peers import Peers
from dragoman.api.live.session_timeline import SessionTimeline, own_entries, timeline_of
from dragoman.api.paging import PageRequest, Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission, Principal, may_see, sees_every_tenant
from dragoman.errors import DependencyDown, JobEnded, NotFound
from dragoman.ids import InstanceId, SessionId
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import ListPage, SessionState, SessionView
from dragoman.live.sessions import Session
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r

Client = Annotated[Principal, Depends(require(Permission.SESSIONS))]

LAST_MOST = 1_000
Last = Annotated[int, Query(ge=1, le=LAST_MOST, description="How many utterances, at most.")]


class SessionPage(ListPage[SessionView], frozen=True):
    """Sessions of all instances, in the order of their ids."""

    unreachable: tuple[InstanceId, ...] = ()
    """Instances that are present and did not answer: their sessions are not among these."""


def sessions_router(
    prefix: str,
    plane: LivePlane,
    shared: SharedLedger | None,
    peers: Peers,
    instance_id: InstanceId,
) -> APIRouter:
    """Routes of sessions; none of them shows what was said. shared has those of all instances."""
    router = APIRouter(prefix=f"{prefix}/sessions", tags=["sessions"])

    def our_page(client: Principal, page: PageRequest) -> SessionPage:
        tenant = None if sees_every_tenant(client) else client.tenant
        found = plane.sessions.after(page.position(SessionId), page.limit + 1, tenant)
        return page_of((session_view(session, instance_id) for session in found), page.limit)

    async def is_recorded(session_id: SessionId, client: Principal) -> bool:
        record = None if shared is None else await shared.read_session(session_id)
        return record is not None and may_see(client, record.tenant)

    @router.get(
        "",
        summary="The tenant's sessions; an operator sees those of every tenant",
        response_class=Response,
        responses={200: {"model": shown_as("SessionPage", SessionPage)}},
    )
    async def known(request: Request, client: Client, page: Paging) -> Response:
        ours = our_page(client, page)
        if peers.answers_alone(request):
            return answer(ours)
        theirs = {
            name: None if body is None else msgspec.json.decode(body, type=SessionPage)
            for name, body in (await peers.ask_all(request)).items()
        }
        answered = [ours, *(found for found in theirs.values() if found is not None)]
        merged = merged_pages(answered, page.limit)
        unreachable = tuple(name for name, found in theirs.items() if found is None)
        return answer(msgspec.structs.replace(merged, unreachable=unreachable))

    @router.get(
        "/{session_id}",
        summary="A session",
        response_class=Response,
        responses={200: {"model": shown_as("Session", SessionView)}},
    )
    async def one(session_id: str, request: Request, client: Client) -> Response:
        session = plane.sessions.find(SessionId(session_id))
        if session is not None and may_see(client, session.tenant):
            return answer(session_view(session, instance_id))
        record = None
        if shared is not None and not peers.answers_alone(request):
            record = await shared.read_session(SessionId(session_id))
        if record is None or not may_see(client, record.tenant):
            raise _no_session(session_id)
        owner = record.owner.instance_id
        body = await peers.ask(owner, request)
        if body is not None:
            return Response(body, media_type="application/json")
        return answer(recorded_view(record, owner_present=peers.is_present(owner)))

    @router.get(
        "/{session_id}/timeline",
        summary="A session's last utterances, and where the time of each went",
        response_class=Response,
        responses={200: {"model": shown_as("SessionTimeline", SessionTimeline)}},
    )
    async def timeline(
        session_id: str, request: Request, client: Client, last: Last = 200
    ) -> Response:
        wanted = SessionId(session_id)
        deliveries = plane.sessions.recent.of_session(wanted)
        entries = own_entries(deliveries, instance_id, client)
        if peers.asks_one(request):
            return answer(timeline_of(wanted, entries, last))
        omitted, unreachable = 0, []
        for name, body in (await peers.ask_all(request)).items():
            if body is None:
                unreachable.append(name)
                continue
            theirs = msgspec.json.decode(body, type=SessionTimeline)
            entries += theirs.items
            omitted += theirs.omitted
        session = plane.sessions.find(wanted)
        is_known = session is not None and may_see(client, session.tenant)
        if not (entries or is_known or await is_recorded(wanted, client)):
            raise _no_session(session_id)
        return answer(timeline_of(wanted, entries, last, omitted, tuple(unreachable)))

    @router.delete(
        "/{session_id}",
        summary="End a session: close its connection and cancel its jobs",
        response_class=Response,
        responses={200: {"model": shown_as("SessionEnded", SessionView)}},
    )
    async def end(session_id: str, request: Request, client: Client) -> Response:
        session = plane.sessions.find(SessionId(session_id))
        if session is not None and may_see(client, session.tenant):
            await session.end()
            return answer(session_view(session, instance_id))
        record = None
        if shared is not None and not peers.answers_alone(request):
            record = await shared.read_session(SessionId(session_id))
        if record is None or not may_see(client, record.tenant):
            raise _no_session(session_id)
        owner = record.owner.instance_id
        body = await peers.ask(owner, request)
        if body is not None:
            return Response(body, media_type="application/json")
        if peers.is_present(owner):
            raise DependencyDown(
                f"Instance {owner}, which has session {session_id}, does not answer; try again."
            )
        # Its instance is gone, and no client has come back for it: only its record is left.
        assert shared is not None, "its record was read there"
        await shared.end_session(record.session_id, record.owner)
        for utterance in record.open:
            with suppress(JobEnded, NotFound):
                await plane.dispatcher.cancel(utterance.job_id)
        view = recorded_view(record, owner_present=False)
        return answer(msgspec.structs.replace(view, state=SessionState.OVER))

    return router


def _no_session(session_id: str) -> NotFound:
    return NotFound(f"There is no session {session_id}; it may have ended.")


def page_of(views: Iterable[SessionView], limit: int) -> SessionPage:
    """The first sessions of those given, in order, and where the next ones begin."""
    found = list(views)
    shown = found[:limit]
    more = len(found) > limit
    return SessionPage(shown, encode_cursor(shown[-1].session_id) if more else None)


def merged_pages(pages: Iterable[SessionPage], limit: int) -> SessionPage:
    """One page of several instances' pages; a session that was moving is shown once."""
    pages = list(pages)
    views = {view.session_id: view for page in pages for view in page.items}
    merged = page_of((views[session_id] for session_id in sorted(views)), limit)
    if merged.next is None and any(page.next is not None for page in pages):
        return msgspec.structs.replace(merged, next=encode_cursor(merged.items[-1].session_id))
    return merged


def session_view(session: Session, instance_id: InstanceId) -> SessionView:
    """A session as it may be shown."""
    return SessionView(
        session_id=session.session_id,
        tenant_id=session.tenant,
        src_lang=session.init.src_lang,
        tgt_langs=session.tgt_langs,
        state=session.state,
        instance_id=instance_id,
        utterances=session.next_utterance_index,
        in_flight=session.in_flight,
    )


def recorded_view(record: r.StoredSession, *, owner_present: bool) -> SessionView:
    """A session as its record has it, for when its instance cannot be asked."""
    return SessionView(
        session_id=record.session_id,
        tenant_id=record.tenant,
        src_lang=record.init.src_lang,
        tgt_langs=record.init.heard,
        state=SessionState.ACTIVE if owner_present else SessionState.DISCONNECTED,
        instance_id=record.owner.instance_id,
        utterances=record.next_index,
        in_flight=len({utterance.index for utterance in record.open}),
    )
