"""The pace of a target: how many calls it takes at once, from all workers and runs together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.model import TargetSpec
from dragoman.outbound import variables_in, variables_in_query

_URL = "url"
_WHERE = (_URL, "model", "function")
_AS_WHOM = "api_key_env"
_HEADERS = "headers"
"""The settings of targets that say which server is called, and as whom: the key in a variable, or
the variables that headers and the address send. Others only say what it is asked."""

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
    told = msgspec.json.encode([tenant, target.kind, _where(target), *_keys(target)])
    return f"t-{hashlib.sha256(told).hexdigest()[:_KEY_CHARACTERS]}"


def target_title(target: TargetSpec) -> str:
    """The target as a person knows it, without keys."""
    return " ".join([target.kind, *_where(target).values()])


def _where(target: TargetSpec) -> dict[str, str]:
    found = {name: target.settings.get(name) for name in _WHERE}
    return {name: _bare(value) for name, value in found.items() if isinstance(value, str)}


def _keys(target: TargetSpec) -> list[str]:
    """The environment variables whose values the server knows the caller by."""
    found = set()
    if isinstance(variable := target.settings.get(_AS_WHOM), str):
        found.add(variable)
    if isinstance(headers := target.settings.get(_HEADERS), dict):
        found |= variables_in(value for value in headers.values() if isinstance(value, str))
    if isinstance(url := target.settings.get(_URL), str):
        found |= variables_in_query(url)
    return sorted(found)


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
