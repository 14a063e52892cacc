"""Database URLs: what ``store.database_url`` may say, and what is refused with a reason."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from dragoman.errors import SettingsError

POSTGRES_OPTIONS = ("sslmode",)
"""What may follow the question mark of a PostgreSQL URL."""

_POSTGRES_DRIVERS = ("postgresql", "postgresql+asyncpg")
_MYSQL_DRIVERS = ("mysql", "mariadb", "mysql+asyncmy", "mariadb+asyncmy")
_REMEDY = (
    "set store.database_url to something like sqlite:///data/dragoman.db, "
    "postgresql://user:password@host/dragoman or mysql://user:password@host/dragoman"
)


def parse_database_url(database_url: str) -> URL:
    """The URL in parts, once it is known that Dragoman can use it."""
    try:
        url = make_url(database_url)
    except ArgumentError:
        # The text is left out of the message: it may hold a password that cannot be told apart.
        raise SettingsError(f"The database URL cannot be read; {_REMEDY}.") from None
    match url.get_backend_name():
        case "sqlite":
            _check_sqlite(url)
        case "postgresql":
            _check_postgres(url)
        case "mysql" | "mariadb":
            _check_mysql(url)
        case dialect:
            raise SettingsError(f"Dragoman cannot keep its data in {dialect!r}; {_REMEDY}.")
    return url


def sqlite_path(url: URL) -> Path:
    """The file that a checked SQLite URL names."""
    return Path(url.database or "")


def _check_sqlite(url: URL) -> None:
    if url.host or url.username or url.password:
        raise SettingsError(
            "A SQLite URL names a file, not a server: write sqlite:///relative/path.db "
            "or sqlite:////absolute/path.db."
        )
    if url.query:
        raise SettingsError(
            f"The SQLite URL has options ({', '.join(sorted(url.query))}) that Dragoman sets "
            "itself; leave out everything from the question mark on."
        )
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise SettingsError(
            "The database must be a file, because several connections and processes share it; "
            f"{_REMEDY}."
        )


def _check_postgres(url: URL) -> None:
    if url.drivername not in _POSTGRES_DRIVERS:
        raise SettingsError(
            f"Dragoman speaks to PostgreSQL through asyncpg, not {url.get_driver_name()}; begin "
            "the URL with postgresql://."
        )
    if not url.host or not url.database:
        raise SettingsError(
            "A PostgreSQL URL names a server and a database; write "
            "postgresql://user:password@host/dragoman."
        )
    unknown = sorted(set(url.query) - set(POSTGRES_OPTIONS))
    if unknown:
        raise SettingsError(
            f"The PostgreSQL URL has options ({', '.join(unknown)}) that Dragoman does not know; "
            f"only {', '.join(POSTGRES_OPTIONS)} may follow the question mark."
        )


def _check_mysql(url: URL) -> None:
    if url.drivername not in _MYSQL_DRIVERS:
        raise SettingsError(
            f"Dragoman speaks to MariaDB and MySQL through asyncmy, not {url.get_driver_name()}; "
            "begin the URL with mysql://."
        )
    if not url.host or not url.database:
        raise SettingsError(
            "A MariaDB or MySQL URL names a server and a database; write "
            "mysql://user:password@host/dragoman."
        )
    if url.query:
        raise SettingsError(
            f"The MySQL URL has options ({', '.join(sorted(url.query))}) that Dragoman does not "
            "know; leave out everything from the question mark on."
        )
