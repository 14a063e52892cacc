"""What instances tell each other about their nodes, as it is written to the nodes' cells."""

from __future__ import annotations

import msgspec

from dragoman.ids import TenantId
from dragoman.live.fleet.node import Node
from dragoman.live.fleet.resources import ResourceMean
from dragoman.live.protocol import Capability, Languages, NodeHealth, Service


class SharedMark(msgspec.Struct, frozen=True, array_like=True):
    """A service that is left alone for a while."""

    service_id: str
    reason: str
    expires_at_ms: int


class SharedFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as the instance it is connected to knows it. Its slots are the ledger's."""

    status: NodeHealth
    languages: Languages
    services: tuple[Service, ...]
    capabilities: tuple[Capability, ...] = ()
    features: tuple[str, ...] = ()
    public: bool = True
    tenant: TenantId | None = None
    takes_jobs: bool | None = None
    """Whether it may be given jobs; None: when it is ready."""
    resting: bool = False
    resources: tuple[ResourceMean, ...] = ()
    """As they were when the facts were written; the verdicts are always of now."""
    reason: str | None = None
    marks: tuple[SharedMark, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SharedFacts)


def write_facts(node: Node) -> bytes:
    """The same facts are always the same bytes."""
    return _encoder.encode(
        SharedFacts(
            status=node.status,
            languages=node.languages,
            services=node.services,
            capabilities=node.capabilities,
            features=tuple(sorted(node.features)),
            public=node.public,
            tenant=node.tenant,
            takes_jobs=node.health.takes_jobs if node.health.on_trial else None,
            resting=node.resting,
            resources=node.resources,
            reason=node.reason,
            marks=tuple(
                SharedMark(mark.service_id, mark.reason, mark.expires_at_ms) for mark in node.marks
            ),
        )
    )


def read_facts(written: bytes) -> SharedFacts | None:
    """None for facts that are not there, or that this version of Dragoman cannot read."""
    try:
        return _decoder.decode(written)
    except msgspec.DecodeError:
        return None
