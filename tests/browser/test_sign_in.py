"""Signing in with a browser, and what each role is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.browser.signing_in import key_of, sign_in
from tests.integration.live_api.manual_node import ManualNode, new_pair
from tests.integration.serve.server_process import ServerProcess, environment, run
from tests.servers.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProviderProcess

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def keys_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("keys") / "data", env=env) as server:
        yield server


def test_a_viewer_signs_in_sees_the_page_that_was_wanted_and_no_action(
    browser: Browser, keys_server: ServerProcess
) -> None:
    node_key, _ = key_of(keys_server, "node")
    with (
        ManualNode(keys_server, new_pair(), node_id="n-seen", key=node_key),
        ConsolePage.opened(browser, keys_server.url) as console,
    ):
        console.go("/nodes/n-seen")
        sign_in(console, "dgm_wrong")
        console.page.get_by_role("alert").wait_for()
        assert console.accessibility_violations() == []
        sign_in(console, key_of(keys_server, "viewer")[0])
        console.heading("Node n-seen")
        console.page.get_by_role("cell", name="Ready").wait_for()
        assert console.page.get_by_role("button", name="Drain").count() == 0
        stored = console.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert "dgm_" not in stored
        assert "dgs_" not in stored
        assert console.page.evaluate("document.cookie") == ""
        for page, shown in (("Settings", "server.port"), ("Audit log", "key.create")):
            console.page.get_by_role("link", name=page, exact=True).click()
            console.heading(page)
            console.shows(shown)
        console.page.get_by_role("button", name="Sign out").click()
        console.heading("Sign in")
        console.go("/nodes")
        console.heading("Sign in")
        console.complaints.clear()  # the browser tells of each answer that is no success


def test_an_operator_who_signed_in_acts_and_is_let_go_when_the_key_is_revoked(
    browser: Browser, keys_server: ServerProcess
) -> None:
    key, key_id = key_of(keys_server, "operator")
    node_key, _ = key_of(keys_server, "node")
    with (
        ManualNode(keys_server, new_pair(), node_id="n-led", key=node_key),
        ConsolePage.opened(browser, keys_server.url) as console,
    ):
        console.go("/nodes/n-led")
        sign_in(console, key)
        console.page.get_by_role("button", name="Drain").click()
        console.page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(console.page.get_by_role("cell", name="Draining")).to_be_visible()
        run("keys", "revoke", key_id, "--data-dir", keys_server.data_dir)
        console.heading("Sign in")
        console.complaints.clear()


def test_a_client_is_led_to_what_it_may_see(browser: Browser, keys_server: ServerProcess) -> None:
    with ConsolePage.opened(browser, keys_server.url) as console:
        console.go("/sign-in?next=https://evil.example/")
        sign_in(console, key_of(keys_server, "client")[0])
        console.heading("Sessions")
        expect(console.page).to_have_url(keys_server.url + "/sessions")
        assert console.page.get_by_role("link", name="Nodes").count() == 0
        console.complaints.clear()


class _Elsewhere(BaseHTTPRequestHandler):
    """A page of another origin, which is yet the same site: the cookie comes along."""

    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""


@contextmanager
def elsewhere(page: str) -> Iterator[str]:
    """The address of a server of such pages, on another port of this machine."""
    handler = type("Handler", (_Elsewhere,), {"page": page.encode()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


TRIED = """
async (url) => {
  const closed = (path) => new Promise((resolve) => {
    const socket = new WebSocket(url.replace("http", "ws") + path);
    socket.onopen = () => socket.send('{"type": "watch", "topics": ["nodes"]}');
    socket.onmessage = () => resolve("told");
    socket.onclose = ({ code }) => resolve(code);
  });
  const asked = (options) => fetch(`${url}/api/v1/nodes/n-wanted/drain`, {
    method: "POST", credentials: "include", ...options,
  }).then(() => "answered", () => "refused");
  return [
    await closed("/ws/console"),
    await closed("/ws/session"),
    await asked({ mode: "cors" }),
    await asked({ mode: "cors", headers: { "X-CSRF-Token": "a guess" } }),
  ];
}
"""


def test_a_page_of_elsewhere_gets_nothing_by_the_cookie_of_who_is_signed_in(
    browser: Browser, keys_server: ServerProcess
) -> None:
    node_key, _ = key_of(keys_server, "node")
    with (
        ManualNode(keys_server, new_pair(), node_id="n-wanted", key=node_key) as node,
        ConsolePage.opened(browser, keys_server.url) as console,
    ):
        console.go("/nodes/n-wanted")
        sign_in(console, key_of(keys_server, "operator")[0])
        console.heading("Node n-wanted")
        target = f"{keys_server.url}/api/v1/nodes/n-wanted/drain"
        form = f'<form method="post" action="{target}"><button>Win</button></form>'
        frame = f'<iframe src="{keys_server.url}/nodes"></iframe>'
        evil = console.page.context.new_page()
        with elsewhere(form + frame) as address:
            evil.goto(address)
            closed, also_closed, *asked = evil.evaluate(TRIED, keys_server.url)
            assert (closed, also_closed) == (4403, 4403)
            assert asked == ["refused", "refused"]
            assert evil.frames[1].get_by_role("heading", name="Nodes").count() == 0
            with evil.expect_response(target) as answer:
                evil.get_by_role("button", name="Win").click()
            assert "dragoman" in answer.value.request.all_headers()["cookie"], "it came along"
            assert answer.value.status == 403
        node.beat()
        expect(console.page.get_by_role("cell", name="Ready")).to_be_visible()
        console.complaints.clear()  # the browser told of the 401 that led to the page to sign in


def test_the_api_page_needs_no_key(browser: Browser, keys_server: ServerProcess) -> None:
    with ConsolePage.opened(browser, keys_server.url) as console:
        console.go("/docs")
        console.heading("API")
        console.page.locator("summary", has_text="/healthz").wait_for()
        console.complaints.clear()  # the browser tells that the server does not know the reader


def test_a_person_signs_in_through_their_provider_and_lands_on_the_page_they_wanted(
    browser: Browser, tmp_path: Path
) -> None:
    with OidcProviderProcess({"roles": "staff"}) as provider:
        (tmp_path / "secret").write_text(CLIENT_SECRET)
        env = environment(
            DRAGOMAN_AUTH__MODE="keys",
            DRAGOMAN_AUTH__OIDC__ISSUER=provider.issuer,
            DRAGOMAN_AUTH__OIDC__CLIENT_ID=CLIENT_ID,
            DRAGOMAN_AUTH__OIDC__CLIENT_SECRET_FILE=str(tmp_path / "secret"),
            DRAGOMAN_AUTH__OIDC__NAME="Acme account",
            DRAGOMAN_AUTH__OIDC__ROLES='{"staff": "viewer"}',
        )
        with (
            ServerProcess(tmp_path / "data", env=env) as server,
            ConsolePage.opened(browser, server.url) as console,
        ):
            provider.claims = {}
            console.go("/nodes")
            button = console.page.get_by_role("link", name="Sign in with Acme account")
            button.wait_for()
            assert console.accessibility_violations() == []
            button.click()
            console.shows("Your account has no role on this server")
            provider.claims = {"roles": "staff"}
            console.go("/nodes")
            button.click()
            console.heading("Nodes")
            console.complaints.clear()  # of the 401 that led to the page to sign in
