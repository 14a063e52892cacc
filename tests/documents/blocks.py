"""The fenced blocks of a Markdown page, as a reader meets them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<options>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """One fenced block: its place, what it is written in, and the file it says it is."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    @property
    def place(self) -> str:
        """Where it stands, so that an editor jumps to it."""
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        """What tells it from the page's other blocks."""
        return self.text.split("\n", 1)[0]


def pages() -> list[str]:
    """Every page that a reader may follow, relative to the project's folder."""
    roots = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    found = [*roots, *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def file_of(page: str, title: str) -> str:
    """The text of the file that the page says to write."""
    [text] = [block.text for block in blocks_of(page) if block.title == title]
    return text + "\n"


def blocks_of(page: str) -> list[Block]:
    """The blocks of the page, from top to bottom."""
    text = (ROOT / page).read_text()
    found = []
    for match in _FENCE.finditer(text):
        title = _TITLE.search(match["options"])
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start()) + 1,
                language=match["language"],
                title=title[1] if title else None,
                text=dedent(match["text"]).rstrip("\n"),
            )
        )
    return found
