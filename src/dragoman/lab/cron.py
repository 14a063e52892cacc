"""Times at which an experiment starts by itself: a cron expression in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import dropwhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dragoman.errors import InvalidMessage

DEFAULT_TIMEZONE = "UTC"
_FIELDS = 5


def check_cron(expression: str, timezone: str) -> None:
    """Refuse an expression that cannot be read, or that no time ever matches."""
    zone = _zone(timezone)
    if len(expression.split()) != _FIELDS:
        raise _refused(expression, "it must have five fields: minute, hour, day, month, weekday")
    try:
        schedule = CronSim(expression, datetime.now(zone))
    except CronSimError as error:
        raise _refused(expression, str(error)[:1].lower() + str(error)[1:]) from None
    if next(schedule, None) is None:
        raise _refused(expression, "no time matches it")


def next_time_ms(expression: str, timezone: str, after_ms: int) -> int:
    """The first time after this one, in milliseconds since 1970.

    As in Debian's cron: a time of day that a change to daylight saving leaves out comes as soon as
    the clock has been moved, one that occurs twice counts the first time. Expressions whose minute
    or hour begins with `*` follow the clock as it shows, so that every hour has its minutes.
    """
    after = datetime.fromtimestamp(after_ms / 1000, _zone(timezone))
    times = (int(one.timestamp() * 1000) for one in CronSim(expression, after))
    # In the hour that occurs twice, the first that it names may be an hour ago.
    return next(dropwhile(lambda time_ms: time_ms <= after_ms, times))


def _zone(name: str) -> tzinfo:
    if name == DEFAULT_TIMEZONE:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidMessage(
            f"cron_timezone {name!r} is not a time zone; give one such as Europe/Vienna or UTC.",
            details={"field": "cron_timezone"},
        ) from None


def _refused(expression: str, why: str) -> InvalidMessage:
    return InvalidMessage(
        f"cron {expression!r} cannot be used: {why}; `0 3 * * *` is every day at 3:00.",
        details={"field": "cron"},
    )
