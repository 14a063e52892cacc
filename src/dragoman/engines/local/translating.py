"""Translation by Apertium: by rules, between the pairs that are installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.engines.local.languages import tag_of
from dragoman.engines.programs import program_found, run_program
from dragoman.engines.stage import (
    Opening,
    Requirement,
    Stage,
    StageKind,
    base_language,
    pair_unsupported,
)
from dragoman.engines.words import KeptTerms
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, Device, Job, Service, ServiceStatus

_SERVICE_ID = "apertium"
_INSTALL = "apt install apertium apertium-eng-spa"
_LISTING_SECONDS = 20.0


class ApertiumOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How text is translated."""

    mark_unknown: bool = False
    """Whether words that Apertium does not know are marked with an asterisk."""
    timeout_seconds: float = 20.0


class ApertiumStage(Stage):
    """Text to text, between the languages that Apertium says it has."""

    def __init__(self, options: ApertiumOptions, opening: Opening) -> None:
        self._options = options
        self._modes = installed_modes()
        self.pairs = frozenset(self._modes)
        self.languages = sorted({tag for pair in self._modes for tag in pair})
        self.service = Service(
            service_id=_SERVICE_ID,
            type=ServiceType.NMT,
            device=Device.CPU,
            status=ServiceStatus.RUNNING,
            version=_version(),
        )

    async def work(self, job: Job) -> Answer:
        mode = self._modes.get((base_language(job.src_lang), base_language(job.tgt_lang)))
        if mode is None:
            raise pair_unsupported(job.src_lang, job.tgt_lang, _SERVICE_ID)
        kept = KeptTerms(job)
        marks = () if self._options.mark_unknown else ("-u",)
        output = await run_program(
            ["apertium", *marks, mode],
            service_id=_SERVICE_ID,
            stdin=kept.text.encode(errors="replace"),
            timeout_seconds=min(self._options.timeout_seconds, max(job.deadline_ms, 1) / 1000),
        )
        translated = output.stdout.decode(errors="replace").strip()
        return Answer(text_translated=kept.put_back(translated))


def installed_modes() -> dict[tuple[str, str], str]:
    """Apertium's name of each direction that is installed, by language tags."""
    return modes_in(_said("-l").split())


def modes_in(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """The directions among Apertium's names, such as eng-spa or spa-eng_US.

    Of several variants of one direction the plain one counts, else the first.
    """
    found: dict[tuple[str, str], str] = {}
    for name in sorted(names, key=lambda name: ("_" in name, name)):
        source, dash, target = name.partition("-")
        if not dash or "-" in target:
            continue  # a tool of a language, such as eng-tagger-x, and no direction
        pair = tag_of(source), tag_of(target)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            found.setdefault((pair[0], pair[1]), name)
    return found


def _said(argument: str) -> str:
    """What Apertium says about itself; nothing where it is not installed."""
    try:
        done = subprocess.run(
            ["apertium", argument], capture_output=True, check=False, timeout=_LISTING_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _version() -> str | None:
    words = _said("-V").split()
    return words[1] if len(words) > 1 and words[0] == "Apertium" else None


def _requirements() -> Sequence[Requirement]:
    there = program_found("apertium")
    return [
        Requirement("the program apertium", there, _INSTALL),
        Requirement("a pair of Apertium", there and bool(installed_modes()), _INSTALL),
    ]


KIND = StageKind(
    summary="Apertium (the pairs that are installed)",
    options=ApertiumOptions,
    open=ApertiumStage,
    requirements=_requirements,
)
