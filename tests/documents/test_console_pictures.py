"""Every page of the console is pictured, on every screen, in small files."""

from __future__ import annotations

from pathlib import Path

from tests.browser.page_list import PAGES, WIDTHS

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "assets" / "console"
ONE_BYTES_MAX = 2**18
ALL_BYTES_MAX = 3 * 10**6


def test_every_page_has_a_picture_on_every_screen_and_the_page_of_pictures_shows_it() -> None:
    shown = (DOCS / "reference" / "console-pictures.md").read_text(encoding="utf-8")
    wanted = {f"{name}-{width}.webp" for name in PAGES for width in WIDTHS}
    assert {file.name for file in FOLDER.iterdir()} == wanted
    assert [name for name in sorted(wanted) if f"](../assets/console/{name})" not in shown] == []


def test_pictures_are_small() -> None:
    sizes = [file.stat().st_size for file in FOLDER.iterdir()]
    assert max(sizes) < ONE_BYTES_MAX
    assert sum(sizes) < ALL_BYTES_MAX
