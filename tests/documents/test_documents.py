"""Every page is followed to the letter, on a machine with an empty home and no caches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import markdown
import pytest
from tests.documents.blocks import ROOT, Block, blocks_of, pages
from tests.documents.following import commands_of, follow
from tests.documents.sandbox import Sandbox, namespaces_are_allowed

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

NOT_FOLLOWED: dict[tuple[str, str], str] = {}
"""Blocks that no test runs: the page, the block's first line, and the reason."""

IN_A_CHECKOUT = ("README.md", "docs/quickstart.md")
"""Pages whose reader stands in a fresh checkout with nothing installed."""


def followed(page: str) -> list[Block]:
    return [block for block in blocks_of(page) if (page, block.first_line) not in NOT_FOLLOWED]


PAGES = [page for page in pages() if followed(page)]


@pytest.fixture(scope="session", autouse=True)
def network_of_its_own() -> None:
    if namespaces_are_allowed():
        return
    message = "this machine does not let a process have a network namespace of its own"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would hand out, set up for the demo alone with an empty home.

    Setting up needs the package registries, so it happens before the page's network is closed.
    """
    folder = tmp_path_factory.mktemp("checkout") / "dragoman"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    home = folder.parent / "home"
    home.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "UV_"))}
    env |= {"HOME": str(home), "PATH": f"{Path(sys.executable).resolve().parent}:{SYSTEM_PATH}"}
    env.pop("VIRTUAL_ENV", None)
    ready = subprocess.run(
        [".ci/setup", "demo"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert ready.returncode == 0, ready.stdout + ready.stderr
    return folder


@pytest.fixture
def sandbox(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A terminal where the reader of this page would have one."""
    home = tmp_path / "home"
    home.mkdir()
    if page in IN_A_CHECKOUT:
        folder: Path = request.getfixturevalue("checkout")
        path = SYSTEM_PATH
    else:
        folder = tmp_path / "work"
        folder.mkdir()
        for name in ("deploy", "examples"):
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, folder / name)
        path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
    opened = Sandbox(folder, home=home, path=path, env={})
    yield opened
    opened.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_reader_who_follows_the_page_to_the_letter_arrives(page: str, sandbox: Sandbox) -> None:
    follow(followed(page), sandbox)


@pytest.mark.parametrize("page", pages())
def test_every_block_of_a_page_is_fenced_and_says_what_it_is_written_in(page: str) -> None:
    html = markdown.markdown(
        (ROOT / page).read_text(),
        extensions=["tables", "pymdownx.superfences", "pymdownx.highlight"],
        extension_configs={"pymdownx.highlight": {"use_pygments": False}},
    )
    unnamed = re.findall(r"<pre[^>]*><code>(.*?)</code>", html, re.DOTALL)
    assert not unnamed, f"{page}: neither fenced nor named: {unnamed[0][:80]}"
    assert html.count("<pre") == len(blocks_of(page))


def test_what_is_not_followed_is_on_its_page_and_has_a_reason() -> None:
    known = {(page, block.first_line) for page in pages() for block in blocks_of(page)}
    assert set(NOT_FOLLOWED) <= known
    assert all(len(reason) > 15 for reason in NOT_FOLLOWED.values())


def test_a_command_ends_where_the_reader_presses_return() -> None:
    text = "one  # don't\ntwo \\\n  more\nthree 'a\nb'\ncat <<END\nx 'y\nEND\n# nothing\n"
    assert list(commands_of(text)) == [
        "one  # don't",
        "two \\\n  more",
        "three 'a\nb'",
        "cat <<END\nx 'y\nEND",
    ]
