"""The messages between a client and the scheduler as JSON schema, for clients in other languages.

``python -m dragoman.live.protocol.client_schema`` prints it; the TypeScript client's types are
generated from it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from dragoman.live.protocol.client_messages import ClientToScheduler, SchedulerToClient

_REF = "#/components/schemas/{name}"


def client_schema() -> dict[str, Any]:
    """An OpenAPI document without paths: every message, and the two directions by name."""
    directions = {"ClientToScheduler": ClientToScheduler, "SchedulerToClient": SchedulerToClient}
    unions, schemas = msgspec.json.schema_components(tuple(directions.values()), ref_template=_REF)
    for name, union in zip(directions, unions, strict=True):
        schemas[name] = {"anyOf": union["anyOf"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Messages of /ws/session", "version": "1"},
        "paths": {},
        "components": {"schemas": _without_depth(schemas)},
    }


def _without_depth(part: Any) -> Any:
    """The schema with free-form objects as such: spelt out level by level they would fill pages."""
    if isinstance(part, list):
        return [_without_depth(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {name: _without_depth(value) for name, value in part.items()}
    if "anyOf" in str(found.get("additionalProperties", "")):
        found["additionalProperties"] = True
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(client_schema(), indent=1, sort_keys=True) + "\n")
