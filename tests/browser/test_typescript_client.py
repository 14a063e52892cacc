"""The packed TypeScript client, imported by a page in Chromium."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Route
from tests.browser.pages import ConsolePage
from tests.browser.talking import PATIENT, simulated_node
from tests.integration.clients.packed_client import packed_client
from tests.integration.serve.server_process import ServerProcess

SAY = """
async () => {
  const { Session } = await import("/client/index.js");
  const options = { url: location.origin.replace("http", "ws"), srcLang: "en", tgtLangs: ["es"] };
  const result = await new Promise((resolve) => {
    const session = new Session(options, { onResult: resolve });
    session.say("good morning", { speech: false });
  });
  return result.text_translated;
}
"""


def test_a_page_imports_the_packed_client_and_talks_through_it(
    browser: Browser, tmp_path: Path
) -> None:
    built = packed_client(tmp_path) / "dist"

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(path=built / name, content_type="text/javascript")

    with (
        ServerProcess(tmp_path / "data", env=PATIENT) as server,
        simulated_node(server),
        ConsolePage.opened(browser, server.url) as console,
    ):
        console.page.route("**/client/*.js", serve)
        console.go("/docs")
        assert "good morning" in console.page.evaluate(SAY)
