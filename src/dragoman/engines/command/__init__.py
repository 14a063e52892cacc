"""Any program as a stage: whisper.cpp, piper, a script of your own."""

from collections.abc import Sequence

from dragoman.engines.command.stage import CommandOptions, open_command
from dragoman.engines.programs import program_found
from dragoman.engines.stage import EngineKind, Requirement, StageKind
from dragoman.live.protocol import ServiceType


def _voices() -> Sequence[Requirement]:
    """Piper, whose licence keeps it out of the other extras."""
    return [
        Requirement("the program piper", program_found("piper"), "pip install 'dragoman[piper]'")
    ]


ENGINE = EngineKind(
    summary="a program of your choice for each stage",
    stages={
        kind: StageKind(
            summary="the program that you name",
            options=CommandOptions,
            open=open_command(kind),
            offers=_voices if kind is ServiceType.TTS else tuple,
        )
        for kind in (ServiceType.ASR, ServiceType.SEMANTIC, ServiceType.NMT, ServiceType.TTS)
    },
)
