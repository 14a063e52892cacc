"""Real engines that need no network, no key and no graphics processor.

pocketsphinx recognises English, Apertium translates between the pairs that are installed, and
espeak-ng speaks more than a hundred languages.
"""

from dragoman.engines.local import recognising, speaking, translating
from dragoman.engines.stage import EngineKind
from dragoman.live.protocol import ServiceType

ENGINE = EngineKind(
    summary="real and offline: pocketsphinx, Apertium, espeak-ng",
    stages={
        ServiceType.ASR: recognising.KIND,
        ServiceType.NMT: translating.KIND,
        ServiceType.TTS: speaking.KIND,
    },
)
