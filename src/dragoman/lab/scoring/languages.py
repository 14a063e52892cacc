"""How a language is cut into the pieces that are counted: words, or characters."""

from __future__ import annotations

from typing import Literal

Unit = Literal["word", "character"]
Tokenizer = Literal["13a", "intl", "zh", "ja-mecab", "char", "none"]
"""Those of sacrebleu that need no download."""

_CHINESE = ("zh", "zho", "chi", "cmn", "yue", "wuu")
_JAPANESE = ("ja", "jpn")
_OTHERS = ("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur")
"""Thai, Lao, Khmer and Burmese, by the first part of the language's tag."""

_TOKENIZERS: dict[str, Tokenizer] = {
    **dict.fromkeys(_CHINESE, "zh"),
    **dict.fromkeys(_JAPANESE, "ja-mecab"),
    **dict.fromkeys(_OTHERS, "char"),
}


def is_written_without_spaces(language: str | None) -> bool:
    """Whether words of the language are not told apart by spaces; of an unknown one, no."""
    return _first_part(language) in _TOKENIZERS


def tokenizer_of(language: str | None) -> Tokenizer | None:
    """The tokenizer that the language needs; None where words stand apart anyway."""
    return _TOKENIZERS.get(_first_part(language))


def _first_part(language: str | None) -> str:
    return (language or "").replace("_", "-").partition("-")[0].casefold()
