"""Files that callers send, as multipart forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.audio import FolderFiles, opened_archive, with_audio
from dragoman.lab.datasets import Format, format_of
from dragoman.lab.library import AudioSource
from dragoman.lab.model import JsonValue

MAX_UPLOAD_BYTES = 8 << 30
"""The largest file that is taken; it goes through the disk, not through memory."""

MAX_IMPORT_ID = 64

ARCHIVE = "zip"
"""The format of an archive that holds a table and the audio files that it names."""

_FIELDS = frozenset({"file", "name", "format", "schema", "audio", "import_id"})
_LOCAL_FIELDS = frozenset({"audio_folder", "audio_copy"})
"""Fields of programs that run the lab inside themselves, as their user."""

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
                            "enum": [*(known.value for known in Format), ARCHIVE],
                            "description": "Default: by the file's extension. A zip holds one "
                            "table and the audio files that its rows name.",
                        },
                        "schema": {
                            "type": "string",
                            "description": "A JSON-schema that every turn has to fit, as JSON.",
                        },
                        "audio": {
                            "type": "string",
                            "description": "Columns that name audio files, split by commas.",
                        },
                        "import_id": {
                            "type": "string",
                            "maxLength": MAX_IMPORT_ID,
                            "description": "A random word, to ask /datasets/imports/{import_id} "
                            "how far the import has come.",
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
    audio: AudioSource | None = None
    import_id: str | None = None


@asynccontextmanager
async def received_upload(request: Request, *, is_local: bool) -> AsyncIterator[Upload]:
    """The file of a request, kept on disk inside the block.

    `is_local`: the caller is this program's user, who may name a folder of this machine.
    """
    try:
        form = await request.form(max_files=1, max_fields=len(_FIELDS | _LOCAL_FIELDS))
    except HTTPException as error:
        raise InvalidMessage(f"The form cannot be read: {error.detail}.") from None
    with ExitStack() as opened:
        try:
            yield await asyncio.to_thread(_read, form, is_local, opened)
        finally:
            await form.close()


def _read(form: FormData, is_local: bool, opened: ExitStack) -> Upload:
    unknown = sorted(set(form) - _FIELDS - _LOCAL_FIELDS)
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
    said, sent_as = _text(form, "format") or "", file.filename or ""
    name, schema = _text(form, "name"), _schema(_text(form, "schema"))
    columns = [part.strip() for part in (_text(form, "audio") or "").split(",") if part.strip()]
    audio, import_id = _local_audio(form, is_local), _text(form, "import_id")
    if len(import_id or "") > MAX_IMPORT_ID:
        raise InvalidMessage(f"`import_id` is longer than {MAX_IMPORT_ID} characters.")
    if said.lower() == ARCHIVE or (not said and sent_as.lower().endswith(f".{ARCHIVE}")):
        archive = opened.enter_context(opened_archive(file.file))
        return Upload(
            file=archive.table,
            file_format=format_of(archive.table_name),
            name=name,
            schema=with_audio(schema or archive.schema, columns),
            audio=AudioSource(archive.files),
            import_id=import_id,
        )
    file_format, schema = format_of(said or sent_as), with_audio(schema, columns)
    return Upload(file.file, file_format, name, schema, audio, import_id)


def _local_audio(form: FormData, is_local: bool) -> AudioSource | None:
    folder = _text(form, "audio_folder")
    if not _LOCAL_FIELDS & set(form):
        return None
    if not is_local or folder is None:
        raise Forbidden(
            "A server reads no folders for its callers; send a .zip that holds the table and the "
            "audio.",
            details={"field": "audio_folder"},
        )
    return AudioSource(FolderFiles(Path(folder)), copy=_text(form, "audio_copy") != "false")


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
