"""Checks of a caller's parameters; errors name the parameter, not the field of the wire."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import AUTO, Pipeline

# The protocol's own pattern also lets words such as `english` through: BCP-47 keeps room for
# long names of languages, but none was ever given.
_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
_LONGEST_TAG = 35  # characters
_MAX_SHOWN = 100  # characters

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


def shortened(value: object) -> str:
    """A value as a message shows it."""
    try:
        shown = repr(value)
    except Exception as error:  # such as a RecursionError, or anything of the value's own
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."


def pipeline_fault(pipeline: object) -> str | None:
    """What is wrong with the names of a pipeline that is given as a dict; None when nothing is.

    The protocol ignores fields that it does not know; a misspelt one would be lost without a word.
    """
    known = Pipeline.__struct_fields__
    if isinstance(pipeline, Mapping):
        for name in pipeline:
            if name not in known:
                return f"`pipeline` has no {name!r}; {_near(name, known)}"
    return None


def plain(value: Any) -> Any:
    """A value of another library as the plain one that it stands for, such as a numpy scalar.

    TypeError for any other. msgspec calls this for what it cannot write.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        return value.item()
    raise TypeError(f"Got `{type(value).__name__}`, which is no plain value")


def unsendable_fault(given: Mapping[str, object]) -> str | None:
    """Which parameter holds a value that has no form on the wire; None when none does."""
    for name, value in given.items():
        try:
            msgspec.msgpack.encode(value, enc_hook=plain)
        except UnicodeEncodeError:
            return f"`{name}` holds text that is not valid Unicode; replace lone surrogates"
        except Exception as error:  # the value is the caller's, and may raise anything
            return f"`{name}` cannot be sent: {str(error) or type(error).__name__}"
    return None


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raise TypeError, as Python does for a plain function, when a keyword is not known."""
    for name in given:
        if name in known:
            continue
        raise TypeError(f"{what} has no option {name!r}; {_near(name, known)}")


def _near(name: object, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5) if isinstance(name, str) else []
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"


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
