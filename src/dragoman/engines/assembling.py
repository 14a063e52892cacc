"""The engine of a node, whole: what `dragoman node` gives to the SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

from dragoman.engines.choosing import Table, choose, open_stages
from dragoman.engines.registry import engine_kind
from dragoman.engines.stage import Opening
from dragoman.engines.staged import Languages, StagedEngine, offered_languages
from dragoman.live.protocol import ServiceType
from dragoman.sdk import AudioWanted, Service, WorkFunction


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is made of, under the names of `Node`'s parameters."""

    languages: Mapping[ServiceType, Sequence[str]]
    work: WorkFunction | None = None
    services: Mapping[str, WorkFunction] | None = None
    models: Sequence[Service] | None = None
    audio: AudioWanted | None = None
    lifespan: Callable[[], AbstractAsyncContextManager[object]] = nullcontext


def assemble(
    engine: str,
    stages: Mapping[str, Table],
    asked: Languages,
    *,
    slots: int = 1,
    defaults: Mapping[str, Table] | None = None,
) -> Assembled:
    """Choose and open the stages of a node; see `choose` for what the tables hold."""
    choices = choose(engine, stages, defaults)
    opening = Opening(slots=slots)
    opened = open_stages(choices, opening)
    whole = engine_kind(engine).whole
    alike = all(c.engine == engine and c.options == choices[0].options for c in choices)
    if whole is not None and alike:
        languages = offered_languages(opened, asked)
        return Assembled(languages=languages, work=whole(choices[0].options, opening))
    staged = StagedEngine(opened, asked)
    return Assembled(
        languages=staged.languages,
        services=staged.functions,
        models=staged.models,
        audio=staged.audio,
        lifespan=staged.lifespan,
    )
