"""The key that a server asks for, which is in the environment of the program that runs it.

Settings are stored with the experiment and shown to others, so they hold the variable's name only.
A server's environment holds secrets that its users must not see. A user who could name any
variable and any address would have it sent there. So on a server each variable is allowed together
with the host that may receive it: `lab.key_env_allow = ["OPENAI_API_KEY@api.openai.com"]`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

import httpx

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.openai_client.settings import ServerSettings

KEY_IN_SETTINGS = "api_key"
"""A setting that would hold a secret. It is refused, and no answer of the API shows it."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_key(settings: ServerSettings, where: str, allow: Collection[str] | None) -> None:
    """Refuse a key that may not be taken, or is given itself; `allow` is None for a user's own."""
    if settings.api_key is not None:
        # The message does not repeat it.
        raise _unusable(
            f"{where}.api_key",
            "a key would be stored with the experiment as it is; put it into an environment "
            f"variable where the experiment runs, and give its name as `{where}.api_key_env`",
        )
    name = settings.api_key_env
    if name is None:
        return
    if not _VARIABLE.fullmatch(name):
        raise _unusable(
            f"{where}.api_key_env",
            "expected the name of an environment variable, such as OPENAI_API_KEY, not the key",
        )
    host = httpx.URL(settings.url).netloc.decode("ascii")
    if allow is not None and f"{name}@{host}" not in allow:
        raise Forbidden(
            f"`{where}.api_key_env` would send the variable {name} to {host}, which this server "
            f'does not allow; an operator can add "{name}@{host}" to lab.key_env_allow.',
            details={"field": f"{where}.api_key_env"},
        )
    if name not in os.environ:
        raise InvalidMessage(
            f"`{where}.api_key_env` names the variable {name}, which is not set where the "
            "experiment runs; set it there and start again.",
            details={"field": f"{where}.api_key_env"},
        )


def find_key(settings: ServerSettings, where: str, allow: Collection[str] | None) -> str | None:
    """The key, if the server has one."""
    check_key(settings, where, allow)
    if settings.api_key_env is None:
        return None
    return os.environ[settings.api_key_env].strip()


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
