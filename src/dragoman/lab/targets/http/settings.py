"""How an HTTP target is described, and whether the description can work."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.targets.http.json_path import JsonPath
from dragoman.outbound import (
    check_headers,
    check_secret_headers,
    check_secret_query,
    check_url,
    places,
)

HISTORY = "history"
"""The place that receives the turns before: ``[{"turn": {...}, "output": ...}]``."""


class HttpTargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked, and where in the answer the output is."""

    url: str
    """Where to ask; ``{{column}}`` may stand in its path and query, ``env:NAME`` as a value of
    the query."""
    output: str | dict[str, str]
    """JSONPath of the output, or several by name; the first, or ``output``, is the main one."""
    body: JsonValue = None
    """Any JSON; ``{{column}}`` in its strings is filled from the turn."""
    method: Annotated[str, msgspec.Meta(pattern="^(GET|POST|PUT|PATCH|DELETE)$")] = "POST"
    headers: dict[str, str] = {}
    """Sent with each request; ``env:NAME`` in a value is the environment variable NAME."""
    tokens: str | None = None
    """JSONPath of the number of tokens used."""
    cost: str | None = None
    """JSONPath of the cost."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = 120.0


def check(settings: HttpTargetSettings, columns: Collection[str], context: Context) -> None:
    """Refuse what cannot work or is not allowed."""
    check_url(settings.url, "target.url", context.address_rules)
    check_secret_query(settings.url, "target.url", context.sendable_keys)
    for where, path in _paths(settings):
        try:
            JsonPath(path)
        except ValueError as error:
            raise _unusable(where, str(error)) from None
    check_headers(settings.headers, "target.headers")
    check_secret_headers(settings.headers, "target.headers", settings.url, context.sendable_keys)
    for where, template in (("target.url", settings.url), ("target.body", settings.body)):
        for name in places(template):
            require_column(name, [*columns, HISTORY], where)


def unpriced(settings: HttpTargetSettings) -> str | None:
    """Why the cost of a call cannot be known."""
    if settings.cost is not None:
        return None
    return "`target.cost` is missing; give the JSONPath of the cost in the answer"


def _paths(settings: HttpTargetSettings) -> list[tuple[str, str]]:
    outputs = settings.output
    found = (
        [("target.output", outputs)]
        if isinstance(outputs, str)
        else [(f"target.output.{name}", path) for name, path in outputs.items()]
    )
    if not found:
        raise _unusable("target.output", "expected at least one path")
    if settings.tokens is not None:
        found.append(("target.tokens", settings.tokens))
    if settings.cost is not None:
        found.append(("target.cost", settings.cost))
    return found


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
