"""The reference page of the REST API, made from its OpenAPI document.

``python -m dragoman.api.reference`` prints it; it is kept as docs/reference/rest.md.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.api.contract import contract

_INTRODUCTION = """\
# REST API

<!-- Written by `python -m dragoman.api.reference`; do not edit by hand. -->

Every route of a server. The server itself shows the same at `/docs`, where routes can be tried, and
hands out the OpenAPI document at `/openapi.json`. Where [keys](../howto/keys.md) are required, send
`Authorization: Bearer KEY`.

- Bodies are JSON, except where a route says otherwise.
- A list comes in pages: `items`, and `next` while there is more. Send `next` as `cursor` to get the
  page after it.
- Every refusal has the same form, [`Problem`](#problem): a code, a sentence for people, and
  `details` for programs.
- The sockets are on other pages: [wire messages](protocol.md), and
  [the console's socket](console-socket.md).
"""

_METHODS = ("get", "post", "put", "patch", "delete")
_DEPTH_MAX = 2
_PREFIX = "#/components/schemas/"
_OF_SOCKETS = ("ConsoleMessage", "ConsoleWatch", "ExperimentListMessage", "ExperimentMessage")

Schema = Mapping[str, Any]


def reference(document: Mapping[str, Any]) -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION]
    for tag, routes in sorted(_by_tag(document).items()):
        parts.append(f"## {tag.capitalize()}\n")
        parts.extend(_route(method, path, route) for method, path, route in routes)
    parts.append("## Objects\n\nWhat routes take and answer, by name.\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        if name not in _OF_SOCKETS:
            parts.append(_object(name, schema))
    return "\n".join(parts)


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                tag = methods[method]["tags"][0]
                found.setdefault(tag, []).append((method, path, methods[method]))
    return found


def _route(method: str, path: str, route: Mapping[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}\n", f"{route['summary']}.\n"]
    if route.get("description"):
        lines.append(f"{_one_line(route['description'])}\n")
    parameters = [
        (f"{one['name']} ({one['in']})", one.get("required", False), one["schema"], one)
        for one in route.get("parameters", ())
    ]
    fields = [
        _row(name, required, schema, whole.get("description"))
        for name, required, schema, whole in parameters
    ]
    for form, content in route.get("requestBody", {}).get("content", {}).items():
        body = content["schema"]
        if "$ref" in body:
            fields.append(f"| body | {_kind(body)} | {_form(form)} |")
        else:
            fields.extend(_fields(body))
    if fields:
        lines.append(_table("takes", fields))
    answers = ", ".join(_answers(route["responses"]))
    lines.append(f"Answers {answers}.\n")
    return "\n".join(lines)


def _answers(responses: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in sorted(responses.items()):
        if status == "default":
            continue
        contents = answer.get("content", {})
        schema = contents.get("application/json", {}).get("schema", {})
        if "$ref" in schema:
            yield f"{status} with {_kind(schema)}"
        elif contents:
            yield f"{status} ({', '.join(contents)})"
        else:
            yield f"{status}"


def _object(name: str, schema: Schema) -> str:
    lines = [f"### {name}\n"]
    if schema.get("description"):
        lines.append(f"{_one_line(schema['description'])}\n")
    fields = list(_fields(schema))
    if fields:
        lines.append(_table("field", fields))
    elif "enum" in schema:
        lines.append(f"One of {_kind(schema)}.\n")
    return "\n".join(lines)


def _table(what: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {what} | type | meaning |", "| --- | --- | --- |", *rows, ""])


def _fields(schema: Schema, before: str = "", depth: int = 0) -> Iterator[str]:
    """A row for each field; the fields of an object inside another have a name with dots."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        is_needed = name in required and depth == 0
        meaning = field.get("description")
        yield _row(f"{before}{name}", is_needed, field, meaning)
        inner, marks = _inner_object(field)
        if inner is not None and depth < _DEPTH_MAX:
            yield from _fields(inner, f"{before}{name}{marks}.", depth + 1)


def _inner_object(field: Schema) -> tuple[Schema | None, str]:
    """The object that a field holds, itself or in a list, where it is spelt out in place."""
    for one in field.get("anyOf", (field,)):
        if one.get("type") == "array":
            items = one.get("items")
            if isinstance(items, Mapping):
                found, marks = _inner_object(items)
                return found, f"[]{marks}"
        if one.get("properties"):
            return one, ""
    return None, ""


def _row(name: str, is_needed: bool, schema: Schema, meaning: str | None) -> str:
    default = schema.get("default")
    if is_needed:
        said = "**required**"
    elif default is not None and default not in ([], {}):
        said = f"default `{json.dumps(default)}`"
    else:
        said = ""
    words = "; ".join(part for part in (_kind(schema), said) if part)
    return f"| `{name}` | {words} | {_cell(meaning or '')} |"


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        return f"[`{name}`](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        kinds = [_kind(one) for one in schema.get("anyOf", schema.get("oneOf", ()))]
        told = [kind for kind in dict.fromkeys(kinds) if kind and kind != "null"]
        return " or ".join(told)
    match schema.get("type"):
        case "array":
            items = schema.get("items")  # `true` stands for a schema that allows everything
            kind = _kind(items) if isinstance(items, Mapping) else ""
            return f"list of {kind or 'anything'}"
        case "string" if "contentEncoding" in schema:
            return f"{schema['contentEncoding']} string"
        case "string" if schema.get("format") == "binary":
            return "file"
        case str(kind):
            return f"{kind}{_bounds(schema)}"
        case list(kinds):
            return " or ".join(kind for kind in kinds if kind != "null")
    return ""


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f" from {low}"
    return f" up to {high}" if high is not None else ""


def _form(media_type: str) -> str:
    return "" if media_type == "application/json" else f"as {media_type}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference(asyncio.run(contract())))
