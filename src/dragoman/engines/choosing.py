"""From what a node's owner asks for to the stages of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.engines.registry import engine_kind
from dragoman.engines.stage import EngineKind, Opening, Stage, StageKind
from dragoman.errors import ExtraMissing, SettingsError
from dragoman.live.protocol import ServiceType

STAGES = (ServiceType.ASR, ServiceType.SEMANTIC, ServiceType.NMT, ServiceType.TTS)
"""The stages that a node's owner chooses, in the order in which they run."""

NO_ENGINE = "none"
"""The engine of a stage that the node shall not have."""


Table = Mapping[str, Any]
"""Options as a file or the flags hold them, by name."""


class Choice(NamedTuple):
    """A stage that the node shall have: which engine does it, and how."""

    stage: ServiceType
    engine: str
    kind: StageKind
    options: msgspec.Struct


def choose(
    engine: str, stages: Mapping[str, Table], defaults: Mapping[str, Table] | None = None
) -> list[Choice]:
    """What each stage of a node is done by.

    `engine` does every stage that has no table of its own, as far as it needs no options there.
    `stages` are the tables: `engine`, and the options of the engine's stage. `defaults` are
    options by engine, for all of its stages that know them.
    """
    defaults = defaults or {}
    for name, table in defaults.items():
        _check_defaults(name, table)
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise SettingsError(f"there is no stage `{unknown[0]}`; a node has {', '.join(STAGES)}")
    default = engine_kind(engine)
    chosen = []
    for stage in STAGES:
        table = dict(stages.get(stage, {}))
        named = table.pop("engine", engine)
        if not isinstance(named, str):
            raise SettingsError(f"`stages.{stage}.engine` is {named!r}; give an engine's name")
        if named == NO_ENGINE:
            continue
        kind = default if named == engine else engine_kind(named)
        if stage not in kind.stages:
            if stage in stages:
                raise _not_offered(stage, named, kind)
            continue
        stage_kind = kind.stages[stage]
        if stage not in stages and not stage_kind.works_by_itself:
            continue
        shared = _known(stage_kind, defaults.get(named, {}))
        options = _options(stage, named, stage_kind, shared | table)
        chosen.append(Choice(stage, named, stage_kind, options))
    if not chosen:
        raise _nothing_chosen(engine, default)
    return chosen


def open_stages(choices: list[Choice], opening: Opening) -> dict[ServiceType, Stage]:
    """The chosen stages; refused, with the command that helps, when something is missing."""
    for choice in choices:
        for requirement in choice.kind.requirements():
            if not requirement.found:
                raise ExtraMissing(
                    f"the {choice.stage} stage of the engine `{choice.engine}` needs "
                    f"{requirement.name}, which is not installed; run `{requirement.install}`."
                )
    return {choice.stage: choice.kind.open(choice.options, opening) for choice in choices}


def _check_defaults(engine: str, given: Table) -> None:
    """Refuse an option that no stage of the engine knows."""
    kinds = engine_kind(engine).stages.values()
    for name in given:
        if not any(name in _known(kind, given) for kind in kinds):
            raise SettingsError(f"no stage of the engine `{engine}` has an option `{name}`")


def _known(kind: StageKind, given: Table) -> dict[str, Any]:
    """The options among these that the stage has."""
    names = {field.encode_name for field in msgspec.structs.fields(kind.options)}
    return {name: value for name, value in given.items() if name in names}


def _options(stage: ServiceType, engine: str, kind: StageKind, given: Table) -> msgspec.Struct:
    try:
        return msgspec.convert(dict(given), type=kind.options, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(
            field.encode_name if field.required else f"{field.encode_name}?"
            for field in msgspec.structs.fields(kind.options)
        )
        takes = f"it takes {known}" if known else "it takes no options"
        reason = str(error).replace("Object", "the table").replace(" - at `$.", " in `")
        raise SettingsError(
            f"`stages.{stage}` does not fit the engine `{engine}`: {reason}; {takes}"
        ) from None


def _not_offered(stage: ServiceType, engine: str, kind: EngineKind) -> SettingsError:
    return SettingsError(
        f"the engine `{engine}` has no {stage} stage; it has {', '.join(kind.stages)}"
    )


def _nothing_chosen(engine: str, kind: EngineKind) -> SettingsError:
    for stage, stage_kind in kind.stages.items():
        missing = [f.encode_name for f in msgspec.structs.fields(stage_kind.options) if f.required]
        if missing:
            return SettingsError(
                f"the engine `{engine}` does nothing without options; give those of a stage in a "
                f"file or by flag, such as --set {stage}.{missing[0]}=..."
            )
    return SettingsError("the node has no stage left; choose an engine for at least one")
