"""Sessions over HTTP: who is talking, into which languages, and how much is in flight."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.auth import Permission, Principal, Role, may_see, require
from dragoman.errors import NotFound
from dragoman.ids import InstanceId, SessionId
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import ListPage, SessionView
from dragoman.live.sessions import Session

Client = Annotated[Principal, Depends(require(Permission.SESSIONS))]


def sessions_router(prefix: str, plane: LivePlane, instance_id: InstanceId) -> APIRouter:
    """The routes of whoever looks after conversations; nothing here tells what was said."""
    router = APIRouter(prefix=f"{prefix}/sessions", tags=["sessions"])

    @router.get(
        "",
        summary="The tenant's sessions; an operator sees everybody's",
        response_class=Response,
        responses={200: {"model": shown_as("SessionPage", ListPage[SessionView])}},
    )
    async def known(client: Client, page: Paging) -> Response:
        tenant = None if client.role is Role.OPERATOR else client.tenant
        found = plane.sessions.after(page.position(SessionId), page.limit + 1, tenant)
        shown = found[: page.limit]
        more = len(found) > page.limit
        return answer(
            ListPage(
                [session_view(session, instance_id) for session in shown],
                encode_cursor(shown[-1].session_id) if more else None,
            )
        )

    @router.get(
        "/{session_id}",
        summary="A session",
        response_class=Response,
        responses={200: {"model": shown_as("Session", SessionView)}},
    )
    async def one(session_id: str, client: Client) -> Response:
        session = plane.sessions.find(SessionId(session_id))
        if session is None or not may_see(client, session.tenant):
            raise NotFound(f"There is no session {session_id}; it may have ended.")
        return answer(session_view(session, instance_id))

    return router


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
