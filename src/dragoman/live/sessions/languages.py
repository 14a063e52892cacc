"""Which languages are being spoken and heard, kept as sessions come and go."""

from __future__ import annotations

from collections import Counter

from dragoman.live.protocol import AUTO, Mode, SessionInit, normal_language


class LanguageUsage:
    """How many open sessions have each language as a source, and how many as a target."""

    def __init__(self) -> None:
        self.as_source: Counter[str] = Counter()
        self.as_target: Counter[str] = Counter()
        self._spelling: dict[str, str] = {}
        """How the first of the sessions that use a language now wrote it."""

    def opened(self, init: SessionInit) -> None:
        self._add(init, 1)

    def closed(self, init: SessionInit) -> None:
        self._add(init, -1)

    def _add(self, init: SessionInit, step: int) -> None:
        sources, targets = languages_of(init)
        for counts, languages in ((self.as_source, sources), (self.as_target, targets)):
            for tag in languages:
                language = self._spelling.setdefault(normal_language(tag), tag)
                counts[language] += step
                if not counts[language]:
                    # Names come from clients: one that no session uses must not stay.
                    del counts[language]
                    if language not in self.as_source and language not in self.as_target:
                        del self._spelling[normal_language(tag)]


def languages_of(init: SessionInit) -> tuple[set[str], set[str]]:
    """The languages a session may speak, and those it hears; both, where it goes either way."""
    if init.mode is Mode.TWO_WAY_AUTO:
        both = {language for language in (init.lang_a, init.lang_b) if language}
        return both, both
    sources = set(init.auto_langs) if init.src_lang == AUTO else {init.src_lang}
    return sources, set(init.targets)
