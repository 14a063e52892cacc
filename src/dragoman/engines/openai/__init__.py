"""Models behind any OpenAI-compatible server: a cloud's, or one of your own."""

from dragoman.engines.openai.hearing import TranscriptionOptions, TranscriptionStage
from dragoman.engines.openai.speaking import SpeechOptions, SpeechStage
from dragoman.engines.openai.writing import (
    RepairOptions,
    RepairStage,
    TranslationOptions,
    TranslationStage,
)
from dragoman.engines.stage import EngineKind, StageKind
from dragoman.live.protocol import ServiceType

ENGINE = EngineKind(
    summary="models behind OpenAI-compatible servers",
    stages={
        ServiceType.ASR: StageKind(
            summary="POST audio/transcriptions",
            options=TranscriptionOptions,
            open=TranscriptionStage,
        ),
        ServiceType.SEMANTIC: StageKind(
            summary="POST chat/completions", options=RepairOptions, open=RepairStage
        ),
        ServiceType.NMT: StageKind(
            summary="POST chat/completions", options=TranslationOptions, open=TranslationStage
        ),
        ServiceType.TTS: StageKind(
            summary="POST audio/speech", options=SpeechOptions, open=SpeechStage
        ),
    },
)
