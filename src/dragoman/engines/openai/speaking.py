"""Speech: POST audio/speech."""

from __future__ import annotations

import msgspec

from dragoman.audio import read_wav, wav_bytes
from dragoman.engines.openai.server import ServerOptions, ServerStage
from dragoman.engines.stage import Opening, base_language
from dragoman.errors import AudioUnreadable
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, Job

_WAV = "wav"


class SpeechOptions(ServerOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How text is spoken."""

    voice: str = "alloy"
    voices: dict[str, str] = msgspec.field(default_factory=dict)
    """The voice of a language where it shall be another: {es = "maria"}."""
    format: str = _WAV
    """wav, or another that the server has and the clients can play, such as mp3."""


class SpeechStage(ServerStage):
    """Text as a recording."""

    kind = ServiceType.TTS

    def __init__(self, options: SpeechOptions, opening: Opening) -> None:
        super().__init__(options, opening)
        self._options = options

    async def work(self, job: Job) -> Answer:
        voices = self._options.voices
        voice = voices.get(job.tgt_lang) or voices.get(base_language(job.tgt_lang))
        fields = {
            **self._options.extra,
            "voice": voice or self._options.voice,
            "response_format": self._options.format,
        }
        speech = await self.ask(job, lambda: self.client.speak(job.text or "", fields))
        if self._options.format != _WAV:
            return Answer(tts_audio=speech.content, tts_format=self._options.format)
        try:
            # Servers that stream write a WAV of unknown length, which not every player takes.
            return Answer(tts_audio=wav_bytes(read_wav(speech.content)), tts_format=_WAV)
        except AudioUnreadable as error:
            raise self.failed(f"answered with no speech: {error.message.rstrip('.')}") from None
