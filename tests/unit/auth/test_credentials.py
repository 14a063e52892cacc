"""Where a key is found in a request."""

from __future__ import annotations

import pytest

from dragoman.auth import presented_key, remote_address


def scope(authorization: str | None = None, query: str = "") -> dict[str, object]:
    headers = [(b"host", b"example.org")]
    if authorization is not None:
        headers.append((b"Authorization", authorization.encode("latin-1")))
    return {"headers": headers, "query_string": query.encode()}


@pytest.mark.parametrize(
    ("authorization", "query", "key"),
    [
        ("Bearer dgm_one", "", "dgm_one"),
        ("bearer   dgm_one ", "", "dgm_one"),
        (None, "token=dgm_two", "dgm_two"),
        (None, "a=1&token=dgm_two&token=dgm_three", "dgm_two"),
        (None, "token=dgm%5Ftwo", "dgm_two"),
        ("Bearer dgm_one", "token=dgm_two", "dgm_one"),
        ("Basic dXNlcjpwYXNz", "token=dgm_two", "dgm_two"),
        ("Basic dXNlcjpwYXNz", "", None),
        ("Bearer", "", None),
        ("Bearer ", "token=", None),
        ("Bearer \xff\xfe", "", "\xff\xfe"),
        (None, "", None),
    ],
)
def test_the_header_comes_first_and_the_query_second(
    authorization: str | None, query: str, key: str | None
) -> None:
    found = presented_key(scope(authorization, query))
    assert (found.reveal() if found else None) == key


def test_the_address_is_the_connection_s() -> None:
    assert remote_address({"client": ("10.0.0.1", 4711)}) == "10.0.0.1"
    assert remote_address({"client": None}) == ""
    assert remote_address({}) == ""
