"""The picture of the console on the landing page, taken of a running demo.

``python -m tests.browser.landing_picture docs/assets/console.webp`` takes it anew.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.servers.programs import require_program

WIDTH, HEIGHT = 1280, 596
QUALITY = 82
FILLED_SECONDS = 75
"""So long the charts of the last minutes are left to fill before the picture is taken."""


def take_picture(url: str, path: Path) -> None:
    """Open the console's overview in Debian's Chromium and keep what it shows, as WebP."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=require_program("chromium"), args=CHROMIUM_OPTIONS
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", locale="en-GB"
        )
        page.goto(url)
        page.get_by_role("heading", name="Overview").wait_for()
        page.wait_for_timeout(FILLED_SECONDS * 1_000)
        # Playwright writes no WebP by itself; the browser does.
        taken = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
        )
        path.write_bytes(base64.b64decode(taken["data"]))
        browser.close()


def main(path: Path) -> None:
    command = [str(Path(sys.executable).with_name("dragoman")), "demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            for line in demo.stdout:
                if found := re.search(r"http://[\d.]+:\d+", line):
                    take_picture(found[0], path)
                    break
        finally:
            demo.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
