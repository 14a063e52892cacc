"""Any program as a stage: whisper.cpp, piper, a script of your own."""

from dragoman.engines.command.stage import CommandOptions, open_command
from dragoman.engines.stage import EngineKind, StageKind
from dragoman.live.protocol import ServiceType

ENGINE = EngineKind(
    summary="a program of your choice for each stage",
    stages={
        kind: StageKind(
            summary="the program that you name",
            options=CommandOptions,
            open=open_command(kind),
        )
        for kind in (ServiceType.ASR, ServiceType.SEMANTIC, ServiceType.NMT, ServiceType.TTS)
    },
)
