from __future__ import annotations

import pytest

from dragoman.live.gateway.admission import origin_allowed

ALLOWED = ("https://app.example", "http://Lab.example:3000/")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "dragoman.example"),
        (None, None),
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("https://dragoman.example", "dragoman.example"),
        ("https://dragoman.example", "dragoman.example:443"),
        ("http://DRAGOMAN.example", "dragoman.EXAMPLE:80"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://app.example", "dragoman.example"),
        ("http://lab.example:3000", "dragoman.example"),
    ],
)
def test_programs_own_pages_and_listed_origins_may_connect(
    origin: str | None, host: str | None
) -> None:
    assert origin_allowed(origin, host, ALLOWED)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "dragoman.example"),
        ("https://dragoman.example.evil.example", "dragoman.example"),
        ("https://dragoman.example@evil.example", "dragoman.example"),
        ("http://127.0.0.1:9999", "127.0.0.1:8080"),
        ("http://app.example", "dragoman.example"),
        ("https://app.example.evil.example", "dragoman.example"),
        ("http://dragoman.example:port", "dragoman.example"),
        ("http://[::1", "[::1]:8080"),
        ("https://dragoman.example", None),
        ("file://dragoman.example", "dragoman.example"),
        ("null", "dragoman.example"),
        ("null", "null"),
        ("", ""),
    ],
)
def test_pages_of_other_origins_may_not(origin: str, host: str | None) -> None:
    assert not origin_allowed(origin, host, ALLOWED)


def test_a_star_lets_every_page_in() -> None:
    for origin in ("https://evil.example", "null"):
        assert origin_allowed(origin, "dragoman.example", ("*",))
