"""Where a server listens, and the sentence for each way in which it cannot."""

from __future__ import annotations

import errno
import socket

from dragoman.errors import CannotStart

_BACKLOG = 2048
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server on every address of the machine is reached from the machine itself."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address that the host name stands for, all on one port.

    Port 0 takes any free one. Callers who come before the server is up wait in line.
    """
    listeners: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            chosen = listeners[0].getsockname()[1] if listeners else port
            try:
                listeners.append(_bound(family, address, chosen))
            except OSError as error:
                # A name such as localhost may stand for an address that this machine has not.
                if error.errno != errno.EADDRNOTAVAIL or not listeners:
                    raise _cannot_listen(host, chosen, error) from error
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def url_of(host: str, port: int, *, tls: bool) -> str:
    """Where a browser on the same machine finds a server that listens there."""
    name = _LOOPBACKS.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def url_for_peers(host: str, port: int, *, tls: bool, advertised: str = "") -> str:
    """Where instances on other machines find a server that listens there.

    One that listens on every address goes by the name of its machine, which they must know, unless
    it has another name for them.
    """
    own = socket.gethostname() if host in _LOOPBACKS else host
    return url_of(advertised or own, port, tls=tls)


def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotStart(
            f"The host {host!r} is not known here ({error.strerror}); set server.host to an "
            "address of this machine, such as 127.0.0.1."
        ) from error
    return list(dict.fromkeys((int(family), str(address[0])) for family, *_, address in found))


def _bound(family: int, address: str, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStart:
    match error.errno:
        case errno.EADDRINUSE:
            return CannotStart(
                f"Port {port} on {host} is in use by another program; stop it, or choose "
                "another port with --port (0 takes any free one)."
            )
        case errno.EACCES:
            return CannotStart(
                f"Port {port} on {host} needs more rights than this user has; take a port from "
                "1024 on with --port."
            )
        case errno.EADDRNOTAVAIL:
            return CannotStart(
                f"This machine has no address {host}; set server.host to one that it has."
            )
        case _:
            return CannotStart(f"The server cannot listen on {host}:{port} ({error.strerror}).")
