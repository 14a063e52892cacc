"""Secrets that calls carry: settings hold the name of an environment variable, not its value.

Settings are stored with the experiment and shown to others. A server's environment holds secrets
that its users must not see, and a user who could name any variable and any address would have it
sent there. So on a server each variable is allowed together with the host that may receive it:
`lab.key_env_allow = ["OPENAI_API_KEY@api.openai.com"]`.

A header takes a variable as ``env:NAME``, alone or behind other words: ``Bearer env:MODEL_KEY``.
The query of an address takes one as a whole value: ``https://host/ask?key=env:MODEL_KEY``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote_plus

import httpx

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.outbound.failures import CalledTooOften, TargetError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_HEADER = re.compile(r"(?:^|(?<=[ =:;,]))env:([A-Za-z_][A-Za-z0-9_]*)(?=$|[ ;,])")
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authentication", "authorization", "cookie", "credential", "credentials"}
    | {"jwt", "key", "passwd", "password", "pwd", "secret", "session", "sig", "signature", "token"}
)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
"""A word of a name, also of one such as accessToken."""
_BETWEEN = re.compile("([&;])")
_IN_QUERY = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_NOT_SECRET = frozenset({"idempotency-key"})
_SECRET_VALUE = re.compile(r"\s*(?:bearer|basic|digest|token)\s+\S|sk-\S", re.IGNORECASE)


class SentHeaders(NamedTuple):
    """Headers as they are sent, and the secrets among their values."""

    values: dict[str, str]
    secrets: frozenset[str]


class SentUrl(NamedTuple):
    """An address as it is called, and the secrets in its query."""

    value: str
    secrets: frozenset[str]


def check_variable(name: str, field: str, url: str, allow: Collection[str] | None) -> None:
    """Refuse a variable that may not be sent there, or is not set; a user's own may all be."""
    if not _NAME.fullmatch(name):
        raise InvalidMessage(
            f"`{field}` does not fit: expected the name of an environment variable, such as "
            "OPENAI_API_KEY, not the key.",
            details={"field": field},
        )
    host = httpx.URL(url.replace("{{", "").replace("}}", "")).netloc.decode("ascii")
    if allow is not None and f"{name}@{host}" not in allow:
        raise Forbidden(
            f"`{field}` would send the variable {name} to {host}, which this server "
            f'does not allow; an operator can add "{name}@{host}" to lab.key_env_allow.',
            details={"field": field},
        )
    if name not in os.environ:
        raise InvalidMessage(
            f"`{field}` names the variable {name}, which is not set where the "
            "experiment runs; set it there and start again.",
            details={"field": field},
        )


def check_secret_headers(
    headers: Mapping[str, str], where: str, url: str, allow: Collection[str] | None
) -> None:
    """Refuse a header that holds a secret itself, and variables that may not be sent there."""
    for name, value in headers.items():
        field = f"{where}.{name}"
        variables = _IN_HEADER.findall(value)
        for variable in variables:
            check_variable(variable, field, url, allow)
        is_bare = not variables and _names_a_secret(name)
        if is_bare or _SECRET_VALUE.match(_IN_HEADER.sub("", value)):
            # The message does not repeat it.
            remedy = "Bearer env:NAME" if name.lower() == "authorization" else "env:NAME"
            raise InvalidMessage(
                f"`{field}` does not fit: its value would be stored with the experiment as it is; "
                "put it into an environment variable where the experiment runs, and give its name, "
                f'such as "{remedy}".',
                details={"field": field},
            )


def sent_headers(
    headers: Mapping[str, str], where: str, url: str, allow: Collection[str] | None
) -> SentHeaders:
    """The headers with the values of their variables, by their names in lower case."""
    secrets: set[str] = set()

    def value_of(found: re.Match[str]) -> str:
        check_variable(found[1], where, url, allow)
        value = os.environ[found[1]].strip()
        if not value.isascii() or not value.isprintable():
            raise InvalidMessage(
                f"The variable {found[1]}, which `{where}` sends, is not a header; "
                "use ASCII without line ends.",
                details={"field": where},
            )
        secrets.add(value)
        return value

    values = {name.lower(): _IN_HEADER.sub(value_of, value) for name, value in headers.items()}
    return SentHeaders(values, frozenset(secrets - {""}))


def check_secret_query(url: str, field: str, allow: Collection[str] | None) -> None:
    """Refuse an address whose query holds a secret itself, and variables that may not be sent.

    What a column of the dataset fills is the dataset's.
    """
    for name, value in _query(url):
        if (variable := _IN_QUERY.fullmatch(value)) is not None:
            check_variable(variable[1], field, url, allow)
        elif "{{" not in value and value and (_names_a_secret(name) or _SECRET_VALUE.match(value)):
            # The message does not repeat it.
            raise InvalidMessage(
                f"`{field}` does not fit: the value of `{name}` in its query would be stored with "
                "the experiment as it is; put it into an environment variable where the "
                f'experiment runs, and give its name, such as "{name}=env:NAME".',
                details={"field": field},
            )


def sent_url(url: str, field: str, allow: Collection[str] | None) -> SentUrl:
    """The address with the values of the variables in its query."""
    secrets: set[str] = set()

    def sent(part: str) -> str:
        name, equals, value = part.partition("=")
        variable = _IN_QUERY.fullmatch(unquote_plus(value))
        if variable is None:
            return part
        check_variable(variable[1], field, url, allow)
        secret = os.environ[variable[1]].strip()
        secrets.update((secret, quote(secret, safe="")))
        return f"{name}{equals}{quote(secret, safe='')}"

    before, mark, query = url.partition("?")
    value = "".join([before, mark, *map(sent, _BETWEEN.split(query))])
    return SentUrl(value, frozenset(secrets - {""}))


def variables_in_query(url: str) -> set[str]:
    """The environment variables that the query of an address names."""
    found = (_IN_QUERY.fullmatch(value) for _, value in _query(url))
    return {variable[1] for variable in found if variable is not None}


def _query(url: str) -> list[tuple[str, str]]:
    """The names and values of an address's query, as a server reads them."""
    query = url.partition("?")[2].partition("#")[0]
    parts = (part.partition("=") for part in _BETWEEN.split(query)[::2] if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in parts]


def variables_in(values: Iterable[str]) -> set[str]:
    """The environment variables that values of headers name."""
    return {name for value in values for name in _IN_HEADER.findall(value)}


def without_secrets(
    error: TargetError | CalledTooOften, secrets: Collection[str]
) -> TargetError | CalledTooOften:
    """The error without what a server may repeat in its answer."""
    message = error.message
    for secret in sorted(secrets, key=len, reverse=True):
        message = message.replace(secret, "***")
    if message == error.message:
        return error
    if isinstance(error, CalledTooOften):
        return CalledTooOften(message, retry_after_seconds=error.retry_after_seconds)
    return TargetError(message, retryable=error.retryable, status=error.answered_status)


def _names_a_secret(name: str) -> bool:
    lowered = name.lower()
    words = {*re.split("[-_.]", lowered), *(word.lower() for word in _WORD.findall(name))}
    return lowered not in _NOT_SECRET and not _SECRET_WORDS.isdisjoint(words)
