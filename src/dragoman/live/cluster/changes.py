"""What instances call out to each other: news that may be missed.

A listener that misses it finds out at the next reconcile, so nothing relies on hearing all of it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId


class NodeChanged(msgspec.Struct, frozen=True, tag="node"):
    """A node's facts are new, and so is the version of its cell."""

    cell: int
    node_id: NodeId


class SlotFreed(msgspec.Struct, frozen=True, tag="slot"):
    """Slots came free; waiting jobs may have them."""

    slots: int


class AttemptProgress(msgspec.Struct, frozen=True, tag="progress"):
    """What an attempt tells on its way: started, a partial. The payload is the sender's."""

    job_id: JobId
    attempt_id: AttemptId
    payload: bytes


class Marked(msgspec.Struct, frozen=True, tag="mark"):
    """A service of a node is out of use for a while."""

    node_id: NodeId
    service_id: str
    reason: str
    ttl_ms: int


class CatalogStale(msgspec.Struct, frozen=True, tag="catalog"):
    """A model was missed: the service catalog may have to be read anew."""

    service_id: str
    version: str | None = None


class InstanceStats(msgspec.Struct, frozen=True, tag="stats"):
    """An instance in numbers, a few seconds ago. The payload is the sender's."""

    instance_id: InstanceId
    payload: bytes


Change: TypeAlias = (
    NodeChanged | SlotFreed | AttemptProgress | Marked | CatalogStale | InstanceStats
)
"""Every kind of news. A new kind is a struct with a tag of its own, added here."""


class _Called(msgspec.Struct, frozen=True, array_like=True):
    """News, and who called it out."""

    sender: InstanceId
    change: Change


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Called)


def encode_change(sender: InstanceId, change: Change) -> bytes:
    return _encode(_Called(sender, change))


def heard_from_others(called: bytes, listener: InstanceId) -> Change | None:
    """The news, or None when it is the listener's own or of a kind it does not know."""
    try:
        heard = _decoder.decode(called)
    except msgspec.DecodeError:
        return None
    return None if heard.sender == listener else heard.change
