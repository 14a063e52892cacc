"""Language tags: BCP-47, compared exactly, in one normal form."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

AUTO = "auto"
"""The source language of a speaker whose language the node finds out."""

MAX_LANGUAGES = 512
_MAX_TAG_LENGTH = 35  # what RFC 5646 asks readers to have room for

_TAG = r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*\Z"
_LANGUAGE_PATTERN = rf"\A(?![Aa][Uu][Tt][Oo]\Z){_TAG}"
_SOURCE_PATTERN = rf"\A{_TAG}"

Language = Annotated[str, Meta(min_length=2, max_length=_MAX_TAG_LENGTH, pattern=_LANGUAGE_PATTERN)]
SourceLanguage = Annotated[
    str, Meta(min_length=2, max_length=_MAX_TAG_LENGTH, pattern=_SOURCE_PATTERN)
]
"""A language, or ``auto``: only a source may be left for the node to find out."""

LanguageList = Annotated[tuple[Language, ...], Meta(max_length=MAX_LANGUAGES)]

PATTERN_MEANINGS = {
    _LANGUAGE_PATTERN: "a language tag such as `en` or `zh-hant` (`auto` is for src_lang only)",
    _SOURCE_PATTERN: "a language tag such as `en` or `zh-hant`, or `auto`",
}
"""What each pattern asks for, in words for the person whose message did not fit."""


def normal_language(tag: str) -> str:
    """The form in which tags are compared: ``zh-Hant`` and ``ZH-hant`` are one language."""
    return tag.lower()


def normalise_languages(message: msgspec.Struct, *fields: str) -> None:
    """Bring the named fields of a message that is being made into normal form.

    Messages do this as they come into being, so that no room behind the protocol has to.
    """
    for field in fields:
        given = getattr(message, field)
        if given is None:
            continue
        normal = (
            normal_language(given)
            if isinstance(given, str)
            else tuple(normal_language(tag) for tag in given)
        )
        if normal != given:
            msgspec.structs.force_setattr(message, field, normal)
