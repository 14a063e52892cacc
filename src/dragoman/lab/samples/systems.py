"""The two translation systems whose outputs the sample datasets record.

Both are toys, written for these samples so that there is something to compare. Neither is a
model, and neither belongs to a vendor. ``python -m dragoman.lab.samples.systems`` runs them and
writes their outputs into the datasets again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
PAIRS = ("en-es", "en-zh")

_TOKENS = re.compile(r"[a-z']+|[.,?!]")
_LONGEST_PHRASE = 6
_SPANISH_ADJECTIVES = frozenset({"azul", "frío", "fresco", "pequeño", "rotas", "tranquilo"})
_SPANISH_CONTRACTIONS = {("a", "el"): "al", ("de", "el"): "del"}
_CHINESE_MARKS = {".": "。", ",": "，", "?": "？", "!": "！"}


def word_by_word(source: str, pair: str) -> str:
    """Each word is replaced by the first sense of a small dictionary, in the English order."""
    words = _table("words", pair)
    return _written([words.get(token, token) for token in _tokens(source)], pair)


def phrases_first(source: str, pair: str) -> str:
    """The longest known phrase is replaced first, the rest word by word; a few rules follow."""
    words, phrases = _table("words", pair), _table("phrases", pair)
    tokens = _tokens(source)
    parts: list[str] = []
    at = 0
    while at < len(tokens):
        for length in range(min(_LONGEST_PHRASE, len(tokens) - at), 0, -1):
            phrase = " ".join(tokens[at : at + length])
            if phrase in phrases:
                parts.append(phrases[phrase])
                at += length
                break
        else:
            parts.append(words.get(tokens[at], tokens[at]))
            at += 1
    if pair == "en-es":
        return _spanish_question(_written(_in_spanish_order(" ".join(parts).split()), pair))
    return _chinese_question(_written(parts, pair))


SYSTEMS = {"word_by_word": word_by_word, "phrases_first": phrases_first}
"""The systems by the column that holds their output."""


def _tokens(source: str) -> list[str]:
    return _TOKENS.findall(source.lower())


@cache
def _table(kind: str, pair: str) -> Mapping[str, str]:
    lines = (FOLDER / f"{kind}.{pair}.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def _written(parts: Sequence[str], pair: str) -> str:
    if pair == "en-zh":
        return "".join(_CHINESE_MARKS.get(part, part) for part in parts)
    text = re.sub(r" ([.,?!])", r"\1", " ".join(part for part in parts if part))
    return text[:1].upper() + text[1:]


def _in_spanish_order(words: list[str]) -> list[str]:
    """Adjectives after their nouns, and contracted articles."""
    ordered = list(words)
    at = 0
    while at < len(ordered) - 1:
        if ordered[at] in _SPANISH_ADJECTIVES and ordered[at + 1].isalpha():
            ordered[at], ordered[at + 1] = ordered[at + 1], ordered[at]
            at += 1
        at += 1
    contracted: list[str] = []
    for word in ordered:
        before = contracted[-1] if contracted else ""
        if (before, word) in _SPANISH_CONTRACTIONS:
            contracted[-1] = _SPANISH_CONTRACTIONS[before, word]
        else:
            contracted.append(word)
    return contracted


def _spanish_question(text: str) -> str:
    return f"¿{text}" if text.endswith("?") else text


def _chinese_question(text: str) -> str:
    """A question without a question word ends with a particle."""
    asks = any(word in text for word in ("什么", "哪", "怎么", "多", "吗", "有没有"))
    return f"{text[:-1]}吗？" if text.endswith("？") and not asks else text


def with_outputs(row: Mapping[str, str], pair: str) -> dict[str, str]:
    """The row with what each system makes of its source."""
    return {**row, **{name: system(row["source"], pair) for name, system in SYSTEMS.items()}}


def main() -> None:
    for pair in PAIRS:
        file = FOLDER / f"{pair}.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        lines = (json.dumps(with_outputs(row, pair), ensure_ascii=False) for row in rows)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
