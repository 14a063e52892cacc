"""Files that callers send, as multipart forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from dragoman.errors import InvalidMessage
from dragoman.lab.datasets import Format, format_of
from dragoman.lab.model import JsonValue

MAX_UPLOAD_BYTES = 8 << 30
"""The largest file that is taken; it goes through the disk, not through memory."""

_FIELDS = frozenset({"file", "name", "format", "schema"})

UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "name": {"type": "string", "description": "The dataset's name."},
                        "format": {
                            "type": "string",
                            "enum": [known.value for known in Format],
                            "description": "Default: by the file's extension.",
                        },
                        "schema": {
                            "type": "string",
                            "description": "A JSON-schema that every turn has to fit, as JSON.",
                        },
                    },
                }
            }
        },
    }
}


@dataclass(frozen=True, slots=True)
class Upload:
    """A dataset file as it was sent."""

    file: BinaryIO
    file_format: Format
    name: str | None
    schema: dict[str, JsonValue] | None


@asynccontextmanager
async def received_upload(request: Request) -> AsyncIterator[Upload]:
    """The file of a request, kept on disk inside the block."""
    try:
        form = await request.form(max_files=1, max_fields=len(_FIELDS))
    except HTTPException as error:
        raise InvalidMessage(f"The form cannot be read: {error.detail}.") from None
    try:
        yield _read(form)
    finally:
        await form.close()


def _read(form: FormData) -> Upload:
    unknown = sorted(set(form) - _FIELDS)
    if unknown:
        raise InvalidMessage(
            f"The form has a field {unknown[0]!r} that is not known; it takes "
            f"{', '.join(sorted(_FIELDS))}."
        )
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise InvalidMessage(
            "The form has no file; send multipart/form-data with a part named `file`.",
            details={"field": "file"},
        )
    return Upload(
        file=file.file,
        file_format=format_of(_text(form, "format") or file.filename or ""),
        name=_text(form, "name"),
        schema=_schema(_text(form, "schema")),
    )


def _text(form: FormData, field: str) -> str | None:
    value: Any = form.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidMessage(f"`{field}` must be text, not a file.", details={"field": field})
    return value or None


def _schema(text: str | None) -> dict[str, JsonValue] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidMessage(
            f"`schema` is no JSON object ({error}).", details={"field": "schema"}
        ) from None
