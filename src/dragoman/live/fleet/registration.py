"""Who owns a node's name: the key that first used it, or the holder of a token given to it."""

from __future__ import annotations

import msgspec

from dragoman.ids import NodeId, TenantId, new_id
from dragoman.live.protocol import NodeRegister
from dragoman.randomness import Secrets, is_same, token_hash


class Applicant(msgspec.Struct, frozen=True):
    """Who wants to register a node."""

    tenant: TenantId
    key_id: str | None
    """None in open mode, where a name has no owner."""
    node_id: NodeId | None = None
    """The only node the key may register."""


def choose_node_id(register: NodeRegister, applicant: Applicant, secrets: Secrets) -> NodeId:
    """The name the node asked for, its key's, or a new one.

    A new name is not to be predicted: another key could take it first.
    """
    return register.node_id or applicant.node_id or NodeId(new_id(secrets.source, "n"))


def holder_of(applicant: Applicant, node_id: NodeId, token: str) -> str:
    """How the directory stores the owner of a name: the key, and the token's hash."""
    return f"{applicant.key_id}:{token_hash(token, applicant.tenant, node_id)}"


def holds_token(holder: str, applicant: Applicant, node_id: NodeId, token: str | None) -> bool:
    """Whether the token was given for this name, and to the applicant's tenant."""
    known = holder.rpartition(":")[2]
    return token is not None and is_same(known, token_hash(token, applicant.tenant, node_id))


def holds_key(holder: str, applicant: Applicant) -> bool:
    """Whether the applicant's key is the one that first used the name."""
    return applicant.key_id == holder.rpartition(":")[0]
