"""Language tags: BCP-47, compared without regard to case, given back as they came."""

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


def same_language(one: str | None, other: str | None) -> bool:
    """Whether two tags, or two that are missing, are the same language."""
    if one is None or other is None:
        return one is other
    return normal_language(one) == normal_language(other)


def normal_source(message: msgspec.Struct, src_lang: str | None) -> None:
    """Write the src_lang ``AUTO`` of a message that is being made as ``auto``: it is no tag."""
    if src_lang is not None and src_lang != AUTO and normal_language(src_lang) == AUTO:
        msgspec.structs.force_setattr(message, "src_lang", AUTO)
