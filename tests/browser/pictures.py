"""Pictures of every page of the console, on a phone, a laptop and a wide screen.

``python -m tests.browser.pictures`` takes them anew of a running demo and writes the page that
shows them, ``docs/reference/console-pictures.md``.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.browser.lab_world import Ids, LabCaller, filled_lab, lab_environment
from tests.browser.page_list import PAGES, WIDTHS
from tests.integration.serve.server_process import eventually
from tests.servers.programs import require_program
from websockets.sync.client import connect

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "assets" / "console"
SHOWN_ON = DOCS / "reference" / "console-pictures.md"
HEIGHTS = dict(zip(WIDTHS, (800, 800, 1440), strict=True))
QUALITY = 55
FILLED_SECONDS = 45
"""So long the charts of the last minutes are left to fill before the first picture is taken."""

SAID = "Good morning, how are you today?"
SYSTEMS = (
    (
        "The meeting begins at nine",
        "La reunión empieza a las nueve",
        "La reunión empieza nueve",
    ),
    ("Where is the station?", "¿Dónde está la estación?", "¿Dónde es la estación?"),
    ("The water is cold", "El agua está fría", "El agua está fría"),
    ("We will call you tomorrow", "Le llamaremos mañana", "Nosotros llamaremos mañana"),
    ("Two coffees, please", "Dos cafés, por favor", "Dos cafés, por favor"),
)
ROWS = [
    {
        "source": f"{source} ({number})",
        "reference": f"{reference} ({number})",
        "first": f"{other if number % 3 else reference} ({number})",
        "second": f"{reference if number % 4 else other} ({number})",
        "domain": ("travel", "office", "phone")[number % 3],
    }
    for number in range(40)
    for source, reference, other in [SYSTEMS[number % len(SYSTEMS)]]
]

INTRODUCTION = """\
# Pictures of the console

Each page of the [console](../howto/console.md) over a running demo, on screens of {widths} pixels.
`python -m tests.browser.pictures` takes them anew and writes this page.
"""


@dataclass(frozen=True)
class Demo:
    """A demo that runs."""

    url: str

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}/api/v1{path}", timeout=60).raise_for_status().json()


@contextmanager
def running_demo() -> Iterator[Demo]:
    command = [str(Path(sys.executable).with_name("dragoman")), "demo", "--port", "0"]
    env = lab_environment(PYTHONUNBUFFERED="1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as demo:
        try:
            assert demo.stdout is not None
            yield next(Demo(found[0]) for line in demo.stdout if (found := _URL.search(line)))
        finally:
            demo.terminate()


_URL = re.compile(r"http://[\d.]+:\d+")


@contextmanager
def filled(demo: Demo) -> Iterator[Ids]:
    """What the addresses of the pages name, as long as the session that is shown is open."""
    with LabCaller(demo) as lab:
        in_lab = filled_lab(lab, ROWS, "apertium en-es")
    with connect(demo.url.replace("http", "ws") + "/ws/session") as socket:
        socket.send(json.dumps({"type": "session_init", "src_lang": "en", "tgt_lang": "es"}))
        session_id = json.loads(socket.recv(60))["session_id"]
        for index in range(6):
            said = {"type": "utterance", "utterance_index": index, "text": f"{SAID} ({index})"}
            socket.send(json.dumps(said))

        def is_answered() -> bool:
            timeline = demo.get(f"/sessions/{session_id}/timeline")
            return len(timeline["items"]) == 6

        eventually(is_answered, "the session was answered")
        job = demo.get("/jobs?limit=50")["items"][-1]["job_id"]
        node = min(view["node_id"] for view in demo.get("/nodes")["items"])
        yield {**in_lab, "session": session_id, "job": job, "node": node}


def take(browser: Browser, demo: Demo, ids: Ids, name: str) -> Iterator[tuple[int, bytes]]:
    """One page on each screen, as WebP; on the widest in the dark theme."""
    path, title = PAGES[name]
    page = browser.new_page(color_scheme="light", locale="en-GB")
    page.goto(demo.url + path.format(**ids))
    page.get_by_role("heading", name=title.format(**ids), level=1).wait_for()
    expect(page.locator(".mantine-Loader-root")).to_have_count(0)
    if name.startswith("talk"):
        _say_something(page)
    page.wait_for_timeout(2_500)  # charts begin with the second message of the server
    session = page.context.new_cdp_session(page)
    for width in WIDTHS:
        if width == max(WIDTHS):
            page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        page.wait_for_timeout(600)  # charts are drawn again for their new place
        # Playwright writes no WebP by itself; the browser does.
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        yield width, base64.b64decode(taken["data"])
    page.context.close()


def _say_something(page: Page) -> None:
    page.get_by_label("Write").last.fill(SAID)
    page.get_by_label("Write").last.press("Enter")
    page.locator('[lang="es"]').first.wait_for()


def shown(name: str) -> str:
    """The pictures of a page, for the documents."""
    lines = [f"## {name.replace('-', ' ').capitalize()}", ""]
    for width in WIDTHS:
        where = f"../assets/console/{name}-{width}.webp"
        told = f"The page {name.replace('-', ' ')}, {width} pixels wide"
        lines += [f"![{told}]({where}){{ .picture loading=lazy width={min(width, 1280)} }}", ""]
    return "\n".join(lines)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, running_demo() as demo, filled(demo) as ids:
        browser = playwright.chromium.launch(
            executable_path=require_program("chromium"), args=CHROMIUM_OPTIONS
        )
        browser.new_page().wait_for_timeout(FILLED_SECONDS * 1_000)
        for name in PAGES:
            for width, picture in take(browser, demo, ids, name):
                (FOLDER / f"{name}-{width}.webp").write_bytes(picture)
        browser.close()
    widths = ", ".join(map(str, WIDTHS[:-1])) + f" and {WIDTHS[-1]}"
    parts = [INTRODUCTION.format(widths=widths), *(shown(name) for name in PAGES)]
    SHOWN_ON.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
