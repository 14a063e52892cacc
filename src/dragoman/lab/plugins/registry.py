"""Kinds by name: those that are built in, and those that installed packages add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.entry_points import added_to
from dragoman.errors import InvalidMessage

KindT = TypeVar("KindT")
SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


class PluginRegistry(Mapping[str, KindT], Generic[KindT]):
    """The kinds of one sort. Entry points of `group` are looked for when first needed.

    A package cannot replace what is built in.
    """

    def __init__(self, sort: str, group: str, built_in: Mapping[str, KindT]) -> None:
        self._sort = sort
        self._group = group
        self._loaded = dict(built_in)
        self._built_in = frozenset(built_in)
        self._form = type(next(iter(built_in.values())))

    def __getitem__(self, name: str) -> KindT:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        added = (point.name for point in added_to(self._group))
        return iter(dict.fromkeys([*self._loaded, *added]))

    def __contains__(self, name: object) -> bool:
        """Whether there is such a kind, also one that cannot be loaded."""
        return name in list(iter(self))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def find(self, name: str) -> KindT:
        """The kind of this name; the refusal of an unknown one lists those that exist."""
        try:
            return self[name]
        except KeyError:
            raise InvalidMessage(
                f"There is no {self._sort} of kind `{name}`; known are {', '.join(self)}.",
                details={"field": f"{self._sort}.kind"},
            ) from None

    def package_of(self, name: str) -> str | None:
        """The package that adds the kind, with its version; None of one that is built in."""
        if name in self._built_in:
            return None
        for point in added_to(self._group).select(name=name):
            if point.dist is not None:
                return f"{point.dist.name} {point.dist.version}"
        return None

    def _load(self, name: str) -> KindT:
        for point in added_to(self._group).select(name=name):
            try:
                found = point.load()
            except Exception as error:  # whatever the package's own code raises
                raise self._unusable(name, point.value, f"cannot be loaded: {error}") from error
            if not isinstance(found, self._form):
                what = f"has the type {type(found).__name__}, not {self._form.__name__}."
                raise self._unusable(name, point.value, what)
            return found
        raise KeyError(name)

    def _unusable(self, name: str, place: str, reason: str) -> InvalidMessage:
        return InvalidMessage(
            f"The {self._sort} kind `{name}` of {place} {reason}",
            details={"field": f"{self._sort}.kind"},
        )


def settings_of(form: type[SettingsT], given: Mapping[str, Any], where: str) -> SettingsT:
    """The settings as a struct; raises `InvalidMessage` that names the invalid one."""
    try:
        return msgspec.convert(dict(given), type=form)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        key = path.rstrip("`").lstrip(".")
        if not key and "`" in reason:
            # The message itself names a field that is missing or unknown.
            key = reason.split("`")[-2]
        raise InvalidMessage(
            f"`{where}.{key}` does not fit: {reason}; `{where}` takes {_fields(form)}",
            details={"field": f"{where}.{key}"},
        ) from None


def _fields(form: type[msgspec.Struct]) -> str:
    return ", ".join(
        f.encode_name if f.required else f"{f.encode_name}?" for f in msgspec.structs.fields(form)
    )
