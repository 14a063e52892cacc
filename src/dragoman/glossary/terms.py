"""A tenant's terms, and which of them a job is told of."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import GlossaryTerm, Language, normal_language
from dragoman.term_matching import occurs

MAX_TERM_CHARACTERS = 190
MAX_TRANSLATION_CHARACTERS = 500

Pairs = tuple[tuple[str, str], ...]

_REMEMBERED = 256
"""Pairs of one tenant whose terms are remembered; past it, all are found anew."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A term of one language, and how it is translated."""

    src_lang: Language
    term: str
    tgt_lang: Language | None = None
    """The language of the translation; null: the term is one to hear, whatever it is for."""
    translation: str | None = None
    """Null: the term is only one to hear."""

    @property
    def key(self) -> tuple[str, str, str]:
        """By what an entry is replaced: languages without their case, and the term."""
        target = "" if self.tgt_lang is None else normal_language(self.tgt_lang)
        return normal_language(self.src_lang), target, self.term


class GlossaryRules(msgspec.Struct, frozen=True):
    """How many terms a job carries, and how soon changes are seen; from the settings."""

    terms_per_job: int
    bytes_per_job: int
    refresh_seconds: float


def check_entry(entry: Entry, place: str) -> Entry:
    """The entry as it is kept; one that makes no sense is refused with its place."""
    term = _checked(entry.term, f"{place}.term", MAX_TERM_CHARACTERS)
    translation = entry.translation
    if translation is not None:
        translation = _checked(translation, f"{place}.translation", MAX_TRANSLATION_CHARACTERS)
        if entry.tgt_lang is None:
            raise _bad(f"{place}.tgt_lang", "is missing; name the language of the translation")
    return msgspec.structs.replace(entry, term=term, translation=translation)


class TenantGlossary:
    """The terms of one tenant, ready to be told to nodes. It does not change."""

    def __init__(self, entries: Iterable[Entry], rules: GlossaryRules) -> None:
        """entries come with those that were set last first."""
        self._entries = tuple(entries)
        self._rules = rules
        self._by_pairs: dict[Pairs, tuple[GlossaryTerm, ...]] = {}
        self._whole: dict[Pairs, bool] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def terms(self, pairs: Pairs, text: str | None) -> tuple[GlossaryTerm, ...]:
        """What a job between these languages is told. Of more than a job may carry: the terms
        that are in its text; of speech, those that were set last."""
        found = self._by_pairs.get(pairs)
        if found is None:
            found = self._find(pairs)
        if self._whole[pairs] or text is None:
            return found
        return self._bounded(term for term in self._all(pairs) if occurs(term.term, text))[0]

    def _find(self, pairs: Pairs) -> tuple[GlossaryTerm, ...]:
        if len(self._by_pairs) >= _REMEMBERED:
            self._by_pairs.clear()
            self._whole.clear()
        found, is_whole = self._bounded(self._all(pairs))
        self._by_pairs[pairs], self._whole[pairs] = found, is_whole
        return found

    def _all(self, pairs: Pairs) -> list[GlossaryTerm]:
        """Every term for these pairs, each once: with its translation, where there is one."""
        found: dict[str, GlossaryTerm] = {}
        for source, target in pairs:
            for entry in self._entries:
                if not _covers(entry.src_lang, source):
                    continue
                if entry.tgt_lang is not None and not _covers(entry.tgt_lang, target):
                    continue
                known = found.get(entry.term)
                if known is None or (known.translation is None and entry.translation is not None):
                    found[entry.term] = GlossaryTerm(entry.term, entry.translation)
        return list(found.values())

    def _bounded(self, terms: Iterable[GlossaryTerm]) -> tuple[tuple[GlossaryTerm, ...], bool]:
        """As many as a job may carry, and whether these are all."""
        kept: list[GlossaryTerm] = []
        size_bytes = 0
        for term in terms:
            size_bytes += len(term.term.encode()) + len((term.translation or "").encode())
            if len(kept) >= self._rules.terms_per_job or size_bytes > self._rules.bytes_per_job:
                return tuple(kept), False
            kept.append(term)
        return tuple(kept), True


def _covers(language: str, asked: str) -> bool:
    """Whether what is set for a language holds for another: ``en`` for ``en-US``, not back."""
    own, other = normal_language(language), normal_language(asked)
    return own == other or other.startswith(f"{own}-")


def plain_term(text: str) -> str:
    """The text as it is kept and compared."""
    return unicodedata.normalize("NFC", text).strip()


def _checked(text: str, field: str, most: int) -> str:
    plain = plain_term(text)
    if not plain or len(plain) > most:
        raise _bad(field, f"has {len(plain)} characters; give 1 to {most}")
    if not plain.isprintable():
        raise _bad(field, "has control characters or line breaks; leave them out")
    return plain


def _bad(field: str, says: str) -> InvalidMessage:
    return InvalidMessage(f"`{field}` {says}", details={"field": field})
