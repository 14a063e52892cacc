"""HTTPS without a certificate of one's own: the server makes one, and keeps it."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from tests.integration.serve.server_process import ServerProcess, environment, run

from dragoman.cli.self_signed import VALID_DAYS, self_signed

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def test_clients_that_trust_the_certificate_talk_to_the_server_and_others_do_not(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data", "--self-signed") as server:
        assert server.url.startswith("https://127.0.0.1:")
        certificate = tmp_path / "data" / "tls" / "self-signed.crt"
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{server.url}/healthz", verify=trusting).status_code == 200
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{server.url}/healthz")
        says = run(
            *("nodes", "list", "--url", server.url),
            env=environment(SSL_CERT_FILE=str(certificate)),
        )
        assert says[0] == 0, says
        plain = server.url.replace("https://", "http://")
        say = ("say", "--text", "hello", "--from", "en", "--to", "es", "--url")
        for command in (("nodes", "list", "--url"), say, ("listen", "s-1", "--url")):
            code, _, errors = run(*command, server.url)
            assert (code, "not trusted" in errors, "SSL_CERT_FILE" in errors) == (1, True, True)
            assert "running?" not in errors, "it does run"
            code, _, errors = run(*command, plain)
            assert (code, "if it has TLS" in errors) == (1, True), errors
        server.signal()
        server.wait()
        output = server.all_output()
    assert f"SSL_CERT_FILE={certificate}" in output
    assert "for 127.0.0.1, ::1, localhost" in output


def test_a_certificate_is_kept_until_it_runs_out_or_misses_a_name(tmp_path: Path) -> None:
    first = self_signed(tmp_path, "127.0.0.1", NOW)
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert self_signed(tmp_path, "localhost", NOW + timedelta(days=300)) == first
    named = self_signed(tmp_path, "Fleet.example", NOW)
    assert named.fingerprint != first.fingerprint
    assert "Fleet.example" in named.names
    late = self_signed(tmp_path, "Fleet.example", NOW + timedelta(days=VALID_DAYS - 1))
    assert late.fingerprint != named.fingerprint
    known = x509.load_pem_x509_certificate(late.certificate.read_bytes())
    assert known.not_valid_after_utc > NOW + timedelta(days=VALID_DAYS)


def test_a_key_that_is_no_key_is_replaced(tmp_path: Path) -> None:
    first = self_signed(tmp_path, "127.0.0.1", NOW)
    first.certificate.write_text("not a certificate")
    again = self_signed(tmp_path, "127.0.0.1", NOW)
    assert again.fingerprint != first.fingerprint
    assert b"BEGIN CERTIFICATE" in again.certificate.read_bytes()


def test_a_server_that_has_a_certificate_refuses_to_make_one(tmp_path: Path) -> None:
    code, _, says = run(
        *("serve", "--self-signed", "--data-dir", tmp_path),
        env=environment(DRAGOMAN_SERVER__TLS_CERT="a.pem", DRAGOMAN_SERVER__TLS_KEY="a.key"),
    )
    assert code == 2, says
    assert "server.tls_cert" in says
    assert "--self-signed" in says
