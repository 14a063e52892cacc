from __future__ import annotations

from pathlib import Path

from dragoman.live.protocol.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "protocol.md"


def test_the_committed_reference_page_is_what_the_messages_say() -> None:
    remedy = "run python -m dragoman.live.protocol.reference > docs/reference/protocol.md"
    assert PAGE.read_text(encoding="utf-8") == page(), remedy


def test_what_is_written_under_a_field_is_on_the_page() -> None:
    assert "| `attempt_id` | text | required | Opaque: echo it. |" in page()
