"""What mkdocs does besides: it bundles the script of the diagrams and the font.

Both come from `web/node_modules`, where `make setup` puts them; nothing is fetched by a reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
DIAGRAMS = "assets/mermaid.js"
BUNDLED = {
    DIAGRAMS: "@mermaid-js/tiny/dist/mermaid.tiny.js",
    "assets/inter-latin.woff2": "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
    "assets/inter-latin-ext.woff2": (
        "@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2"
    ),
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is bundled to the files of the site."""
    for address, name in BUNDLED.items():
        path = ROOT / "web" / "node_modules" / name
        if not path.is_file():
            raise PluginError(f"web/node_modules/{name} is missing; run `make setup`.")
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_post_page(output: str, *, page: Page, config: Any) -> str:
    """Load the diagrams' script where there are diagrams, and name the language of the page."""
    if 'class="mermaid"' in output:
        script = f'<script src="{get_relative_url(DIAGRAMS, page.url)}"></script>\n'
        output = output.replace("</head>", f"{script}</head>", 1)
    if page.url.startswith("zh/"):
        output = output.replace('<html lang="en"', '<html lang="zh-Hans"', 1)
    return output
