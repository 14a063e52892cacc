"""Signing in through an OpenID provider: authorization code with PKCE, and roles from claims."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec

from dragoman.auth.principal import DEFAULT_TENANT, OIDC_PREFIX, OidcPerson
from dragoman.auth.roles import Role
from dragoman.clock import Clock
from dragoman.errors import DependencyDown, Forbidden, SettingsError, Unauthorized
from dragoman.extras import require_extra
from dragoman.ids import KeyId, TenantId
from dragoman.observability import get_logger
from dragoman.settings import OidcSettings

OIDC_FLOW_SECONDS = 600
"""How long a person may take at the provider."""

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by a key that only the provider has; `none` and shared secrets are not among them."""

_LEEWAY_SECONDS = 60
_FACTS_SECONDS = 3600.0
_KEYS_SECONDS = 30.0
"""How soon the provider's keys are fetched again for a token that none of them signed."""
_ANSWER_SECONDS = 10.0
_MAX_NAME_CHARACTERS = 190
_TENANT = re.compile(r"[^\s\x00-\x1f\x7f]{1,128}")
_BASIC, _POST = "client_secret_basic", "client_secret_post"
_ROLES_BY_POWER = (Role.OPERATOR, Role.EVALUATOR, Role.CLIENT, Role.VIEWER)

_log = get_logger(__name__)


class OidcFlow(msgspec.Struct, frozen=True):
    """What a browser carries from its way to the provider until it is back."""

    state: str
    nonce: str
    verifier: str
    next: str
    expires_at_ms: int


class _ProviderFacts(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)
    """How this server may show its secret; the standard says what holds where nothing is told."""


class OidcClient:
    """This server towards its OpenID provider."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        """Raises ExtraMissing without the extra, SettingsError without a readable secret."""
        require_extra("oidc", "auth.oidc.issuer")
        self.name = settings.name
        self._settings = settings
        self._clock = clock
        self._secret = _secret_in(settings.client_secret_file)
        self._facts: _ProviderFacts | None = None
        self._facts_at = 0.0
        self._keys: dict[str, Any] | None = None
        self._keys_at = 0.0
        self._asking = asyncio.Lock()

    async def begin(self, callback_url: str, next_path: str) -> tuple[str, str]:
        """Where the browser is sent, and what it carries there in a cookie."""
        facts = await self._provider()
        flow = OidcFlow(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            next=next_path,
            expires_at_ms=self._clock.now_ms() + OIDC_FLOW_SECONDS * 1000,
        )
        challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": callback_url,
            "scope": " ".join(dict.fromkeys(("openid", *self._settings.scopes))),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in facts.authorization_endpoint else "?"
        return f"{facts.authorization_endpoint}{mark}{urlencode(asked)}", self._sealed(flow)

    async def finish(
        self, cookie: str | None, state: str, code: str, callback_url: str
    ) -> tuple[OidcPerson, str]:
        """Who came back, and the page that they wanted; raises Unauthorized or Forbidden."""
        flow = self._opened(cookie)
        if flow is None or not hmac.compare_digest(flow.state.encode(), state.encode()):
            raise Unauthorized("The sign-in was not begun in this browser, or took too long.")
        token = await self._redeem(code, flow.verifier, callback_url)
        claims = await self._checked(token, flow.nonce)
        return self._person(claims), flow.next

    # --- the provider ---------------------------------------------------------------------------

    async def _provider(self) -> _ProviderFacts:
        """What the provider says of itself; asked once an hour."""
        now = self._clock.monotonic()
        async with self._asking:
            if self._facts is None or now - self._facts_at > _FACTS_SECONDS:
                issuer = self._settings.issuer.rstrip("/")
                said = await self._get(f"{issuer}/.well-known/openid-configuration")
                try:
                    facts = msgspec.convert(said, _ProviderFacts)
                except msgspec.ValidationError as error:
                    raise _provider_down(f"its configuration is not whole: {error}") from None
                if facts.issuer.rstrip("/") != issuer:
                    raise _provider_down(f"it calls itself {facts.issuer!r}")
                self._facts, self._facts_at = facts, now
            return self._facts

    async def _redeem(self, code: str, verifier: str, callback_url: str) -> str:
        import httpx

        facts = await self._provider()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback_url,
            "code_verifier": verifier,
        }
        shown, auth = self._secret_shown(facts)
        try:
            async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, auth=auth) as client:
                answer = await client.post(facts.token_endpoint, data=form | shown)
            said = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise _provider_down(str(error)) from error
        token = said.get("id_token") if isinstance(said, dict) else None
        if not answer.is_success or not isinstance(token, str):
            raise Unauthorized("The provider did not accept the sign-in; try again.")
        return token

    def _secret_shown(self, facts: _ProviderFacts) -> tuple[dict[str, str], tuple[str, str] | None]:
        """The secret in a way that the provider takes: as fields of the form, or in a header."""
        accepted = facts.token_endpoint_auth_methods_supported
        client_id, secret = self._settings.client_id, self._secret
        if _BASIC in accepted:
            # RFC 6749, 2.3.1: both are encoded as a form's values are before they are joined.
            return {}, (quote_plus(client_id), quote_plus(secret))
        if _POST in accepted:
            return {"client_id": client_id, "client_secret": secret}, None
        raise _provider_down(f"it takes a client's secret neither by {_BASIC} nor by {_POST}")

    async def _get(self, url: str) -> Any:
        import httpx

        try:
            async with httpx.AsyncClient(timeout=_ANSWER_SECONDS) as client:
                answer = await client.get(url)
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _provider_down(str(error)) from error

    # --- the token ------------------------------------------------------------------------------

    async def _checked(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of a token that the provider signed, for us, now, and for this flow."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        for is_last in (False, True):
            keys = await self._key_set(renewed=is_last)
            try:
                found = jwt.decode(token, keys, algorithms=_ALGORITHMS)
                break
            except InvalidKeyIdError:
                # The provider may have changed its keys since they were fetched.
                if is_last:
                    raise _bad_token("none of the provider's keys signed it") from None
            except (JoseError, ValueError) as error:
                raise _bad_token(str(error)) from None
        facts = await self._provider()
        registry = jwt.JWTClaimsRegistry(
            now=self._clock.now_ms() // 1000,
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": facts.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(found.claims)
        except JoseError as error:
            raise _bad_token(str(error)) from None
        claims: Mapping[str, Any] = found.claims
        if claims.get("azp", self._settings.client_id) != self._settings.client_id:
            raise _bad_token("it was given to another program")
        return claims

    async def _key_set(self, *, renewed: bool) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        facts = await self._provider()
        now = self._clock.monotonic()
        is_due = renewed and now - self._keys_at >= _KEYS_SECONDS
        if self._keys is None or is_due:
            self._keys, self._keys_at = await self._get(facts.jwks_uri), now
        try:
            return KeySet.import_key_set(self._keys)  # type: ignore[arg-type]
        except (JoseError, KeyError, TypeError, ValueError) as error:
            self._keys = None
            raise _provider_down(f"its keys cannot be read: {error}") from None

    def _person(self, claims: Mapping[str, Any]) -> OidcPerson:
        subject = str(claims["sub"])
        identity = f"{self._settings.issuer.rstrip('/')} {subject}".encode()
        named = next(
            (str(claims[one]) for one in ("preferred_username", "email", "name") if one in claims),
            subject,
        )
        role = self._role(claims)
        if role is None:
            raise Forbidden(
                f"{named} has none of the roles in auth.oidc.roles; have an "
                f"administrator of the provider set the claim {self._settings.role_claim!r}."
            )
        return OidcPerson(
            key_id=KeyId(f"{OIDC_PREFIX}{sha256(identity).hexdigest()[:32]}"),
            name=named[:_MAX_NAME_CHARACTERS],
            role=role,
            tenant=self._tenant(claims),
        )

    def _role(self, claims: Mapping[str, Any]) -> Role | None:
        """The most powerful role that the claims give."""
        given = _claim(claims, self._settings.role_claim)
        values = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        known = self._settings.roles
        held = {Role(known[value]) for value in values if isinstance(value, str) and value in known}
        return next((role for role in _ROLES_BY_POWER if role in held), None)

    def _tenant(self, claims: Mapping[str, Any]) -> TenantId:
        if not self._settings.tenant_claim:
            return DEFAULT_TENANT
        tenant = _claim(claims, self._settings.tenant_claim)
        if (
            not isinstance(tenant, str)
            or not tenant
            or len(tenant) > 128
            or not tenant.isprintable()
        ):
            raise Forbidden(
                f"The provider names no tenant in the claim {self._settings.tenant_claim!r}."
            )
        return TenantId(tenant)

    # --- what the browser carries ---------------------------------------------------------------

    def _sealed(self, flow: OidcFlow) -> str:
        content = urlsafe_b64encode(msgspec.json.encode(flow))
        return f"{content.decode()}.{self._seal(content)}"

    def _opened(self, cookie: str | None) -> OidcFlow | None:
        """What was sealed here or at another instance, unless it is too old."""
        content, _, seal = (cookie or "").partition(".")
        if not hmac.compare_digest(self._seal(content.encode()).encode(), seal.encode()):
            return None
        flow = msgspec.json.decode(urlsafe_b64decode(content), type=OidcFlow)
        return flow if flow.expires_at_ms > self._clock.now_ms() else None

    def _seal(self, content: bytes) -> str:
        return hmac.new(f"oidc flow {self._secret}".encode(), content, sha256).hexdigest()


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by names with dots between where it lies deeper."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _secret_in(file: str) -> str:
    try:
        secret = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(
            f"auth.oidc.client_secret_file = {file!r} cannot be read ({error.strerror}); name the "
            "file with the secret that the provider gave this server."
        ) from None
    if not secret:
        raise SettingsError(f"auth.oidc.client_secret_file = {file!r} is empty.")
    return secret


def _provider_down(reason: str) -> DependencyDown:
    _log.warning("oidc_provider", reason=reason)
    return DependencyDown("The sign-in provider does not answer as it should; try again later.")


def _bad_token(reason: str) -> Unauthorized:
    _log.warning("oidc_token_refused", reason=reason)
    return Unauthorized("The provider's answer cannot be trusted; try again.")


def own_path(path: Sequence[str] | str | None) -> str:
    """A page of this server to go to; the first one for everything else."""
    if not isinstance(path, str) or len(path) > 1000 or not path.isprintable():
        return "/"
    is_own = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_own and "\\" not in path else "/"
