"""The pace of a target: how many calls it takes at once, from all workers and runs together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.model import TargetSpec

_WHERE = ("base_url", "url", "model", "function", "key_env")
"""Settings that say which server is called, as whom; others only say what it is asked."""

_KEY_CHARACTERS = 24


class Learned(msgspec.Struct, frozen=True):
    """What a worker knows of a target that refuses most calls, each with a pause to wait."""

    asked_seconds: float
    """The pause that the target asks for."""
    refusal_seconds: float
    """How long the target takes to say no."""
    per_round: int
    """Calls that go well between two pauses."""


def target_key(tenant: TenantId, target: TargetSpec) -> str:
    """The same for all experiments of a tenant that call the same server as the same user."""
    told = msgspec.json.encode([tenant, target.kind, _where(target)])
    return f"t-{hashlib.sha256(told).hexdigest()[:_KEY_CHARACTERS]}"


def target_title(target: TargetSpec) -> str:
    """The target as a person knows it, without keys."""
    where = [value for name, value in _where(target).items() if name != "key_env"]
    return " ".join([target.kind, *where])


def _where(target: TargetSpec) -> dict[str, str]:
    found = {name: target.settings.get(name) for name in _WHERE}
    return {name: _bare(value) for name, value in found.items() if isinstance(value, str)}


def _bare(text: str) -> str:
    """An address without user and query, which may hold secrets, or other text as it is."""
    parts = urlsplit(text)
    if not parts.scheme or not parts.netloc:
        return text
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def shares_of(most: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """How many calls at once each claimant may make, so that all together make at most `most`.

    No claimant gets more than it wants; what one does not want is shared by the others evenly, and
    those that come first by name get what cannot be divided.
    """
    shares: dict[str, int] = {}
    left = most
    waiting = sorted(wanted, key=lambda name: (wanted[name], name))
    for number, name in enumerate(waiting):
        even, over = divmod(left, len(waiting) - number)
        # The small wishes come first, so that what they leave is there for the others.
        shares[name] = min(wanted[name], even + (1 if over else 0))
        left -= shares[name]
    return shares
