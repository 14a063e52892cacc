"""The reference page of the keys in Redis is made from their declarations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dragoman.cli.redis_keys import families, reference
from dragoman.redis_servers import family_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "redis-keys.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    remedy = "run `python -m dragoman.cli.redis_keys > docs/reference/redis-keys.md`"
    assert PAGE.read_text(encoding="utf-8") == reference(), remedy


def test_the_page_is_what_the_command_prints() -> None:
    command = [sys.executable, "-W", "error", "-m", "dragoman.cli.redis_keys"]
    printed = subprocess.run(command, capture_output=True, check=True, text=True)
    assert printed.stdout == reference()


def test_every_family_has_a_row() -> None:
    rows = reference().splitlines()
    for family in families():
        assert any(row.startswith(f"| `{family.name}` | {family.kind} |") for row in rows)
        assert "|" not in family.holds + family.lives + family.size


def test_a_key_is_of_the_family_that_its_tag_and_name_say() -> None:
    known = families()
    found = {
        key: family_of(key.encode(), "prefix", known)
        for key in (
            "prefix:m2:{c12}:board",
            "prefix:m2:{sff}:r:0123456789abcdef0123",
            "prefix:m2:{sff}:r:0123456789abcdef0123:j-1",
            "prefix:m2:{t:acme}:job_blocks",
        )
    }
    assert [family.pattern if family else None for family in found.values()] == [
        "{c<number>}:board",
        "{s<00..ff>}:r:<request>",
        "{s<00..ff>}:r:<request>:<job_id>",
        "{t:<tenant>}:job_blocks",
    ]
    for key in ("prefix:{c12}:board", "prefix:m2:{c12}:boards", "other:m2:{c12}:board"):
        assert family_of(key.encode(), "prefix", known) is None
