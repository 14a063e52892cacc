"""An engine put together from stages: what it offers, and how it lives on a node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from dragoman.audio import seconds_of
from dragoman.engines.stage import Stage, base_language
from dragoman.errors import SettingsError
from dragoman.live.protocol import AUTO, Mode, ServiceType
from dragoman.sdk import Answer, AudioWanted, Job, JobFailed, Service, Usage

Languages = Mapping[ServiceType, Sequence[str]]
"""The languages of each stage."""

StageFunction = Callable[[Job], Coroutine[Any, Any, Answer]]


class StagedEngine:
    """Stages that do a job one after the other.

    ``Node(url, services=engine.functions, models=engine.models, lifespan=engine.lifespan, ...)``
    """

    def __init__(self, stages: Mapping[ServiceType, Stage], asked: Languages) -> None:
        """`asked` are the languages that the node's owner names; none: all that the stages know."""
        self.languages = offered_languages(stages, asked)
        self._stages = {kind: stage for kind, stage in stages.items() if self.languages.get(kind)}

    @property
    def models(self) -> list[Service]:
        """What the node registers."""
        return [stage.service for stage in self._stages.values()]

    @property
    def functions(self) -> dict[str, StageFunction]:
        """The function of each service."""
        return {
            kind.value: _settling(stage) if kind is ServiceType.ASR else _needing_text(stage)
            for kind, stage in self._stages.items()
        }

    @property
    def audio(self) -> AudioWanted | None:
        """The form in which the engine wants a job's audio."""
        return next((s.audio for s in self._stages.values() if s.audio is not None), None)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Every stage is warm inside the block, and ended after it."""
        async with AsyncExitStack() as stack:
            for stage in self._stages.values():
                stack.push_async_callback(stage.close)
                await stage.warm_up()
            yield


def _settling(stage: Stage) -> StageFunction:
    """Recognition, after which the languages of the job are settled."""

    async def recognise(job: Job) -> Answer:
        answer = await stage.work(job)
        seconds = seconds_of(job.audio or b"", job.audio_format, job.sample_rate)
        answer = _counted(answer, audio_seconds=seconds)
        if answer.text_asr is not None:
            job.partial(answer.text_asr, is_final=True)
        if job.src_lang != AUTO and job.mode is not Mode.TWO_WAY_AUTO:
            return answer
        heard = answer.src_lang_detected
        choices = (
            [tag for tag in (job.lang_a, job.lang_b) if tag is not None]
            if job.mode is Mode.TWO_WAY_AUTO
            else list(job.auto_langs)
        )
        spoken = None if heard is None else _same(heard, choices)
        if spoken is None:
            raise JobFailed(
                "LANGUAGE_NOT_DETECTED",
                f"{stage.service.service_id} heard {heard or 'no language that it could name'},"
                f" not one of {', '.join(choices)}.",
            )
        changed = msgspec.structs.replace(answer, src_lang_detected=spoken)
        if job.mode is not Mode.TWO_WAY_AUTO:
            return changed
        wanted = job.lang_b if spoken == job.lang_a else job.lang_a
        return msgspec.structs.replace(changed, tgt_lang=wanted)

    return recognise


def _counted(answer: Answer, *, audio_seconds: float = 0.0, characters: int = 0) -> Answer:
    """The answer with what went in, unless the stage has counted that itself."""
    usage = answer.usage or Usage()
    return msgspec.structs.replace(
        answer,
        usage=msgspec.structs.replace(
            usage,
            audio_seconds=usage.audio_seconds or audio_seconds,
            characters=usage.characters or characters,
        ),
    )


def _needing_text(stage: Stage) -> StageFunction:
    """A stage that reads text; of nothing said it makes nothing, and asks no model."""

    async def work(job: Job) -> Answer:
        if job.text is not None and job.text.strip():
            answer = await stage.work(job)
            if stage.service.type is ServiceType.NMT:
                answer = _counted(answer, characters=len(job.text))
            return answer
        if stage.service.type is ServiceType.NMT:
            return Answer(text_translated="")
        return Answer()

    return work


def offered_languages(
    stages: Mapping[ServiceType, Stage], asked: Languages
) -> dict[ServiceType, list[str]]:
    """The languages of each stage that the node shall have."""
    if any(asked.values()):
        for kind, tags in asked.items():
            if tags:
                _check(kind, tags, stages)
        return {kind: list(asked.get(kind, ())) for kind in stages}
    offered: dict[ServiceType, list[str]] = {}
    for kind, stage in stages.items():
        if stage.languages is None:
            raise SettingsError(
                f"the {kind} stage does not know its languages; name them, as in --{kind} en,es"
            )
        offered[kind] = list(stage.languages)
    translator = stages.get(ServiceType.NMT)
    if translator is not None and translator.pairs is not None:
        heard = offered.get(ServiceType.ASR, ())
        offered[ServiceType.NMT] = among_each_other(translator.pairs, heard)
    if translator is not None and ServiceType.TTS in offered:
        # A voice for a language that the node cannot reach would only fill the list.
        voices = offered[ServiceType.TTS]
        reached = {base_language(tag) for tag in offered[ServiceType.NMT]}
        # Regional voices count where a language has no other: a session asks for `es`.
        plain = reached.intersection(voices)
        spoken = [tag for tag in voices if tag in plain or base_language(tag) in reached - plain]
        offered[ServiceType.TTS] = spoken or voices
    return offered


def _check(kind: ServiceType, tags: Sequence[str], stages: Mapping[ServiceType, Stage]) -> None:
    if kind not in stages:
        raise SettingsError(
            f"there are {kind} languages ({', '.join(tags)}) but no engine for {kind}; choose one,"
            f" as in --set {kind}.engine=NAME"
        )
    known = stages[kind].languages
    if known is None or stages[kind].takes_any_language:
        return
    bases = {base_language(tag) for tag in known}
    for tag in tags:
        if base_language(tag) not in bases:
            raise SettingsError(
                f"the {kind} stage ({stages[kind].service.service_id}) does not know `{tag}`;"
                f" it knows {_listed(known)}"
            )


def among_each_other(pairs: Collection[tuple[str, str]], heard: Collection[str]) -> list[str]:
    """Languages between which every pair can be translated, those that are heard first.

    A node registers languages, not pairs: what it lists must hold in every direction. Where no two
    languages do, as with a model of one direction, the languages of that direction are listed.
    """
    bases = {base_language(tag) for tag in heard}
    every = {tag for pair in pairs for tag in pair}
    known = set(pairs)

    def weight(tag: str) -> tuple[bool, int, str]:
        return tag not in bases, -sum(tag in pair for pair in known), tag

    kept: list[str] = []
    for tag in sorted(every, key=weight):
        if all({(tag, other), (other, tag)} <= known for other in kept):
            kept.append(tag)
    if len(kept) > 1:
        return kept
    sources = sorted(src for src in {src for src, _ in pairs} if not bases or src in bases)
    reached = sorted({tgt for src, tgt in pairs if src in sources})
    return list(dict.fromkeys([*sources, *reached]))


def _same(heard: str, choices: Collection[str]) -> str | None:
    """The choice that a detected language is."""
    exact = [tag for tag in choices if tag.lower() == heard.lower()]
    near = [tag for tag in choices if base_language(tag) == base_language(heard)]
    return next(iter([*exact, *near]), None)


def _listed(tags: Sequence[str]) -> str:
    shown = ", ".join(tags[:20])
    return f"{shown} and {len(tags) - 20} more" if len(tags) > 20 else shown
