"""A translated page is that of the English page as it is now, with the same blocks."""

from __future__ import annotations

import hashlib
import re

import pytest
from tests.documents.blocks import ROOT, blocks_of

ENGLISH = ROOT / "docs"
CHINESE = ENGLISH / "zh"
TRANSLATED = sorted(str(page.relative_to(CHINESE)) for page in CHINESE.rglob("*.md"))
TO_TRANSLATE = sorted(
    [
        "index.md",
        "quickstart.md",
        *(f"concepts/{page.name}" for page in ENGLISH.glob("concepts/*.md")),
    ]
)


def digest_of(page: str) -> str:
    """What changes with the English page."""
    return hashlib.sha256((ENGLISH / page).read_bytes()).hexdigest()[:16]


def test_landing_page_quickstart_and_concepts_are_translated() -> None:
    assert TRANSLATED == TO_TRANSLATE


@pytest.mark.parametrize("page", TRANSLATED)
def test_the_english_page_has_not_changed_since_it_was_translated(page: str) -> None:
    found = re.search(r"^translated_from: (\w+)$", (CHINESE / page).read_text(), re.MULTILINE)
    assert found, f"docs/zh/{page} does not say which text it translates"
    remedy = (
        f"docs/{page} changed after docs/zh/{page} was made from it: translate what changed, "
        f"then write `translated_from: {digest_of(page)}` at its top"
    )
    assert found[1] == digest_of(page), remedy


@pytest.mark.parametrize("page", TRANSLATED)
def test_the_blocks_are_those_of_the_english_page(page: str) -> None:
    """The English ones are followed by other tests; words in diagrams are translated."""

    def blocks(of: str) -> list[tuple[str, str | None, str]]:
        return [
            (block.language, block.title, "" if block.language == "mermaid" else block.text)
            for block in blocks_of(of)
        ]

    assert blocks(f"docs/zh/{page}") == blocks(f"docs/{page}")
