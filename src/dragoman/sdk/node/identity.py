"""Who a node is: its id, and the token that shows that the id is its own."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dragoman.errors import SettingsError
from dragoman.ids import NodeId


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node must remember to be known as the same node again."""

    node_id: NodeId | None = None
    registration_token: str | None = None


def recall(node_id: str | None, file: Path | None) -> Identity:
    """The identity to begin with.

    A file that holds another node's identity is left aside: the id that was asked for counts.
    """
    asked = Identity(NodeId(node_id) if node_id else None)
    if file is None or not file.exists():
        return asked
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=Identity)
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(
            f"the identity file {file} cannot be read ({error}); delete it to start as a new node"
        ) from error
    return kept if asked.node_id in (None, kept.node_id) else asked


def remember(identity: Identity, file: Path) -> None:
    """Write the identity where only this user can read it, all of it or nothing."""
    draft = file.with_name(f"{file.name}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(msgspec.json.encode(identity))
        draft.replace(file)
    except OSError as error:
        raise SettingsError(
            f"the identity file {file} cannot be written ({error}); check its folder"
        ) from error
