"""The kinds of values that settings have: how each is checked, and how it is shown to people.

A check takes a value, and returns it or raises ValueError with a reason for the user. It looks
nothing up and connects to nothing. A value is shown as a settings file writes it, without its
password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

T = TypeVar("T")

YEAR_SECONDS = 365 * 24 * 3600
"""The longest time a setting may have; a longer one is a mistake in the units."""


class Section(BaseModel):
    """A group of settings that is read once and never changes while the program runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


Seconds = Annotated[float, Field(gt=0, le=YEAR_SECONDS, allow_inf_nan=False)]
Hours = Annotated[float, Field(gt=0, le=YEAR_SECONDS / 3600, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=YEAR_SECONDS, allow_inf_nan=False)]
"""A time that may be zero, where zero means not waiting at all."""

Milliseconds = Annotated[int, Field(gt=0, le=YEAR_SECONDS * 1000)]
MillisecondsOrZero = Annotated[int, Field(ge=0, le=YEAR_SECONDS * 1000)]
Bytes = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
PercentOrZero = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Pair = Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+$")]
"""A language pair, such as ``en:es``."""


# --- the form of URLs, origins, addresses, and names that go into Redis keys ----------------------

DATA_DIR_PLACEHOLDER = "{data_dir}"

DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")
REDIS_SCHEMES = ("redis", "rediss", "unix")


def _scheme_of(url: str, known: tuple[str, ...]) -> str:
    """The scheme of a URL, when it is known; ``postgresql+asyncpg`` names a driver too."""
    scheme, mark, _ = url.partition("://")
    base = scheme.partition("+")[0]
    if not mark or base not in known:
        starts = " or ".join(f"{name}://" for name in known)
        raise ValueError(f"must start with {starts}")
    return base


def _check_host(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must have a port between 0 and 65535 and a well-formed host") from None
    if not host:
        raise ValueError("must name a host after ://")


def _check_file(url: str) -> None:
    scheme, _, rest = url.partition("://")
    if len(rest) < 2 or not rest.startswith("/"):
        raise ValueError(f"must name a file, as in {scheme}:///path/to/file")
    placeholders = rest.replace(DATA_DIR_PLACEHOLDER, "")
    if "{" in placeholders or "}" in placeholders:
        raise ValueError(f"must have no placeholder but {DATA_DIR_PLACEHOLDER}")


def database_url(url: str) -> str:
    """``sqlite:///file``, or a PostgreSQL, MariaDB or MySQL server."""
    if _scheme_of(url, DATABASES) == "sqlite":
        _check_file(url)
    else:
        _check_host(url)
    return url


def analytics_url(url: str) -> str:
    """``duckdb:///file``, a ClickHouse server, or nothing."""
    if not url:
        return url
    if _scheme_of(url, ("duckdb", "clickhouse", "clickhouses")) == "duckdb":
        _check_file(url)
    else:
        _check_host(url)
    return url


def redis_url(url: str) -> str:
    """A Redis or Valkey server, over TCP, TLS (``rediss``) or a Unix socket."""
    if _scheme_of(url, REDIS_SCHEMES) == "unix":
        _check_file(url)
    else:
        _check_host(url)
        database = urlsplit(url).path.strip("/")
        if database and not database.isdecimal():
            raise ValueError("must name no database, or one by its number, as in /0")
    return url


def queue_url(url: str) -> str:
    """Where the lab's hints travel: inside the process, through Redis, or through the database."""
    if url in ("", "database"):
        return url
    if not url.startswith(tuple(f"{scheme}://" for scheme in REDIS_SCHEMES)):
        starts = ", ".join(f"{scheme}://" for scheme in REDIS_SCHEMES)
        raise ValueError(f'must be "", "database", or a server that starts with one of {starts}')
    return redis_url(url)


def http_url(url: str) -> str:
    """A web address."""
    _scheme_of(url, ("http", "https"))
    _check_host(url)
    return url


def origin(text: str) -> str:
    """Where a page was loaded from: scheme and host, with a port if unusual, and nothing after."""
    if text == "*":
        return text
    http_url(text)
    parts = urlsplit(text)
    if text != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
        raise ValueError("must be scheme://host or scheme://host:port, without a path")
    return text


def proxy_address(text: str) -> str:
    """The address or the network of a proxy, or ``*`` for every sender."""
    if text != "*":
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise ValueError("must be an IP address or a network such as 10.0.0.0/8") from None
    return text


def key_part(text: str) -> str:
    """A name that may stand inside a Redis key and inside ``instance/connection/epoch``."""
    if not text or any(char in "{}/" or char.isspace() for char in text):
        raise ValueError("must be a name without spaces, slashes and braces")
    return text


def host_name(text: str) -> str:
    """A name or an address to listen on, without scheme and port."""
    if not text or "/" in text or any(char.isspace() for char in text):
        raise ValueError("must be a host name or an IP address, without scheme and path")
    return text


def not_empty(items: tuple[T, ...]) -> tuple[T, ...]:
    """A list with something in it."""
    if not items:
        raise ValueError("must not be empty")
    return items


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _or_empty(check: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: check(text) if text else text


DatabaseUrl = Annotated[str, AfterValidator(database_url)]
AnalyticsUrl = Annotated[str, AfterValidator(analytics_url)]
QueueUrl = Annotated[str, AfterValidator(queue_url)]
RedisUrl = Annotated[str, AfterValidator(redis_url)]
HttpUrlOrEmpty = Annotated[str, AfterValidator(_or_empty(http_url))]
Origin = Annotated[str, AfterValidator(origin)]
ProxyAddress = Annotated[str, AfterValidator(proxy_address)]
KeyPart = Annotated[str, AfterValidator(key_part)]
HostName = Annotated[str, AfterValidator(host_name)]


# --- how a value is shown -------------------------------------------------------------------------

_URL_PASSWORD = re.compile(r"(://[^:@/]*):.*@")
_QUERY_SECRET = re.compile(r"([?&](?:password|token|secret|api_key)=)[^&]*", re.IGNORECASE)
_BARE_TOML_KEY = re.compile(r"[A-Za-z0-9_-]+")


def masked(text: str) -> str:
    """The text with stars for any password in a URL."""
    return _QUERY_SECRET.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", text))


def plain(value: Any) -> Any:
    """The value in JSON's types, passwords masked, whole numbers without a fraction."""
    match value:
        case str() | Path():
            return masked(str(value))
        case float() if value.is_integer():
            return int(value)
        case BaseModel():
            return {name: plain(item) for name, item in value}
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def as_toml(value: Any) -> str:
    """The value as a settings file writes it, passwords masked."""
    match plain(value):
        case dict() as table:
            pairs = (f"{_toml_key(name)} = {as_toml(item)}" for name, item in table.items())
            return f"{{ {', '.join(pairs)} }}" if table else "{}"
        case list() as items:
            return f"[{', '.join(map(as_toml, items))}]"
        case str() | bool() as scalar:
            return _quoted(scalar)
        case other:
            return str(other)


def _quoted(scalar: str | bool) -> str:
    # JSON's escapes are TOML's too; only the delete character needs one that JSON does not write.
    return json.dumps(scalar, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(name: str) -> str:
    return name if _BARE_TOML_KEY.fullmatch(name) else _quoted(name)
