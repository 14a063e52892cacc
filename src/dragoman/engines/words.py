"""A job's glossary and context, in the forms in which engines use them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from dragoman.engines.stage import base_language
from dragoman.live.protocol import AUTO, Mode, PastUtterance, same_language
from dragoman.sdk import Job
from dragoman.term_matching import occurs, replaced

_PLACE = "Xqz{}x"
"""A word that no language has: translators that work by rules leave it as it is."""
_MOST_EARLIER_CHARACTERS = 500
"""Recognisers look back a few sentences; the latest of what was said before count."""


def terms_to_hear(job: Job) -> list[str]:
    """What a recogniser should listen for."""
    return list(dict.fromkeys(term.term for term in job.glossary))


def forced(job: Job) -> dict[str, str]:
    """The terms of the job's text, with the translation that each must have."""
    text = job.text or ""
    return {
        one.term: one.translation
        for one in job.glossary
        if one.translation is not None and occurs(one.term, text)
    }


def said_before(job: Job) -> list[PastUtterance]:
    """What was said before in the same direction."""
    return [
        one
        for one in job.context
        if same_language(one.src_lang, job.src_lang) and same_language(one.tgt_lang, job.tgt_lang)
    ]


def heard_before(job: Job) -> str:
    """What was said before in the language that is spoken now, the latest last.

    Where the language is open, nothing: earlier words in another one would mislead a recogniser.
    """
    if job.src_lang == AUTO or job.mode is Mode.TWO_WAY_AUTO:
        return ""
    spoken = base_language(job.src_lang)
    texts = [
        text
        for one in job.context
        if base_language(one.src_lang) == spoken and (text := one.text_asr.strip())
    ]
    said = " ".join(texts)
    return said[-_MOST_EARLIER_CHARACTERS:].lstrip()


def _places(text: str) -> Iterator[str]:
    """Words to stand for terms, none of which the text has itself."""
    taken = text.casefold()
    places = (_PLACE.format(number) for number in count())
    return (place for place in places if place.casefold() not in taken)


class KeptTerms:
    """Takes terms out of a text before it is translated, and puts their translations in after."""

    def __init__(self, job: Job) -> None:
        terms, text = forced(job), job.text or ""
        places = dict(zip(terms, _places(text), strict=False))
        self._translations = {places[term]: translation for term, translation in terms.items()}
        self.text = replaced(text, places) if places else text
        """What is to be translated."""

    def put_back(self, translated: str) -> str:
        """The translation, with the terms as they must be."""
        if not self._translations:
            return translated
        return replaced(translated, self._translations)
