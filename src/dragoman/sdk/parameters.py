"""Checks of a caller's parameters; errors name the parameter, not the field of the wire."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import AUTO

# The protocol's own pattern also lets words such as `english` through: BCP-47 keeps room for
# long names of languages, but none was ever given.
_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
_LONGEST_TAG = 35  # characters

_FIELD_OF_A_MESSAGE = re.compile(r"`(?P<field>[^`]+)` of the \w+ ")


def language_fault(parameter: str, tag: object, *, may_be_auto: bool = False) -> str | None:
    """What is wrong with a language; None when nothing is."""
    if not isinstance(tag, str):
        return f"`{parameter}` holds {tag!r}; a language is a text, a tag such as `en`"
    if tag.lower() == AUTO:
        return None if may_be_auto else f"`{parameter}` is `auto`, which only src_lang may be"
    if _TAG.fullmatch(tag) and len(tag) <= _LONGEST_TAG:
        return None
    return (
        f"`{parameter}` holds {tag!r}, which is not a language tag; write one such as `en` or"
        " `zh-Hant`"
    )


def languages_fault(parameter: str, tags: object) -> str | None:
    """What is wrong with a list of languages; None when nothing is."""
    if isinstance(tags, str):
        # Taken as a list it would be one language for each letter.
        return f'`{parameter}` is the text "{tags}"; give a list, as in {parameter}=["{tags}"]'
    if not isinstance(tags, Collection) or isinstance(tags, bytes | Mapping):
        return f'`{parameter}` is {tags!r}; give a list of languages, as in {parameter}=["en"]'
    return next((fault for tag in tags if (fault := language_fault(parameter, tag))), None)


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raise TypeError, as Python does for a plain function, when a keyword is not known."""
    for name in given:
        if name in known:
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise TypeError(f"{what} has no option {name!r}; {hint}")


@contextmanager
def own_words(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Make errors about a field of a message name the parameter that it came from."""

    def named(match: re.Match[str]) -> str:
        field, dot, rest = match["field"].partition("[")
        return f"`{(names or {}).get(field, field)}{dot}{rest}` "

    try:
        yield
    except InvalidMessage as error:
        told = _FIELD_OF_A_MESSAGE.sub(named, error.message)
        raise type(error)(told, details=error.details) from None
