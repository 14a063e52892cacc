"""How much a JSON-schema may cost: what can grow with every level of nesting is refused.

A schema of a few lines can ask for more checks of one value than a machine does in a lifetime:
each of its definitions has only to refer twice to the next one. So the checks that one value may
take are counted before the schema is used. Schemas that refer to themselves are followed as deep
as a value may go, until nothing new comes up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from dragoman.lab.model import JsonValue

MAX_CHECKS_A_VALUE = 1000
"""Schemas that one value may be held against, counted as often as each is."""

MAX_STEPS = 100_000
"""How much of a schema is followed before it is refused as too large."""

UNEVALUATED_CHECKS = 32
"""What `unevaluated...` multiplies: schemas beside it are looked at again for every property."""

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_BY_PROPERTY = ("dependentSchemas", "dependencies")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_ANY_PROPERTY = ("additionalProperties", "propertyNames", "unevaluatedProperties")
_ANY_ELEMENT = ("additionalItems", "contains", "unevaluatedItems")

_Schema = Mapping[str, JsonValue]
_Place = str | int | None
"""A property by its name, an element by its number, or any other of either."""


class TooCostly(ValueError):
    """Raised when a schema cannot be shown to take a bounded number of checks."""

    def __init__(self, message: str, steps: int) -> None:
        super().__init__(message)
        self.steps = steps
        """How much of the schema had been followed."""


def check_cost(document: _Schema) -> int:
    """Refuse a schema that may take too many checks; the steps that it took to see that."""
    return _Cost(document).follow()


class _Cost:
    def __init__(self, document: _Schema) -> None:
        self._document = document
        self._anchors = dict(_anchors(document))
        self._steps = 0

    def follow(self) -> int:
        """Look at every group of schemas that may meet at one value, each group once."""
        groups: list[list[tuple[_Schema, int]]] = [[(self._document, 1)]]
        seen: set[frozenset[tuple[int, int]]] = set()
        while groups:
            group = self._with_references(groups.pop())
            counted = Counter[int]()
            for schema, times in group:
                counted[id(schema)] += times
            key = frozenset(counted.items())
            if key in seen:
                continue
            seen.add(key)
            groups.extend(self._below(group))
        return self._steps

    def _with_references(self, group: list[tuple[_Schema, int]]) -> list[tuple[_Schema, int]]:
        """All schemas that a value is held against when it is held against these."""
        found: list[tuple[_Schema, int]] = []
        ahead, checks = group, 0
        while ahead:
            schema, times = ahead.pop()
            checks += times
            if checks > MAX_CHECKS_A_VALUE:
                raise self._refused(
                    f"it may hold one value against more than {MAX_CHECKS_A_VALUE:,} schemas; "
                    "let definitions refer to each other less often, and not in circles"
                )
            found.append((schema, times))
            more = UNEVALUATED_CHECKS if any(word in schema for word in _UNEVALUATED) else 1
            for beside in self._beside(schema):
                self._step()
                ahead.append((beside, times * more))
        return found

    def _beside(self, schema: _Schema) -> Iterator[_Schema]:
        """The schemas that the same value is held against."""
        for word in ("$dynamicRef", "$recursiveRef"):
            if word in schema:
                raise self._refused(f"{word} is not supported; use $ref")
        if schema is not self._document and isinstance(schema.get("$id", schema.get("id")), str):
            raise self._refused("$id is supported only at its top; use $anchor or #/$defs/...")
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from _schemas([self._referred(reference)])
        for word in _LISTS:
            yield from _schemas(schema.get(word))
        yield from _schemas([schema.get(word) for word in _SINGLE])
        for word in _BY_PROPERTY:
            yield from _schemas(_values(schema.get(word)))

    def _below(self, group: list[tuple[_Schema, int]]) -> Iterator[list[tuple[_Schema, int]]]:
        """For each property and element, the schemas that it is held against."""
        anywhere: dict[type, list[tuple[_Schema, int]]] = {str: [], int: []}
        named: dict[_Place, list[tuple[_Schema, int]]] = {}
        for schema, times in group:
            items, patterns = schema.get("items"), schema.get("patternProperties")
            for kind, held_against in (
                (str, [*_values(patterns), *(schema.get(word) for word in _ANY_PROPERTY)]),
                (int, [items, *(schema.get(word) for word in _ANY_ELEMENT)]),
            ):
                anywhere[kind] += [(one, times) for one in _schemas(held_against)]
            elements = items if isinstance(items, list) else schema.get("prefixItems")
            properties = schema.get("properties")
            for place, one in (
                *(enumerate(elements) if isinstance(elements, list) else ()),
                *(properties.items() if isinstance(properties, Mapping) else ()),
            ):
                self._step()
                named.setdefault(place, []).extend((below, times) for below in _schemas([one]))
        yield from (list(others) for others in anywhere.values())
        for place, own in named.items():
            self._step(len(anywhere[type(place)]))
            yield own + anywhere[type(place)]

    def _referred(self, reference: str) -> object:
        """What a reference means; None if nothing, which the validator will say."""
        address, _, fragment = reference.partition("#")
        if address and address != self._document.get("$id"):
            raise self._refused(f"it refers to {address}; schemas elsewhere are not fetched")
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        found: object = self._document
        for part in unquote(fragment).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(name)
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found

    def _refused(self, message: str) -> TooCostly:
        return TooCostly(message, self._steps)

    def _step(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise self._refused("it is too large")


def _schemas(values: object) -> Iterator[_Schema]:
    """Those of the values that are schemas with something to check."""
    for value in values if isinstance(values, list) else ():
        if isinstance(value, Mapping):
            yield value


def _values(found: JsonValue) -> list[JsonValue]:
    return list(found.values()) if isinstance(found, Mapping) else []


def _anchors(document: _Schema) -> Iterator[tuple[str, _Schema]]:
    ahead: list[object] = [document]
    while ahead:
        value = ahead.pop()
        if isinstance(value, Mapping):
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := value.get(word), str):
                    yield name, value
            ahead.extend(value.values())
        elif isinstance(value, list):
            ahead.extend(value)
