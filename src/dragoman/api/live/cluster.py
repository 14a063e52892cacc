"""The cluster over HTTP: which instances there are, and notes that none of them could handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.errors import NotFound, RateLimited
from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    Burial,
    Cluster,
    DeadLetter,
    InboxFull,
    InstanceGone,
    InstanceView,
    NoSuchLetter,
    Posted,
    decode_note,
)
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import ListPage, utc_time

_RETRY_MS = 1_000


class InstanceShown(msgspec.Struct, frozen=True):
    """An instance; what it has connected is as it last said."""

    instance_id: InstanceId
    alive: bool
    """False: it went silent, and no other instance has cleaned up after it yet."""
    nodes: int
    sessions: int
    inbox_length: int
    """Notes to it, those that it works on included."""
    pending: int
    """Notes that it works on."""
    dead_letters: int
    """Notes to it that were given up."""
    url: str | None = None
    """Where other instances ask it."""
    started_at: str | None = None
    draining: bool = False


class ClusterShown(msgspec.Struct, frozen=True):
    """The instances that share the fleet."""

    instances: tuple[InstanceShown, ...]
    disagreement: str | None = None
    """Settings that the instances should have alike and have not."""


class LetterShown(msgspec.Struct, frozen=True):
    """A note that its instance could not handle."""

    letter_id: str
    instance_id: InstanceId
    reason: Burial
    deliveries: int
    """How often it was tried."""
    buried_at: str
    note: Mapping[str, Any] | None
    """What it says: pointers, never what people said. None: this version cannot read it."""


class LetterHandled(msgspec.Struct, frozen=True):
    """A dead letter that is one no longer."""

    letter_id: str


_HANDLED = shown_as("DeadLetterHandled", LetterHandled)


def cluster_router(prefix: str, plane: LivePlane, instance_id: InstanceId) -> APIRouter:
    """Routes of the cluster; a single instance sees only itself."""
    router = APIRouter(
        prefix=f"{prefix}/cluster",
        tags=["cluster"],
        dependencies=[Depends(require(Permission.CLUSTER))],
    )
    desk = LetterDesk(plane.member.cluster if plane.member is not None else None)

    @router.get(
        "",
        summary="Every instance that is present or not yet cleaned up",
        response_class=Response,
        responses={200: {"model": shown_as("Cluster", ClusterShown)}},
    )
    async def instances() -> Response:
        own = InstanceShown(instance_id, True, len(plane.registry), len(plane.sessions), 0, 0, 0)
        if plane.member is None:
            return answer(ClusterShown((own,)))
        views = await plane.member.cluster.instances()
        shown = tuple(_instance(view) for view in views)
        return answer(ClusterShown(shown, plane.member.roster.disagreement()))

    @router.get(
        "/dead-letters",
        summary="Dead letters: notes that an instance could not handle, oldest first",
        response_class=Response,
        responses={200: {"model": shown_as("DeadLetterPage", ListPage[LetterShown])}},
    )
    async def letters(page: Paging) -> Response:
        found = await desk.letters(page.limit + 1, page.position(str) or "")
        shown = [_letter(letter) for letter in found[: page.limit]]
        more = len(found) > page.limit
        return answer(ListPage(shown, encode_cursor(shown[-1].letter_id) if more else None))

    @router.post(
        "/dead-letters/{letter_id:path}/replay",
        summary="Put a dead letter into its instance's inbox again",
        response_class=Response,
        responses={200: {"model": _HANDLED}},
    )
    async def replay(letter_id: str) -> Response:
        await desk.replay(letter_id)
        return answer(LetterHandled(letter_id))

    @router.delete(
        "/dead-letters/{letter_id:path}",
        summary="Delete a dead letter",
        response_class=Response,
        responses={200: {"model": _HANDLED}},
    )
    async def drop(letter_id: str) -> Response:
        await desk.drop(letter_id)
        return answer(LetterHandled(letter_id))

    return router


class LetterDesk:
    """Looks after dead letters; without a cluster there are none."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._cluster = cluster

    async def letters(self, count: int, after: str) -> tuple[DeadLetter, ...]:
        return () if self._cluster is None else await self._cluster.letters(count, after)

    async def replay(self, letter_id: str) -> None:
        outcome = NoSuchLetter() if self._cluster is None else await self._cluster.replay(letter_id)
        match outcome:
            case Posted():
                return
            case InboxFull():
                raise RateLimited(
                    f"The inbox that letter {letter_id} is for is full; try again in a moment.",
                    retry_after_ms=_RETRY_MS,
                )
            case InstanceGone():
                raise NotFound(
                    f"The instance that letter {letter_id} was for is gone, and others have taken "
                    "up its work; drop the letter."
                )
            case NoSuchLetter():
                raise _no_such_letter(letter_id)

    async def drop(self, letter_id: str) -> None:
        if self._cluster is None or not await self._cluster.drop((letter_id,)):
            raise _no_such_letter(letter_id)


def _no_such_letter(letter_id: str) -> NotFound:
    return NotFound(
        f"There is no dead letter {letter_id}; it may have been replayed or dropped already."
    )


def _instance(view: InstanceView) -> InstanceShown:
    card = view.card
    return InstanceShown(
        instance_id=view.instance_id,
        alive=view.alive,
        nodes=card.nodes,
        sessions=card.sessions,
        inbox_length=view.inbox_length,
        pending=view.pending,
        dead_letters=view.dead_letters,
        url=card.url or None,
        started_at=utc_time(card.started_at_ms) if card.started_at_ms else None,
        draining=card.draining,
    )


def _letter(letter: DeadLetter) -> LetterShown:
    note = decode_note(letter.written)
    return LetterShown(
        letter_id=letter.letter_id,
        instance_id=letter.instance_id,
        reason=letter.reason,
        deliveries=letter.deliveries,
        buried_at=utc_time(letter.buried_at_ms),
        note=None if note is None else msgspec.to_builtins(note),
    )
