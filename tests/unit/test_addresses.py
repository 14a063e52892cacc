"""Hosts and addresses in the one form in which they are compared."""

from __future__ import annotations

import pytest

from dragoman.addresses import address_group, among, host_of


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("localhost.:80", "localhost"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[::1]:8080", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("talk.example.org", "talk.example.org"),
        ("", None),
        (":8080", None),
        ("::1", None),
        ("[::1", None),
        ("[localhost]", None),
        ("[fe80::1%eth0]", None),
        ("localhost:port", None),
        ("localhost:99999", None),
        ("localhost@evil.example", None),
        ("localhost/evil.example", None),
        ("localhost?evil.example", None),
        ("localhost#evil.example", None),
    ],
)
def test_the_host_of_a_header(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


def test_who_is_counted_together() -> None:
    assert address_group("10.0.0.1") == address_group("::ffff:10.0.0.1")
    assert address_group("10.0.0.1") != address_group("10.0.0.2")
    assert address_group("2001:db8::1") == address_group("2001:db8::ffff:2")
    assert address_group("2001:db8::1") != address_group("2001:db8:0:1::1")
    assert address_group("testclient") == "testclient"


def test_addresses_among_networks() -> None:
    is_proxy = among(["10.0.0.0/8", "::1"])
    assert is_proxy("10.1.2.3")
    assert is_proxy("::1")
    assert not is_proxy("11.0.0.1")
    assert not is_proxy("unix")
    assert among(["*"])("11.0.0.1")
    assert not among([])("10.0.0.1")
