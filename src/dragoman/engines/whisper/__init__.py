"""Whisper, NLLB and Marian on CTranslate2: the models for a machine with a graphics processor."""

from dragoman.engines.stage import EngineKind
from dragoman.engines.whisper import hearing, translating
from dragoman.live.protocol import ServiceType

ENGINE = EngineKind(
    summary="faster-whisper, and NLLB or Marian on CTranslate2",
    stages={ServiceType.ASR: hearing.KIND, ServiceType.NMT: translating.KIND},
)
