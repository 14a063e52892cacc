"""Whom a node's name belongs to."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import msgspec

from dragoman.ids import NodeId, TenantId, new_id
from dragoman.live.protocol import NodeRegister

_TOKEN_BITS = 256


class Applicant(msgspec.Struct, frozen=True):
    """Who wants to register a node."""

    tenant: TenantId
    key_id: str | None
    """None in open mode, where nobody owns a name."""
    node_id: NodeId | None = None
    """The only node the key may register."""


def choose_node_id(register: NodeRegister, applicant: Applicant, random: Random) -> NodeId:
    """The name the node asked for, its key's, or a new one."""
    return register.node_id or applicant.node_id or NodeId(new_id(random, "n"))


def new_token(random: Random) -> str:
    """A token that proves later that a name is the node's own."""
    return f"{random.getrandbits(_TOKEN_BITS):064x}"


def holder_of(key_id: str, token: str) -> str:
    """How the directory remembers whom a name belongs to: the key, and the token's hash."""
    return f"{key_id}:{sha256(token.encode()).hexdigest()}"


def belongs(holder: str, applicant: Applicant, token: str | None) -> bool:
    """Whether the applicant's key, or the token it shows, is the one that first used the name."""
    key_id, _, token_hash = holder.rpartition(":")
    if applicant.key_id == key_id:
        return True
    return token is not None and sha256(token.encode()).hexdigest() == token_hash
