"""What all messages have in common."""

from __future__ import annotations

import re
from typing import Any

import msgspec


def wire_type(class_name: str) -> str:
    """The ``type`` of a message on the wire: ``NodeRegister`` is ``node_register``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class Message(
    msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag=wire_type
):
    """One frame: an object with a ``type``.

    A field without a default is always sent. A field with one may be absent or null, and is not
    sent while it has its default, so that whatever was written can be read. Fields that a reader
    does not know are ignored.
    """


class Error(Message, frozen=True):
    """Something the peer sent or asked for could not be done."""

    code: str
    message: str
    retry_after_ms: int | None = None
    """When it makes sense to try again."""
    details: dict[str, Any] | None = None
    """For a refusal, ``reasons`` counts why nodes were left out, and ``near`` lists tags close to
    those asked for that are served."""
    utterance_index: int | None = None
    tgt_lang: str | None = None
    """The target that has no result because of it."""
    request_id: str | None = None
