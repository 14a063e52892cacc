"""A small OpenID provider on this machine: it signs in one person, without asking."""

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT_ID = "dragoman"
CLIENT_SECRET = "a secret: between the two, 100 % & +"


@dataclass
class OidcProviderProcess:
    """Authorization code with PKCE, as the standard has it; claims and mistakes are the test's."""

    claims: dict[str, Any] = field(default_factory=dict)
    """What is told of the person, besides what every token has."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """What is told instead of the truth."""
    signs_with: RSAKey | None = None
    """A key that is not among the published ones."""
    auth_methods: tuple[str, ...] | None = None
    """How a client may show its secret; None: not told, and only the standard's default works."""

    def __post_init__(self) -> None:
        self.key = _new_key()
        self.codes: dict[str, dict[str, str]] = {}
        self.refusals: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def change_key(self) -> None:
        """Sign with a new key from now on, and publish it alone."""
        self.key = _new_key()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def configuration(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
        }
        if self.auth_methods is not None:
            told["token_endpoint_auth_methods_supported"] = self.auth_methods
        return told

    def published(self) -> dict[str, Any]:
        return dict(KeySet([self.key]).as_dict(private=False))

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        if asked["client_id"] != CLIENT_ID or asked["response_type"] != "code":
            self.refusals.append("authorize")
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{back}"

    def knows_client(self, form: dict[str, str], authorization: str) -> bool:
        """Whether the client has shown its secret, in one way, and in one that is taken."""
        methods = self.auth_methods or ("client_secret_basic",)
        if not authorization:
            shown = (form.get("client_id"), form.get("client_secret"))
            return "client_secret_post" in methods and shown == (CLIENT_ID, CLIENT_SECRET)
        scheme, _, encoded = authorization.partition(" ")
        client_id, _, secret = b64decode(encoded).decode().partition(":")
        return (
            "client_secret_basic" in methods
            and scheme == "Basic"
            and "client_secret" not in form
            and (unquote_plus(client_id), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)
        )

    def redeem(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """The tokens for a code; None for what is not as it was asked."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).decode().rstrip("=")
        fits = (
            asked is not None
            and self.knows_client(form, authorization)
            and form.get("redirect_uri") == asked["redirect_uri"]
            and asked["code_challenge_method"] == "S256"
            and challenge == asked["code_challenge"]
        )
        if asked is None or not fits:
            self.refusals.append("token")
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "subject-1",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
            **self.overrides,
        }
        signer = self.signs_with or self.key
        header = {"alg": "RS256", "kid": signer.kid}
        return {"access_token": "none", "id_token": jwt.encode(header, claims, signer)}

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - two selves meet here
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/openid-configuration":
                    self._answer(200, provider.configuration())
                elif parts.path == "/jwks":
                    self._answer(200, provider.published())
                elif parts.path == "/authorize":
                    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(asked))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self._answer(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                tokens = provider.redeem(form, self.headers.get("Authorization", ""))
                self._answer(200 if tokens else 400, tokens or {"error": "invalid_grant"})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing: a test's output is its own."""

        return Handler


def _new_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(8), "use": "sig"})
