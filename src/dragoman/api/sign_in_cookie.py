"""The cookie of a person who signed in."""

from __future__ import annotations

from fastapi import Request, Response

from dragoman.auth import SIGN_IN_COOKIE, SignIn


def set_sign_in(response: Response, request: Request, found: SignIn) -> None:
    """Have the browser act for the person from now on."""
    response.headers["Cache-Control"] = "no-store"
    response.set_cookie(
        SIGN_IN_COOKIE,
        found.token.reveal(),
        max_age=found.seconds,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
