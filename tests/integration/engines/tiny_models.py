"""Tiny models with random weights, in the formats of the real ones.

Real weights cannot be had here. What such a model answers is nonsense, but it is loaded, fed and
read by the same code as a real one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from ctranslate2 import specs
from ctranslate2.specs import common_spec, model_spec
from tokenizers import Tokenizer, models

_WIDTH = 16
_WORDS = 50_257
_LANGUAGES = 100
_LANGUAGE_CODES = ("en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr")
"""The first of Whisper's languages, in its order."""
_TIMESTAMPS = 1_501
_MELS = 80


def _filled(spec: Any, shapes: dict[str, tuple[int, ...]], seed: int) -> None:
    """Give every weight of a model a random value of the shape that its name asks for."""
    random = np.random.default_rng(seed)

    def fill(part: Any, name: str, value: Any) -> None:
        if value is not None:
            return
        last = name.rpartition("/")[2]
        shape = next((size for ending, size in shapes.items() if name.endswith(ending)), None)
        if shape is None:
            assert last in ("gamma", "beta"), name
            shape = (_WIDTH,)
        made = np.ones(shape) if last == "gamma" else random.normal(0, 0.3, shape)
        setattr(part, last, made.astype(np.float32))

    model_spec.visit_spec(spec, fill)


def _attention(prefix: str = "") -> dict[str, tuple[int, ...]]:
    return {
        "/attention/linear_0/weight": (_WIDTH, _WIDTH),
        "/attention/linear_1/weight": (2 * _WIDTH, _WIDTH),
        "/attention/linear_2/weight": (_WIDTH, _WIDTH),
        "self_attention/linear_0/weight": (3 * _WIDTH, _WIDTH),
        "self_attention/linear_1/weight": (_WIDTH, _WIDTH),
        "ffn/linear_0/weight": (4 * _WIDTH, _WIDTH),
        "ffn/linear_1/weight": (_WIDTH, 4 * _WIDTH),
    }


def tiny_whisper(folder: Path) -> Path:
    """A multilingual Whisper of one layer, as CTranslate2 stores it."""
    specials = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in _LANGUAGE_CODES),
        *(f"<|l{number}|>" for number in range(_LANGUAGES - len(_LANGUAGE_CODES))),
        *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
        *("<|nospeech|>", "<|notimestamps|>"),
        *(f"<|{number * 0.02:.2f}|>" for number in range(_TIMESTAMPS)),
    ]
    tokens = [*(f"w{number} " for number in range(_WORDS)), *specials]
    spec = specs.WhisperSpec(1, 2, 1, 2)
    shapes = {
        "conv1/weight": (_WIDTH, _MELS, 3),
        "conv2/weight": (_WIDTH, _WIDTH, 3),
        "embeddings/weight": (len(tokens), _WIDTH),
        "projection/weight": (len(tokens), _WIDTH),
        **_attention(),
    }
    _filled(spec, shapes, seed=1)
    random = np.random.default_rng(2)
    for part, length in ((spec.encoder, 1500), (spec.decoder, 448)):
        part.position_encodings.encodings = random.normal(0, 0.3, (length, _WIDTH)).astype(
            np.float32
        )
    for conv in (spec.encoder.conv1, spec.encoder.conv2):
        conv.bias = np.zeros(_WIDTH, dtype=np.float32)
    spec.config.suppress_ids = []
    spec.config.suppress_ids_begin = [_WORDS]
    spec.config.lang_ids = list(range(_WORDS + 2, _WORDS + 2 + _LANGUAGES))
    spec.config.alignment_heads = [(0, 0)]
    spec.register_vocabulary(tokens)
    spec.validate()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    words = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0 "))
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"feature_size": _MELS, "n_fft": 400, "hop_length": 160, "chunk_length": 30})
    )
    return folder


TEXT = (
    *("the", "house", "is", "big", "and", "garden", "small", "good", "morning", "my", "friend"),
    *("we", "have", "time", "today", "la", "casa", "es", "grande", "y", "el", "jardín", "pequeño"),
    *("buenos", "días", "amigo", "mío", "hoy", "tenemos", "tiempo"),
)


def _pieces(folder: Path, name: str) -> list[str]:
    """A SentencePiece model, trained on a few words; its pieces."""
    (folder / "text.txt").write_text("\n".join(TEXT * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / name),
        vocab_size=50,
        character_coverage=1.0,
        minloglevel=2,
    )
    made = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))
    (folder / f"{name}.vocab").unlink()
    (folder / "text.txt").unlink()
    return [made.id_to_piece(number) for number in range(made.get_piece_size())]


def _translator(folder: Path, vocabulary: list[str]) -> None:
    spec = specs.TransformerSpec.from_config(
        (1, 1), 2, activation=common_spec.Activation.SWISH, pre_norm=True
    )
    shapes = {
        "embeddings_0/weight": (len(vocabulary), _WIDTH),
        "embeddings/weight": (len(vocabulary), _WIDTH),
        "projection/weight": (len(vocabulary), _WIDTH),
        **_attention(),
    }
    _filled(spec, shapes, seed=3)
    for part in (spec.encoder, spec.decoder):
        part.position_encodings.encodings = np.zeros((512, _WIDTH), dtype=np.float32)
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.validate()
    spec.save(str(folder))


def tiny_nllb(folder: Path) -> Path:
    """A translator with NLLB's languages and files."""
    folder.mkdir(parents=True)
    pieces = _pieces(folder, "spm")
    (folder / "spm.model").rename(folder / "sentencepiece.bpe.model")
    rest = [piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>")]
    languages = ["eng_Latn", "spa_Latn", "deu_Latn"]
    _translator(folder, ["<s>", "<pad>", "</s>", "<unk>", *rest, *languages])
    return folder


def tiny_marian(folder: Path) -> Path:
    """A translator of one direction, with Marian's files."""
    folder.mkdir(parents=True)
    pieces = _pieces(folder, "spm")
    (folder / "source.spm").write_bytes((folder / "spm.model").read_bytes())
    (folder / "spm.model").rename(folder / "target.spm")
    rest = [piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>")]
    _translator(folder, ["</s>", "<unk>", *rest, "<pad>", "<s>"])
    return folder
