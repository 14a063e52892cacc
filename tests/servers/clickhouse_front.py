"""ClickHouse's own engine (chdb) behind as much of its HTTP interface as a client needs.

Run as a program with a folder and a port. It answers one request at a time.
"""

from __future__ import annotations

import sys
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


class Handler(BaseHTTPRequestHandler):
    """Carries out statements in the engine's session."""

    session: Any = None
    known: dict[str, str] = {}  # noqa: RUF012 - one engine, one session
    """What the session was told already: its database and its settings."""

    def do_GET(self) -> None:
        self._answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            asked |= _form(kind, body)
            body = b""
        try:
            found = self._carry_out(asked, body.decode())
        except Exception as error:
            # What an engine that was stopped had written so far comes with its next answer, which
            # is then that to a setting.
            self.known.clear()
            self._answer(500, str(error).encode())
        else:
            self._answer(200, found)

    def _carry_out(self, asked: dict[str, str], body: str) -> bytes:
        database = asked.pop("database")
        if self.known.get("database") != database:
            self.session.query(f"CREATE DATABASE IF NOT EXISTS `{database}`")
            self.session.query(f"USE `{database}`")
            self.known["database"] = database
        statement = asked.pop("query")
        for name, value in asked.items():
            if self.known.get(name) != value:
                quoted = value.replace("\\", "\\\\").replace("'", "\\'")
                self.session.query(f"SET {name} = '{quoted}'")
                self.known[name] = value
        if body:
            statement += "\n" + body
        found: bytes = self.session.query(statement, "TabSeparated").bytes()
        return found

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        pass


def _form(kind: str, body: bytes) -> dict[str, str]:
    message = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
    )
    fields: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(payload, bytes)
        fields[name] = payload.decode()
    return fields


def main() -> None:
    from chdb.session import Session

    Handler.session = Session(sys.argv[1])  # type: ignore[no-untyped-call]
    server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
