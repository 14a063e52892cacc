"""What the end of a connection means to a node: try again, wait long, or stop."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.errors import (
    DragomanError,
    Forbidden,
    InvalidCapabilitySchema,
    NodeIdConflict,
    Unauthorized,
)
from dragoman.live.protocol import Error
from dragoman.sdk.refusals import with_remedy, without_advice
from dragoman.sdk.transport import NO_GOODBYE


class NodeConnectionEnding(msgspec.Struct, frozen=True):
    """How a connection, or the attempt to make one, came to its end."""

    reason: str
    code: int = NO_GOODBYE
    refusal: Error | None = None
    """What the scheduler said instead of acknowledging the registration."""


FINAL_CODES: Mapping[int, type[DragomanError]] = {
    4400: InvalidCapabilitySchema,
    4401: Unauthorized,
    4403: Forbidden,
    4409: NodeIdConflict,
}
"""Close codes after which trying again would only fail again, or fight another process."""

FINAL_REFUSALS: Mapping[str, type[DragomanError]] = {
    error.code: error for error in (InvalidCapabilitySchema, NodeIdConflict)
}
"""The same for what the scheduler may answer to a registration."""

_NO_PLACE_CODE = 1008
_NO_PLACE_REFUSAL = "FLEET_FULL"

_REMEDIES: Mapping[type[DragomanError], str] = {
    InvalidCapabilitySchema: "correct the node's parameters and start it again",
    Unauthorized: "give the node a valid key (`dragoman keys create --role node` creates one)",
    Forbidden: "use a key with role node, made for this node or for any",
    NodeIdConflict: "give each node a node_id of its own, or stop the other process",
}
_SUPERSEDED = "another process has registered under the same node_id and took this node's place"


def final_error(ending: NodeConnectionEnding, node_id: str | None) -> DragomanError | None:
    """The error to stop with, or None when the node should try again."""
    refusal = ending.refusal
    cause = FINAL_CODES.get(ending.code)
    if refusal is not None:
        cause = FINAL_REFUSALS.get(refusal.code, cause)
    if cause is None:
        return None
    if refusal is not None:
        happened = refusal.message
    elif cause is NodeIdConflict:
        happened = _SUPERSEDED
    else:
        happened = ending.reason or f"closed with {ending.code}"
    if cause is Unauthorized:
        happened = without_advice(happened)  # the node was given a `token`, and sends no header
    named = f"node {node_id}" if node_id else "the node"
    return cause(f"The scheduler refused {named}: {with_remedy(happened, _REMEDIES[cause])}")


def has_no_place(ending: NodeConnectionEnding) -> bool:
    """Whether the scheduler is well but full, so that a quick retry is of no use."""
    refused_with = ending.refusal.code if ending.refusal is not None else None
    return refused_with == _NO_PLACE_REFUSAL or ending.code == _NO_PLACE_CODE


def wait_asked_for_seconds(ending: NodeConnectionEnding) -> float:
    """How long the scheduler asked the node to wait, at least."""
    if ending.refusal is None or ending.refusal.retry_after_ms is None:
        return 0.0
    return ending.refusal.retry_after_ms / 1000
