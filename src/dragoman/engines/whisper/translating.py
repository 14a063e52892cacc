"""Translation by NLLB or Marian on CTranslate2, many jobs in one call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta

from dragoman.engines.stage import (
    Opening,
    Stage,
    StageKind,
    base_language,
    pair_unsupported,
)
from dragoman.engines.whisper.models import ModelOptions, requirements, service_of
from dragoman.errors import SettingsError
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, Job, ModelMissing, batched

if TYPE_CHECKING:
    pass

_END = "</s>"
_NLLB_PIECES = "sentencepiece.bpe.model"
_MARIAN_PIECES = ("source.spm", "target.spm")

_NLLB_CODES: Mapping[str, str] = {
    "af": "afr_Latn",
    "ar": "arb_Arab",
    "bg": "bul_Cyrl",
    "bn": "ben_Beng",
    "ca": "cat_Latn",
    "cs": "ces_Latn",
    "da": "dan_Latn",
    "de": "deu_Latn",
    "el": "ell_Grek",
    "en": "eng_Latn",
    "es": "spa_Latn",
    "et": "est_Latn",
    "eu": "eus_Latn",
    "fa": "pes_Arab",
    "fi": "fin_Latn",
    "fr": "fra_Latn",
    "gl": "glg_Latn",
    "he": "heb_Hebr",
    "hi": "hin_Deva",
    "hr": "hrv_Latn",
    "hu": "hun_Latn",
    "id": "ind_Latn",
    "is": "isl_Latn",
    "it": "ita_Latn",
    "ja": "jpn_Jpan",
    "ko": "kor_Hang",
    "lt": "lit_Latn",
    "lv": "lvs_Latn",
    "mk": "mkd_Cyrl",
    "ms": "zsm_Latn",
    "nb": "nob_Latn",
    "nl": "nld_Latn",
    "no": "nob_Latn",
    "pl": "pol_Latn",
    "pt": "por_Latn",
    "ro": "ron_Latn",
    "ru": "rus_Cyrl",
    "sk": "slk_Latn",
    "sl": "slv_Latn",
    "sr": "srp_Cyrl",
    "sv": "swe_Latn",
    "sw": "swh_Latn",
    "ta": "tam_Taml",
    "th": "tha_Thai",
    "tr": "tur_Latn",
    "uk": "ukr_Cyrl",
    "ur": "urd_Arab",
    "vi": "vie_Latn",
    "zh": "zho_Hans",
}
"""NLLB's names of the languages that it is mostly used for."""


class TranslatorOptions(ModelOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How text is translated."""

    src_lang: str | None = None
    tgt_lang: str | None = None
    """The direction of a Marian model, which has one."""
    beam_size: Annotated[int, Meta(ge=1)] = 4
    max_length: Annotated[int, Meta(ge=1)] = 256
    """The most pieces of a translation."""
    batch_size: Annotated[int, Meta(ge=1)] = 16
    batch_wait_ms: Annotated[float, Meta(ge=0)] = 10.0


def _languages_in(model: str) -> list[str] | None:
    """The languages of NLLB; None where the model's files show that it is none."""
    folder = Path(model)
    if folder.is_dir() and not (folder / _NLLB_PIECES).exists():
        return None
    return list(_NLLB_CODES)


class _Text(NamedTuple):
    text: str
    src_lang: str
    tgt_lang: str


class TranslatorStage(Stage):
    """Text to text. Texts that come at about the same time are translated together."""

    def __init__(self, options: TranslatorOptions, opening: Opening) -> None:
        self._options = options
        self.service = service_of(ServiceType.NMT, options)
        self._model: _Translator | None = None
        direction = options.src_lang, options.tgt_lang
        if direction[0] is not None and direction[1] is not None:
            self.pairs = frozenset({(base_language(direction[0]), base_language(direction[1]))})
            self.languages = [direction[0], direction[1]]
        elif direction != (None, None):
            raise SettingsError(
                "`stages.nmt` names one of src_lang and tgt_lang; give both, for a Marian model"
            )
        else:
            self.languages = options.languages or _languages_in(options.model)
        gather = batched(max_size=options.batch_size, max_wait_ms=options.batch_wait_ms)
        self._translate = gather(self._translate_all)

    async def warm_up(self) -> None:
        await asyncio.to_thread(self._load)

    async def work(self, job: Job) -> Answer:
        src_lang, tgt_lang = base_language(job.src_lang), base_language(job.tgt_lang)
        if self._model is None:
            raise ModelMissing(self.service.service_id, "it is not loaded")
        if self.pairs is not None and (src_lang, tgt_lang) not in self.pairs:
            raise pair_unsupported(job.src_lang, job.tgt_lang, self.service.service_id)
        if self.pairs is None and not {src_lang, tgt_lang} <= self._model.languages:
            raise pair_unsupported(job.src_lang, job.tgt_lang, self.service.service_id)
        translated = await self._translate(_Text(job.text or "", src_lang, tgt_lang))
        return Answer(text_translated=translated)

    async def close(self) -> None:
        self._model = None

    def _load(self) -> None:
        try:
            self._model = _Translator(self._folder(), self._options)
        except SettingsError:
            raise
        except Exception as error:  # of three libraries, each with errors of its own
            raise ModelMissing(
                self.service.service_id, f"{self._options.model} cannot be loaded: {error}"[:500]
            ) from None
        if self._model.is_marian and self.pairs is None:
            raise SettingsError(
                f"{self._options.model} is a Marian model, which has one direction; give "
                "`src_lang` and `tgt_lang` in `stages.nmt`"
            )

    def _folder(self) -> Path:
        folder = Path(self._options.model)
        if folder.is_dir():
            return folder
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(self._options.model, local_files_only=self._options.offline))

    def _translate_all(self, texts: Sequence[_Text]) -> list[str | Exception]:
        model = self._model
        if model is None:
            return [ModelMissing(self.service.service_id, "the node is leaving") for _ in texts]
        return list(model.translate(texts))


class _Translator:
    """A model with its pieces, as the files in its folder say."""

    def __init__(self, folder: Path, options: TranslatorOptions) -> None:
        import ctranslate2
        import sentencepiece

        self._options = options
        nllb = folder / _NLLB_PIECES
        self.is_marian = not nllb.exists()
        files = [folder / name for name in _MARIAN_PIECES] if self.is_marian else [nllb, nllb]
        for file in files:
            if not file.exists():
                raise SettingsError(
                    f"{folder} holds neither {_NLLB_PIECES}, as NLLB does, nor "
                    f"{' and '.join(_MARIAN_PIECES)}, as Marian does; copy them from the model "
                    "that was converted"
                )
        self._source, self._target = (
            sentencepiece.SentencePieceProcessor(model_file=str(file)) for file in files
        )
        self._model = ctranslate2.Translator(
            str(folder), device=options.device, compute_type=options.compute_type
        )
        # Some converters let the model add the end by itself.
        config = json.loads((folder / "config.json").read_text())
        self._end = [] if config.get("add_source_eos") else [_END]
        self.languages = frozenset(_NLLB_CODES)

    def translate(self, texts: Sequence[_Text]) -> list[str]:
        prefixes = None if self.is_marian else [[_NLLB_CODES[one.tgt_lang]] for one in texts]
        results = self._model.translate_batch(
            [self._pieces(one) for one in texts],
            target_prefix=prefixes,
            beam_size=self._options.beam_size,
            max_decoding_length=self._options.max_length,
            max_batch_size=self._options.batch_size,
        )
        skipped = 0 if self.is_marian else 1
        return [
            str(self._target.decode_pieces(result.hypotheses[0][skipped:])).strip()
            for result in results
        ]

    def _pieces(self, one: _Text) -> list[str]:
        pieces = [*self._source.encode(one.text, out_type=str), *self._end]
        return pieces if self.is_marian else [_NLLB_CODES[one.src_lang], *pieces]


KIND = StageKind(
    summary="NLLB or Marian on CTranslate2",
    options=TranslatorOptions,
    open=TranslatorStage,
    requirements=requirements,
)
