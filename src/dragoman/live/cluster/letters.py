"""The ids of dead letters."""

from __future__ import annotations

from dragoman.ids import InstanceId


def letter_id_of(instance_id: InstanceId, entry_id: str) -> str:
    """The id of the letter that an inbox entry becomes: always the same, in order of posting."""
    milliseconds, _, number = entry_id.partition("-")
    return f"{int(milliseconds):013d}-{int(number):06d}@{instance_id}"
