"""The kinds of target there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.lab.model import TargetSpec, Turn
from dragoman.lab.plugins import Context, PluginRegistry, settings_of
from dragoman.lab.targets import (
    fleet,
    http,
    openai,
    python,
    recorded,
)
from dragoman.lab.targets.caching import CachedTarget
from dragoman.lab.targets.target import Target

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


def _told_or_free(settings: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class TargetKind(Generic[SettingsT]):
    """How targets of one kind are made. Entry points of `dragoman.targets` name one of these."""

    settings: type[SettingsT]
    """What may be set, as a struct; its JSON-schema is shown to users."""
    open: Callable[[SettingsT, Context], Target]
    check: Callable[[SettingsT, Collection[str], Context], None]
    """Refuses settings that cannot work with these columns, before anything is stored."""

    cacheable: bool = True
    """Whether an answer may be kept and given again; not where there is nothing to be saved."""
    unpriced: Callable[[SettingsT], str | None] = _told_or_free
    """Why the cost of its calls cannot be known, and what to do; None where it can be."""
    probe: Callable[[SettingsT, Context, Turn | None], Awaitable[None]] | None = None
    """Refuses, before a run starts, what only the target itself can tell; it is given a turn of the
    dataset. None: nothing is asked."""

    def schema(self) -> dict[str, Any]:
        """The JSON-schema of the settings."""
        return msgspec.json.schema(self.settings)


TARGETS: PluginRegistry[TargetKind[Any]] = PluginRegistry(
    "target",
    "dragoman.targets",
    {
        "python": TargetKind(python.PythonTargetSettings, python.PythonTarget, python.check),
        "http": TargetKind(
            http.HttpTargetSettings, http.HttpTarget, http.check, unpriced=http.unpriced
        ),
        "openai": TargetKind(
            openai.OpenAiTargetSettings, openai.OpenAiTarget, openai.check, unpriced=openai.unpriced
        ),
        "fleet": TargetKind(
            fleet.FleetTargetSettings, fleet.FleetTarget, fleet.check, probe=fleet.probe
        ),
        "recorded": TargetKind(
            recorded.RecordedTargetSettings, recorded.RecordedTarget, recorded.check, False
        ),
    },
)


def check_target(
    spec: TargetSpec, columns: Collection[str], context: Context, *, cache: bool = False
) -> None:
    """Refuse a target that cannot work on a dataset with these columns, and say which key is why.

    ``columns`` are those of the dataset and the names that the mapping gives them.
    """
    kind = TARGETS.find(spec.kind)
    settings = settings_of(kind.settings, spec.settings, "target")
    kind.check(settings, columns, context)
    if cache and spec.kind == "python":
        python.check_cacheable(settings, context)


def open_target(spec: TargetSpec, context: Context, *, cache: bool = False) -> Target:
    """The target that a spec describes, ready to be called; the caller closes it.

    `cache`: a question that was asked before is answered from the context's answers.
    """
    kind = TARGETS.find(spec.kind)
    target = kind.open(settings_of(kind.settings, spec.settings, "target"), context)
    if not cache or not kind.cacheable or context.answers is None:
        return target
    return CachedTarget(target, spec, context.answers)


async def probe_target(spec: TargetSpec, context: Context, sample: Turn | None) -> None:
    """Ask a target whether it would take such turns; raises what it refuses."""
    kind = TARGETS.find(spec.kind)
    if kind.probe is not None:
        await kind.probe(settings_of(kind.settings, spec.settings, "target"), context, sample)


def unpriced_target(spec: TargetSpec) -> str | None:
    """Why the cost of a target's calls cannot be known, and what to do; None where it can be."""
    kind = TARGETS.find(spec.kind)
    return kind.unpriced(settings_of(kind.settings, spec.settings, "target"))
