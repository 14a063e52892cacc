"""Speech recognition: POST audio/transcriptions."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.audio import read_wav, wav_bytes
from dragoman.engines.openai.server import ServerOptions, ServerStage, usage_of
from dragoman.engines.stage import Opening, base_language
from dragoman.engines.words import heard_before, terms_to_hear
from dragoman.live.protocol import AUTO, Mode, ServiceType
from dragoman.openai_client import Audio
from dragoman.outbound import as_text
from dragoman.sdk import Answer, AudioFormat, AudioWanted, Job

_TAGS_BY_NAME: Mapping[str, str] = {
    "afrikaans": "af",
    "arabic": "ar",
    "armenian": "hy",
    "azerbaijani": "az",
    "bengali": "bn",
    "basque": "eu",
    "belarusian": "be",
    "bosnian": "bs",
    "bulgarian": "bg",
    "catalan": "ca",
    "chinese": "zh",
    "cantonese": "yue",
    "croatian": "hr",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "estonian": "et",
    "finnish": "fi",
    "french": "fr",
    "galician": "gl",
    "georgian": "ka",
    "german": "de",
    "greek": "el",
    "gujarati": "gu",
    "hebrew": "he",
    "hindi": "hi",
    "hungarian": "hu",
    "icelandic": "is",
    "indonesian": "id",
    "italian": "it",
    "japanese": "ja",
    "kannada": "kn",
    "kazakh": "kk",
    "korean": "ko",
    "latvian": "lv",
    "lithuanian": "lt",
    "macedonian": "mk",
    "malay": "ms",
    "maltese": "mt",
    "maori": "mi",
    "marathi": "mr",
    "nepali": "ne",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "punjabi": "pa",
    "romanian": "ro",
    "russian": "ru",
    "serbian": "sr",
    "slovak": "sk",
    "slovenian": "sl",
    "somali": "so",
    "spanish": "es",
    "albanian": "sq",
    "swahili": "sw",
    "swedish": "sv",
    "tagalog": "tl",
    "tamil": "ta",
    "telugu": "te",
    "thai": "th",
    "turkish": "tr",
    "ukrainian": "uk",
    "urdu": "ur",
    "uzbek": "uz",
    "vietnamese": "vi",
    "welsh": "cy",
    "amharic": "am",
    "mongolian": "mn",
}
"""Some servers answer with a language's English name."""


class TranscriptionOptions(ServerOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How speech is recognised."""


class TranscriptionStage(ServerStage):
    """A recording to text. Where the language is open, the server is asked which it was."""

    kind = ServiceType.ASR
    audio = AudioWanted(AudioFormat.WAV, 16_000)

    def __init__(self, options: TranscriptionOptions, opening: Opening) -> None:
        super().__init__(options, opening)
        self._extra = {name: as_text(value) for name, value in options.extra.items()}

    async def work(self, job: Job) -> Answer:
        recording = job.audio or b""
        if job.padding_ms and recording:
            recording = wav_bytes(read_wav(recording).padded(job.padding_ms))
        is_open = job.src_lang == AUTO or job.mode is Mode.TWO_WAY_AUTO
        fields = (
            {"response_format": "verbose_json"}
            if is_open
            else {"response_format": "json", "language": base_language(job.src_lang)}
        )
        # The words to listen for come last: servers read no more than the end of a long prompt.
        hints = [part for part in (heard_before(job), ", ".join(terms_to_hear(job))) if part]
        if hints and "prompt" not in self._extra:
            fields["prompt"] = "\n".join(hints)
        audio = Audio("speech.wav", recording)
        reply = await self.ask(
            job, lambda: self.client.hear("transcriptions", audio, {**self._extra, **fields})
        )
        heard = (reply.language or "").strip().lower()
        return Answer(
            text_asr=reply.text.strip(),
            src_lang_detected=(_TAGS_BY_NAME.get(heard, heard) or None) if is_open else None,
            usage=usage_of(reply),
        )
