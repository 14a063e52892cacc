"""A little of what ``make fuzz`` does at length: broken files, odd requests and chains of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz_files import READERS, read_broken_files, send_broken_files
from tests.fuzz_nearly_right import busy_server, send
from tests.fuzz_rest import fuzz, fuzzed_server
from tests.integration.serve.server_process import ServerProcess

FILES = 150
SENT_FILES = 12
REST_CASES = 200
NEARLY_RIGHT_CASES = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with fuzzed_server(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.fixture
def seed() -> int:
    """Always the same one, unless the environment asks for another; `make fuzz` draws new ones."""
    return int(os.environ.get("DRAGOMAN_FUZZ_SEED", "22"))


def test_broken_files_are_read_or_refused_and_leave_nothing_open(seed: int) -> None:
    assert read_broken_files(FILES, seed).keys() == READERS.keys()


def test_a_server_refuses_broken_files_and_stays(server: ServerProcess, seed: int) -> None:
    assert send_broken_files(server, SENT_FILES, seed).total() == SENT_FILES


@pytest.mark.timeout(600)
def test_no_request_and_no_chain_of_them_gets_a_500(server: ServerProcess, seed: int) -> None:
    report = fuzz(server, REST_CASES, seed)
    assert report.cases >= REST_CASES
    assert report.statuses[200] > 0


@pytest.mark.timeout(600)
def test_right_requests_with_an_odd_value_are_done_or_refused(tmp_path: Path, seed: int) -> None:
    with busy_server(tmp_path) as (server, right):
        statuses = send(server, right, NEARLY_RIGHT_CASES, seed)
    assert statuses[200] + statuses[201] > NEARLY_RIGHT_CASES / 4, "most are refused at the door"
