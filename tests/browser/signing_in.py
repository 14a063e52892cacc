"""How a test signs a person in."""

from __future__ import annotations

import re

from tests.browser.pages import ConsolePage
from tests.integration.serve.server_process import ServerProcess, run


def key_of(server: ServerProcess, role: str, *options: str) -> tuple[str, str]:
    """A new key, and its id."""
    code, output, errors = run(
        "keys", "create", "--role", role, "--data-dir", server.data_dir, *options
    )
    assert code == 0, errors
    return output.split()[-1], errors.split()[1]


def sign_in(console: ConsolePage, key: str) -> None:
    console.heading("Sign in")
    console.page.get_by_label(re.compile("^Key")).fill(key)
    console.page.get_by_role("button", name="Sign in").click()
