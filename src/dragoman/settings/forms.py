"""The form of URLs, origins, addresses, and names that go into Redis keys.

Each function takes a value, and returns it or raises ValueError with a reason for the user. It
looks nothing up and connects to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator

T = TypeVar("T")

DATA_DIR_PLACEHOLDER = "{data_dir}"

NOT_BUILT_DATABASES = ("mysql", "mariadb")
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
    """``sqlite:///file`` or a PostgreSQL server."""
    if url.partition(":")[0].partition("+")[0] in NOT_BUILT_DATABASES:
        raise ValueError(
            "asks for MySQL or MariaDB, but that is not built yet; use sqlite:// or postgresql://"
        )
    if _scheme_of(url, ("sqlite", "postgresql")) == "sqlite":
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
RedisUrl = Annotated[str, AfterValidator(redis_url)]
HttpUrlOrEmpty = Annotated[str, AfterValidator(_or_empty(http_url))]
Origin = Annotated[str, AfterValidator(origin)]
ProxyAddress = Annotated[str, AfterValidator(proxy_address)]
KeyPart = Annotated[str, AfterValidator(key_part)]
HostName = Annotated[str, AfterValidator(host_name)]
