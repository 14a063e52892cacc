"""Where a term stands in a text: as a whole word, whatever its case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_CASELESS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese: no space tells where a word ends."""


def occurs(term: str, text: str) -> bool:
    """Whether the term is in the text."""
    return _pattern(term).search(text) is not None


def replaced(text: str, by_term: Mapping[str, str]) -> str:
    """The text with other words for terms; of two terms that begin at one place, the longer."""
    terms = _longest_first(by_term)
    if not terms:
        return text
    found = {term.casefold(): by_term[term] for term in reversed(terms)}
    return _any_of(terms).sub(lambda match: found.get(match[0].casefold(), match[0]), text)


@lru_cache(maxsize=4096)
def _pattern(term: str) -> re.Pattern[str]:
    return re.compile(_as_expression(term), re.IGNORECASE)


@lru_cache(maxsize=256)
def _any_of(terms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_as_expression, terms)), re.IGNORECASE)


def _longest_first(terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted((term for term in terms if term), key=lambda term: (-len(term), term)))


def _as_expression(term: str) -> str:
    begins = r"(?<!\w)" if _is_of_words(term[:1]) else ""
    ends = r"(?!\w)" if _is_of_words(term[-1:]) else ""
    return f"{begins}{re.escape(term)}{ends}"


def _is_of_words(letter: str) -> bool:
    return (letter.isalnum() or letter == "_") and not _CASELESS.match(letter)
