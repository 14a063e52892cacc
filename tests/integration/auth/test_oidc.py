"""Signing in through a real OpenID provider: the claims decide, and nothing forged gets in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run
from tests.servers.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProviderProcess

from dragoman import extras
from dragoman.auth import OidcClient, OidcPerson, own_path
from dragoman.clock import SystemClock
from dragoman.errors import DependencyDown, ExtraMissing, SettingsError
from dragoman.settings import load_settings

ROLES = {"admins": "operator", "staff": "viewer"}
BEGIN = "/api/v1/sign-in/oidc"


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProviderProcess]:
    with OidcProviderProcess() as running:
        yield running


@pytest.fixture(autouse=True)
def an_honest_provider(provider: OidcProviderProcess) -> None:
    provider.claims = {"preferred_username": "mara", "realm": {"roles": ["staff", "admins"]}}
    provider.overrides = {}
    provider.signs_with = None
    provider.auth_methods = None
    provider.refusals.clear()


@pytest.fixture(scope="module")
def server(
    provider: OidcProviderProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("oidc")
    (folder / "secret").write_text(f"{CLIENT_SECRET}\n")
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_AUTH__OIDC__ISSUER=provider.issuer,
        DRAGOMAN_AUTH__OIDC__CLIENT_ID=CLIENT_ID,
        DRAGOMAN_AUTH__OIDC__CLIENT_SECRET_FILE=str(folder / "secret"),
        DRAGOMAN_AUTH__OIDC__NAME="Acme account",
        DRAGOMAN_AUTH__OIDC__ROLE_CLAIM="realm.roles",
        DRAGOMAN_AUTH__OIDC__ROLES=json.dumps(ROLES),
        DRAGOMAN_LIMITS__SIGN_INS_PER_MINUTE="0",
    )
    with ServerProcess(folder / "data", env=env) as running:
        yield running


@pytest.fixture
def browser(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def sign_in(browser: httpx.Client, next_: str = "/nodes") -> httpx.Response:
    """Go to the provider and back; the last answer, which sends the browser to a page."""
    there = browser.get(BEGIN, params={"next": next_})
    assert there.status_code == 303, there.text
    back = browser.get(there.headers["Location"])
    assert back.status_code == 302
    return browser.get(back.headers["Location"])


def test_a_person_signs_in_and_has_the_role_of_their_claims(
    server: ServerProcess, browser: httpx.Client, provider: OidcProviderProcess
) -> None:
    assert browser.get("/api/v1/sign-in/ways").json() == {"key": True, "oidc": "Acme account"}
    answer = sign_in(browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/nodes")
    cookies = answer.headers.get_list("set-cookie")
    [kept] = [cookie for cookie in cookies if cookie.startswith("dragoman_sign_in=")]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    me = browser.get("/api/v1/me").json()
    assert (me["role"], me["tenant_id"]) == ("operator", "default"), "the most powerful counts"
    assert me["key_id"].startswith("oidc-")
    assert provider.refusals == []
    drain = browser.post("/api/v1/nodes/n/drain", headers={"X-CSRF-Token": me["csrf_token"]})
    assert drain.status_code == 404, "an operator, and there is no such node"
    [entry] = browser.get("/api/v1/audit?action=sign_in&limit=1").json()["items"]
    assert entry["actor"] == me["key_id"]
    assert entry["facts"]["person"] == "mara"


def test_a_change_of_roles_ends_the_other_sign_ins_of_the_person(
    server: ServerProcess, provider: OidcProviderProcess, browser: httpx.Client
) -> None:
    sign_in(browser)
    provider.claims["realm"] = {"roles": ["staff"]}
    with httpx.Client(base_url=server.url, timeout=60) as other:
        sign_in(other)
        me = other.get("/api/v1/me").json()
        assert me["role"] == "viewer"
        drain = other.post("/api/v1/nodes/n/drain", headers={"X-CSRF-Token": me["csrf_token"]})
        assert drain.status_code == 403, "a viewer sees, and changes nothing"
    eventually(lambda: browser.get("/api/v1/me").status_code == 401, "the first one has ended")


@pytest.mark.parametrize(
    "claims",
    [{}, {"realm": {"roles": ["guests"]}}, {"realm": {"roles": 7}}, {"realm": []}],
)
def test_a_person_without_a_role_is_sent_back_to_the_sign_in_page(
    provider: OidcProviderProcess, browser: httpx.Client, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    answer = sign_in(browser)
    assert answer.headers["Location"] == "/sign-in?refused=FORBIDDEN"
    assert browser.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    "overrides",
    [
        {"aud": "another program"},
        {"iss": "https://evil.example"},
        {"nonce": "of another browser"},
        {"exp": 1_000_000_000},
        {"azp": "another program"},
        {"nonce": None},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_this_server_browser_and_moment_is_refused(
    provider: OidcProviderProcess, browser: httpx.Client, overrides: dict[str, Any]
) -> None:
    provider.overrides = overrides
    assert sign_in(browser).headers["Location"] == "/sign-in?refused=UNAUTHORIZED"
    assert browser.get("/api/v1/me").status_code == 401


def test_a_token_that_another_key_signed_is_refused(
    provider: OidcProviderProcess, browser: httpx.Client
) -> None:
    other = OidcProviderProcess()
    other.key.ensure_kid()
    provider.signs_with = other.key
    assert sign_in(browser).headers["Location"] == "/sign-in?refused=UNAUTHORIZED"
    other._server.server_close()  # it was only here for its key


def test_a_way_back_that_was_not_begun_in_this_browser_is_refused(
    server: ServerProcess, browser: httpx.Client
) -> None:
    there = browser.get(BEGIN).headers["Location"]
    back = httpx.get(there, timeout=60).headers["Location"]
    stranger = httpx.get(back, timeout=60)
    assert stranger.headers["Location"] == "/sign-in?refused=UNAUTHORIZED"
    asked = parse_qs(urlsplit(back).query)
    forged = browser.get(f"{BEGIN}/callback", params={"code": asked["code"], "state": "a guess"})
    assert forged.headers["Location"] == "/sign-in?refused=UNAUTHORIZED"
    for carried in ("", "x", "x.y", "e30.0", "ü.ü"):
        headers = {b"Cookie": f"dragoman_oidc={carried}".encode("latin-1")}
        answer = httpx.get(f"{server.url}{BEGIN}/callback?state=s&code=c", headers=headers)
        assert answer.headers["Location"] == "/sign-in?refused=UNAUTHORIZED"


def test_a_code_is_good_once(browser: httpx.Client) -> None:
    there = browser.get(BEGIN).headers["Location"]
    back = browser.get(there).headers["Location"]
    carried = dict(browser.cookies)
    assert browser.get(back).headers["Location"] == "/"
    again = httpx.get(back, cookies=carried, timeout=60)
    assert again.headers["Location"] == "/sign-in?refused=UNAUTHORIZED"


def test_a_revoked_person_stays_out(
    server: ServerProcess, provider: OidcProviderProcess, browser: httpx.Client
) -> None:
    provider.claims["sub"] = "subject-to-revoke"
    sign_in(browser)
    key_id = browser.get("/api/v1/me").json()["key_id"]
    assert run("keys", "revoke", key_id, "--data-dir", server.data_dir)[0] == 0
    eventually(lambda: browser.get("/api/v1/me").status_code == 401, "the sign-in has ended")
    assert sign_in(browser).headers["Location"] == "/sign-in?refused=FORBIDDEN"


@pytest.mark.parametrize(
    "address",
    ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/a\r\nSet-Cookie: b"],
)
def test_nobody_is_sent_to_another_site(browser: httpx.Client, address: str) -> None:
    assert own_path(address) == "/"
    assert sign_in(browser, address).headers["Location"] == "/"


def settings_with(folder: Path, **oidc: Any) -> Any:
    flags = {"server": {"data_dir": folder}, "auth": {"mode": "keys", "oidc": oidc}}
    return load_settings(None, flags, environ={}).settings.auth.oidc


def whole(folder: Path) -> dict[str, Any]:
    (folder / "secret").write_text("secret")
    return {
        "issuer": "https://login.example.org",
        "client_id": "dragoman",
        "client_secret_file": str(folder / "secret"),
        "roles": ROLES,
    }


def test_settings_that_are_not_whole_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    for missing in ("client_id", "client_secret_file", "roles"):
        given = {name: value for name, value in whole(tmp_path).items() if name != missing}
        with pytest.raises(SettingsError, match=missing):
            settings_with(tmp_path, **given)
    with pytest.raises(SettingsError, match="https://"):
        settings_with(tmp_path, **{**whole(tmp_path), "issuer": "http://login.example.org"})
    unreadable = settings_with(
        tmp_path, **{**whole(tmp_path), "client_secret_file": str(tmp_path / "none")}
    )
    with pytest.raises(SettingsError, match="client_secret_file"):
        OidcClient(unreadable, SystemClock())


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "joserfc")
    with pytest.raises(ExtraMissing, match=r"auth\.oidc\.issuer.*dragoman\[oidc\]"):
        OidcClient(settings_with(tmp_path, **whole(tmp_path)), SystemClock())


def person_signed_in(provider: OidcProviderProcess, folder: Path) -> OidcPerson:
    """Who comes back from the provider to a server that has just started."""
    (folder / "client-secret").write_text(CLIENT_SECRET)
    settings = settings_with(
        folder,
        issuer=provider.issuer,
        client_id=CLIENT_ID,
        client_secret_file=str(folder / "client-secret"),
        role_claim="realm.roles",
        roles=ROLES,
    )
    callback = "http://127.0.0.1/callback"

    async def scenario() -> OidcPerson:
        client = OidcClient(settings, SystemClock())
        there, carried = await client.begin(callback, "/")
        async with httpx.AsyncClient() as browser:
            back = (await browser.get(there)).headers["Location"]
        asked = parse_qs(urlsplit(back).query)
        person, _ = await client.finish(carried, asked["state"][0], asked["code"][0], callback)
        return person

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "methods",
    [
        None,
        ("client_secret_basic",),
        ("client_secret_post",),
        ("private_key_jwt", "client_secret_post", "client_secret_basic"),
    ],
    ids=str,
)
def test_the_secret_is_shown_in_a_way_that_the_provider_takes(
    provider: OidcProviderProcess, tmp_path: Path, methods: tuple[str, ...] | None
) -> None:
    provider.auth_methods = methods
    assert person_signed_in(provider, tmp_path).name == "mara"
    assert provider.refusals == []


def test_a_provider_that_takes_no_secret_is_said_to_be_at_fault(
    provider: OidcProviderProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider.auth_methods = ("private_key_jwt",)
    with pytest.raises(DependencyDown):
        person_signed_in(provider, tmp_path)
    [said] = [one for one in caplog.records if one.message == "oidc_provider"]
    assert "client_secret_basic" in said.__dict__["fields"]["reason"]


def test_when_the_provider_is_away_the_server_says_so_and_keys_still_work(tmp_path: Path) -> None:
    given = {**whole(tmp_path), "issuer": "http://127.0.0.1:9"}
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_AUTH__OIDC__ISSUER=given["issuer"],
        DRAGOMAN_AUTH__OIDC__CLIENT_ID=CLIENT_ID,
        DRAGOMAN_AUTH__OIDC__CLIENT_SECRET_FILE=given["client_secret_file"],
        DRAGOMAN_AUTH__OIDC__ROLES='{"admins": "operator"}',
    )
    with ServerProcess(tmp_path / "data", env=env) as server:
        answer = server.get(BEGIN)
        assert answer.status_code == 503
        made = run("keys", "create", "--role", "viewer", "--data-dir", server.data_dir)
        sent = {"key": made[1].split()[-1]}
        with httpx.Client(base_url=server.url, timeout=60) as client:
            assert client.post("/api/v1/sign-in", json=sent).status_code == 200


def test_a_provider_that_changes_its_keys_is_followed(
    provider: OidcProviderProcess, browser: httpx.Client
) -> None:
    sign_in(browser)
    provider.change_key()
    # Keys are fetched again at most every half minute.
    eventually(lambda: sign_in(browser).headers["Location"] == "/nodes", "the new key is known")
