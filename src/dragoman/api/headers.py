"""Headers that tell browsers to be careful, on every answer."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self), payment=(), usb=()",
}
"""On every answer; the talk page needs the microphone."""

UNLESS_SET = {
    # An answer that is no page loads nothing, should a browser show it as one.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""On answers whose route has set nothing better: pages and their files do."""

_OVER_TLS = {"Strict-Transport-Security": "max-age=31536000"}


class SecurityHeaders:
    """Adds the headers, also to answers that no route has made, such as to a preflight."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(ALWAYS)
                if scope.get("scheme") == "https":
                    headers.update(_OVER_TLS)
                for name, value in UNLESS_SET.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
