"""Where a server listens, and what is said where it cannot."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from dragoman.errors import CannotStart
from dragoman.listening import listen, url_for_peers, url_of


def test_any_free_port_is_one_port_on_every_address_of_the_name() -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(listener) for listener in listen("localhost", 0)]

        ports = {listener.getsockname()[1] for listener in listeners}
        assert len(ports) == 1
        assert ports != {0}


def test_a_caller_who_comes_before_the_server_is_up_waits_in_line() -> None:
    (listener,) = listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()) as caller:
        accepted, _ = listener.accept()
        with accepted:
            assert caller.getpeername() == listener.getsockname()


def test_a_port_in_use_is_named_and_nothing_stays_open() -> None:
    (listener,) = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    with listener, pytest.raises(CannotStart, match=f"Port {port} on 127.0.0.1 is in use"):
        listen("127.0.0.1", port)
    (again,) = listen("127.0.0.1", port)
    again.close()


@pytest.mark.parametrize(
    ("host", "said"),
    [("no.such.host.invalid", "is not known here"), ("192.0.2.1", "This machine has no address")],
)
def test_a_host_that_is_not_this_machine_is_refused(host: str, said: str) -> None:
    with pytest.raises(CannotStart, match=said):
        listen(host, 0)


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:8080"),
        ("talk.example.org", True, "https://talk.example.org:8080"),
        ("0.0.0.0", False, "http://127.0.0.1:8080"),
        ("::", False, "http://[::1]:8080"),
        ("::1", True, "https://[::1]:8080"),
    ],
)
def test_the_url_is_one_that_a_browser_on_the_machine_can_open(
    host: str, tls: bool, url: str
) -> None:
    assert url_of(host, 8080, tls=tls) == url


def test_peers_ask_where_the_server_listens_or_where_it_says() -> None:
    machine = socket.gethostname()
    assert url_for_peers("10.0.0.1", 80, tls=False) == "http://10.0.0.1:80"
    assert url_for_peers("0.0.0.0", 80, tls=True) == f"https://{machine}:80"
    assert url_for_peers("0.0.0.0", 80, tls=False, advertised="10.0.0.2") == "http://10.0.0.2:80"
    assert url_for_peers("::", 80, tls=False, advertised="fd00::2") == "http://[fd00::2]:80"
