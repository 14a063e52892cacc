"""Shell completion, installed as a user does it and asked as bash asks it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.serve.server_process import DRAGOMAN, PATIENCE_SECONDS, environment


def bash(script: str, home: Path) -> str:
    env = environment(HOME=str(home), PATH=f"{Path(DRAGOMAN).parent}:/usr/bin:/bin")
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMPLETE = """
source ~/.bashrc
COMP_WORDS=({words}) COMP_CWORD={at}
_dragoman_completion dragoman
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(home: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words, in a shell that was opened after the install."""
    typed = " ".join(f"'{word}'" for word in ("dragoman", *words))
    return bash(COMPLETE.format(words=typed, at=len(words)), home).split()


def test_completion_is_installed_and_knows_commands_subcommands_and_options(
    tmp_path: Path,
) -> None:
    # The shell is found out from the process that called the program; `exit` keeps it there.
    assert "installed" in bash("dragoman --install-completion; exit $?", tmp_path)
    assert completed(tmp_path, "no") == ["node", "nodes"]
    assert completed(tmp_path, "nodes", "") == ["list", "show", "drain", "resume", "shutdown"]
    assert completed(tmp_path, "cluster", "dlq", "re") == ["replay"]
    assert "--expect" in completed(tmp_path, "cluster", "status", "--e")
    assert "--speech" in completed(tmp_path, "say", "--s")
