"""How settings are shown to people: as they would be written in a file, without passwords."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
