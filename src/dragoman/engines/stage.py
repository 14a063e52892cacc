"""What an engine is made of: stages, each of which does one step of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, AudioWanted, Job, JobFailed, Service, WorkFunction


class Stage:
    """One step of a job on this node: it recognises, repairs, translates or speaks.

    `work` is given the job as the stages before it left it, and answers with what it adds: what was
    said and what was repaired as `text_asr`, then `text_translated`, then `tts_audio`.
    """

    service: Service
    """How the scheduler knows it: what it runs, in which version, on what."""
    languages: Sequence[str] | None = None
    """The languages it knows; None when it cannot know, and the node's owner names them."""
    takes_any_language: bool = False
    """Whether `languages` are only what it offers when its owner names none."""
    pairs: frozenset[tuple[str, str]] | None = None
    """Of a translator: from which language into which. None: from each into each."""
    audio: AudioWanted | None = None
    """The form in which it wants audio; None: it wants none, or takes any."""

    async def warm_up(self) -> None:
        """Load what the first job would have to wait for; the node registers after it."""

    async def work(self, job: Job) -> Answer:
        """Do one job's step."""
        raise NotImplementedError

    async def close(self) -> None:
        """End what was started."""


class Opening(msgspec.Struct, frozen=True):
    """What a stage may know about the node it is opened for."""

    slots: int = 1
    """How many jobs run at once, and so how many threads or processes a stage needs at most."""


class Requirement(msgspec.Struct, frozen=True):
    """A package or a program that a stage needs."""

    name: str
    found: bool
    install: str
    """The command that installs it."""


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a stage that has none."""


class StageKind(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine makes one of its stages."""

    summary: str
    """What does the work, in a few words."""
    open: Callable[[Any, Opening], Stage]
    """Makes the stage from its options; nothing is loaded yet."""
    options: type[msgspec.Struct] = NoOptions
    requirements: Callable[[], Sequence[Requirement]] = tuple
    offers: Callable[[], Sequence[Requirement]] = tuple
    """What the stage may be used with, and works without."""

    @property
    def works_by_itself(self) -> bool:
        """Whether it needs no option, so that naming the engine is enough."""
        return not any(field.required for field in msgspec.structs.fields(self.options))


class EngineKind(msgspec.Struct, frozen=True, kw_only=True):
    """An engine: what an entry point of the group `dragoman.engines` names."""

    summary: str
    stages: Mapping[ServiceType, StageKind]
    whole: Callable[[Any, Opening], WorkFunction] | None = None
    """Makes one function for whole jobs, where the engine does every stage of the node itself and
    would rather; the options are those of its stages, which are then all the same."""


def base_language(tag: str) -> str:
    """The language of a tag without its region or script: models know `en`, not `en-GB`."""
    return tag.split("-", 1)[0].lower()


def pair_unsupported(src_lang: str, tgt_lang: str, service_id: str) -> JobFailed:
    """The failure of a job whose languages the stage cannot translate; another node may."""
    return JobFailed(
        "PAIR_UNSUPPORTED",
        f"{service_id} on this node does not translate from {src_lang} into {tgt_lang}.",
    )
