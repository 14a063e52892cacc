"""A job's glossary and context, in the forms in which engines use them."""

from __future__ import annotations

from dragoman.live.protocol import PastUtterance, same_language
from dragoman.sdk import Job
from dragoman.term_matching import occurs, replaced

_PLACE = "Xqz{}x"
"""A word that no language has: translators that work by rules leave it as it is."""


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


class KeptTerms:
    """Takes terms out of a text before it is translated, and puts their translations in after."""

    def __init__(self, job: Job) -> None:
        terms = forced(job)
        self._translations = {
            _PLACE.format(number): translation for number, translation in enumerate(terms.values())
        }
        places = dict(zip(terms, self._translations, strict=True))
        self.text = replaced(job.text or "", places) if places else job.text or ""
        """What is to be translated."""

    def put_back(self, translated: str) -> str:
        """The translation, with the terms as they must be."""
        if not self._translations:
            return translated
        return replaced(translated, self._translations)
