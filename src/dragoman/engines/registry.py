"""The engines by name: those that are built in, and those that installed packages add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

from dragoman.engines.stage import EngineKind
from dragoman.entry_points import added_to
from dragoman.errors import SettingsError

GROUP = "dragoman.engines"
"""The entry points of this group add engines."""

_BUILT_IN: Mapping[str, str] = {
    "simulated": "dragoman.engines.simulated",
    "local": "dragoman.engines.local",
    "command": "dragoman.engines.command",
    "openai": "dragoman.engines.openai",
    "whisper": "dragoman.engines.whisper",
}
"""The package of each engine, which names it ENGINE; imported when it is asked for."""


class FoundEngine(NamedTuple):
    """An engine as it was found."""

    name: str
    kind: EngineKind | None
    problem: str | None
    """Why the engine of an installed package cannot be used; None when it can."""


def engine_names() -> list[str]:
    """Every engine that there is; a package cannot replace one that is built in."""
    added = (point.name for point in added_to(GROUP))
    return list(dict.fromkeys([*_BUILT_IN, *added]))


def engine_kind(name: str) -> EngineKind:
    """The engine of this name; an unknown one is refused with those that there are."""
    if name in _BUILT_IN:
        found: object = import_module(_BUILT_IN[name]).ENGINE
        assert isinstance(found, EngineKind)
        return found
    for point in added_to(GROUP).select(name=name):
        try:
            found = point.load()
        except Exception as error:  # whatever the package's own code raises
            raise SettingsError(
                f"the engine `{name}` of {point.value} cannot be loaded"
                f" ({type(error).__name__}: {error})"
            ) from error
        if not isinstance(found, EngineKind):
            raise SettingsError(
                f"the engine `{name}` of {point.value} is {type(found).__name__}, not EngineKind"
            )
        return found
    raise SettingsError(f"there is no engine `{name}`; known are {', '.join(engine_names())}")


def every_engine() -> Iterator[FoundEngine]:
    """All engines, also those that cannot be loaded, with the reason."""
    for name in engine_names():
        try:
            yield FoundEngine(name, engine_kind(name), None)
        except SettingsError as error:
            yield FoundEngine(name, None, error.message)
