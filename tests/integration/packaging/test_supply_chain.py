"""What this project takes from others: audited, listed, and under licences that go together."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from supply_chain.audit import CLEAN, NO_DATA, PLANTED_PYTHON, WEAK, main
from supply_chain.licences import (
    FOR_TOOLS,
    GIVEN_BY_HAND,
    OF_FONTS,
    OF_THEIR_OWN_FILES,
    PERMISSIVE,
    is_allowed,
    of_page_tools,
    of_pages,
    of_tools,
    of_users,
    page,
)
from supply_chain.packages import npm_packages, pinned
from supply_chain.sbom import bill_of_materials
from tests.integration.packaging.installations import ROOT

DEMO = ROOT / "requirements" / "demo.txt"

MIN_LICENCE_CHARACTERS = 400
"""An Unlicense or ISC licence has more."""

# --- weaknesses -----------------------------------------------------------------------------------


@contextmanager
def database_of_weaknesses(*known: tuple[str, str]) -> Iterator[str]:
    """The address of a server that speaks OSV's language and knows these packages to be weak."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            weakness = {
                "id": f"WEAK-{name}",
                "summary": "It does what it is told.",
                "published": "2024-01-01T00:00:00Z",
                "affected": [
                    {
                        "package": asked["package"],
                        "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "999"}]}],
                    }
                ],
            }
            is_weak = (name, asked["version"]) in known
            body = json.dumps({"vulns": [weakness]} if is_weak else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


Audit = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    """Audits what the demo installs; its exit code, what it said, and of what it complained."""

    def carried_out(osv_url: str) -> tuple[int, str, str]:
        code = main(["--requirements", str(DEMO), "--osv-url", osv_url, "--without-npm"])
        told = capsys.readouterr()
        return code, told.out, told.err

    return carried_out


def test_nothing_is_known_against_the_packages_by_a_database_that_knows_the_planted_one(
    audit: Audit,
) -> None:
    with database_of_weaknesses(PLANTED_PYTHON) as url:
        code, told, _ = audit(url)
    assert code == CLEAN
    assert told == "Python: no known weaknesses; the planted one was found.\n"


def test_a_weak_package_is_named_with_the_version_that_helps(audit: Audit) -> None:
    [httpx] = [package for package in pinned("demo.txt") if package.name == "httpx"]
    with database_of_weaknesses(PLANTED_PYTHON, (httpx.name, httpx.version)) as url:
        code, told, _ = audit(url)
    assert code == WEAK
    assert f"httpx {httpx.version}: WEAK-httpx (fixed in 999)" in told.splitlines()


def test_a_database_that_does_not_know_the_planted_package_is_not_believed(audit: Audit) -> None:
    with database_of_weaknesses() as url:
        code, told, complaint = audit(url)
    assert (code, told) == (NO_DATA, "")
    assert "NO DATA, so nothing was audited" in complaint
    assert " ".join(PLANTED_PYTHON) in complaint


def test_where_no_database_answers_there_is_no_data(audit: Audit) -> None:
    code, told, complaint = audit("http://127.0.0.1:1/v1/query")
    assert (code, told) == (NO_DATA, "")
    assert "NO DATA, so nothing was audited" in complaint


# --- what the lock files hold ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda f: f.stem
)
def test_every_package_has_a_hash_and_no_line_is_an_option_or_an_address(file: Path) -> None:
    text = file.read_text()
    entry = r"[a-z0-9._-]+==[^ ;]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(f"({entry})+", text)
    assert "://" not in text


# --- licences -------------------------------------------------------------------------------------


def test_what_users_install_goes_together_with_this_projects_licence() -> None:
    refused = [
        one for one in of_users() if not is_allowed(one.licence, PERMISSIVE | OF_THEIR_OWN_FILES)
    ]
    assert not refused, "not known, or not allowed: see supply_chain/licences.py"


def test_what_is_in_the_pages_may_be_handed_on_with_them() -> None:
    allowed = PERMISSIVE | OF_FONTS
    assert not [one for one in of_pages() if not is_allowed(one.licence, allowed)]


def test_each_package_in_the_pages_is_listed_and_its_licence_goes_with_it() -> None:
    listed = {one.name for one in of_pages()}
    built = (ROOT / "src/dragoman/api/console/built/licences.txt").read_text()
    _, *entries = built.split(f"\n{'-' * 80}\n\n")
    found = {entry.partition(" ")[0]: entry for entry in entries}
    assert found.keys() <= listed, "code in the pages that docs/reference/licences.md does not list"
    assert {"react", "@mantine/core", "uplot", "@fontsource-variable/inter"} <= found.keys()
    for name, entry in found.items():
        assert len(entry) > MIN_LICENCE_CHARACTERS, f"{name}: a name, and not the licence's text"
    assert "SIL OPEN FONT LICENSE" in found["@fontsource-variable/inter"]


def test_the_licence_of_every_tool_is_known() -> None:
    allowed = PERMISSIVE | OF_THEIR_OWN_FILES | FOR_TOOLS
    assert not [one for one in of_tools() + of_page_tools() if not is_allowed(one.licence, allowed)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0-only OR BSD-3-Clause", True),
        ("MIT AND (Apache-2.0 OR GPL-2.0-or-later)", True),
        ("MIT AND GPL-2.0-or-later", False),
        ("AGPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("", False),
    ],
)
def test_a_licence_is_allowed_if_one_of_its_choices_is_allowed_whole(
    expression: str, expected: bool
) -> None:
    assert is_allowed(expression, PERMISSIVE) is expected


def test_what_is_given_by_hand_is_still_needed() -> None:
    known = {package.name for package in pinned("dev.txt")}
    assert GIVEN_BY_HAND.keys() <= known


def test_the_page_of_licences_is_up_to_date() -> None:
    kept = (ROOT / "docs" / "reference" / "licences.md").read_text()
    assert kept == page(), "run: make reference"


# --- the bill of materials ------------------------------------------------------------------------


def test_the_bill_of_materials_names_every_package_with_its_version_and_licence() -> None:
    # What is written has passed the strict schema of CycloneDX.
    bill = json.loads(bill_of_materials())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    found = {component["purl"] for component in bill["components"]}
    python = {f"pkg:pypi/{one.name}@{one.version}" for one in pinned("all.txt")}
    assert python <= found
    assert len(found - python) == len([one for one in npm_packages() if one.is_shipped])
    assert all(component["licenses"] for component in bill["components"])
    [needs] = [
        one["dependsOn"]
        for one in bill["dependencies"]
        if one["ref"].startswith("pkg:pypi/dragoman@")
    ]
    assert {"fastapi", "redis", "react"} <= {re.split("[/@]", ref)[-2] for ref in needs}
