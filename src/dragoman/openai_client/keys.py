"""The key that a server asks for, which is in the environment of the program that runs it."""

from __future__ import annotations

import os
from collections.abc import Collection

from dragoman.errors import InvalidMessage
from dragoman.openai_client.settings import ModelServerSettings
from dragoman.outbound import check_variable

KEY_IN_SETTINGS = "api_key"
"""A setting that would hold a secret. It is refused, and no answer of the API shows it."""


def check_key(settings: ModelServerSettings, where: str, allow: Collection[str] | None) -> None:
    """Refuse a key that may not be taken, or is given itself; `allow` is None for a user's own."""
    if settings.api_key is not None:
        # The message does not repeat it.
        raise InvalidMessage(
            f"`{where}.api_key` does not fit: a key would be stored with the experiment as it is; "
            "put it into an environment variable where the experiment runs, and give its name as "
            f"`{where}.api_key_env`.",
            details={"field": f"{where}.api_key"},
        )
    if settings.api_key_env is not None:
        check_variable(settings.api_key_env, f"{where}.api_key_env", settings.url, allow)


def find_key(
    settings: ModelServerSettings, where: str, allow: Collection[str] | None
) -> str | None:
    """The key, if the server has one."""
    check_key(settings, where, allow)
    if settings.api_key_env is None:
        return None
    return os.environ[settings.api_key_env].strip()
