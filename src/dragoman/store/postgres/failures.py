"""What PostgreSQL's errors mean to the caller, without the values of the statement."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, IntegrityError

from dragoman.errors import InvalidMessage, StoreError

TRY_AGAIN = {"40001": "serialization failure", "40P01": "deadlock"}
"""SQLSTATEs of a transaction that lost a race and was undone: it may simply be run again."""

_DATA_EXCEPTIONS = "22"
"""The class of errors about values, whose messages quote them."""

_NO_TEXT = ("22021", "22P05")
"""Text that PostgreSQL cannot take, in a value or in JSON: a zero character, or half of one."""

_CONNECT_REMEDIES = {
    "28P01": "check the user and the password in store.database_url",
    "28000": "check the user in store.database_url, and pg_hba.conf on the server",
    "3D000": "create the database (`createdb`), or correct its name in store.database_url",
    "53300": "raise max_connections on the server, or stop what uses its connections",
    "57P03": "wait until the server has started, then try again",
}
_CONNECT_REMEDY = "check that PostgreSQL runs there and that store.database_url is right"


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's five-character code for the error; empty when it did not come from there."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlstate", None) or ""


def may_try_again(error: BaseException) -> bool:
    """Whether the transaction was undone only because another was in its way."""
    return isinstance(error, DBAPIError) and sqlstate(error) in TRY_AGAIN


def cannot_connect(database: str, error: BaseException) -> StoreError:
    """The sentence for a server that cannot be reached or refuses the login."""
    remedy = _CONNECT_REMEDIES.get(sqlstate(error), _CONNECT_REMEDY)
    return StoreError(f"The database {database} cannot be reached ({reason(error)}); {remedy}.")


def cannot_use(database: str, error: BaseException) -> StoreError:
    """The sentence for a database whose tables cannot be looked at or changed."""
    return StoreError(
        f"The database {database} cannot be used ({reason(error)}); check that its user owns it, "
        "and restore a backup of a damaged one."
    )


def connection_lost(database: str, *, committing: bool) -> StoreError:
    """The sentence for a connection that broke in the middle of a transaction."""
    outcome = (
        "it is not known whether the write was stored, so look before you write it again"
        if committing
        else "nothing of it was stored, so it may be tried again"
    )
    return StoreError(f"The connection to the database {database} was lost; {outcome}.")


def for_caller(error: BaseException) -> BaseException:
    """A broken constraint and text that cannot be are the caller's; other errors are ours."""
    if not isinstance(error, DBAPIError):
        return error
    _forget_values(error)
    if isinstance(error, IntegrityError):
        return error
    if sqlstate(error) in _NO_TEXT:
        return InvalidMessage(
            "A text holds a NUL character (U+0000), which the database cannot store; remove it."
        )
    failure = StoreError(f"The database refused a statement ({reason(error)}).")
    failure.__cause__ = error
    return failure


def reason(error: BaseException) -> str:
    """Why, in the server's words, or by its code where the words would quote values."""
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    driver = cause.__cause__ or cause
    code = sqlstate(error)
    if code.startswith(_DATA_EXCEPTIONS) or (isinstance(error, DBAPIError) and not code):
        return f"{type(driver).__name__} {code}".strip()
    return str(driver) or type(driver).__name__


def _forget_values(error: DBAPIError) -> None:
    """PostgreSQL's details quote the row; a traceback in the log would show them."""
    driver = error.orig.__cause__ if error.orig is not None else None
    for part in ("detail", "hint", "where"):
        for holder in (error.orig, driver):
            if hasattr(holder, part):
                setattr(holder, part, None)
