"""What goes to one worker as a whole when several share the tests, and what is begun first."""

from __future__ import annotations

from zlib import crc32

BEGUN_FIRST = (
    "tests/integration/engines/test_end_to_end.py",
    "tests/integration/cluster_chaos/test_runs.py",
    "tests/documents/test_documents.py",
    "tests/soak/",
    "tests/integration/rolling_update/",
    "tests/integration/fuzzing/",
    "tests/integration/packaging/test_installing.py",
    "tests/integration/lab_engine/test_many_machines.py",
    "tests/integration/lab_targets/test_speech_on_the_fleet.py",
    "tests/integration/lab_cli/test_commands.py",
    "tests/integration/lab_cli/test_estimating.py",
    "tests/browser/",
    "tests/integration/packaging/",
    "tests/documents/",
    "tests/integration/cluster_chaos/",
    "tests/integration/live_api/test_openapi.py",
    "tests/integration/lab_engine/test_fairness.py",
    "tests/integration/lab_engine/test_succession.py",
    "tests/contract/lab_mirror/",
    "tests/simulation/test_cluster_",
    "tests/simulation/test_simulated_",
)
"""How pieces begin that take a worker minutes, the longest first.

Begun last, one of them would keep the others waiting.
"""

_BEFORE_THE_LAST = 0.8
"""The share of the line after which there are unit tests alone."""

APART = ("tests/documents/test_documents.py::test_a_reader_who_follows_the_page_",)
"""How tests begin that take long and share nothing with the others of their file."""


def piece_of(node_id: str) -> str:
    """The piece of work that a test belongs to: its file, whose servers are started once."""
    return node_id if node_id.startswith(APART) else node_id.split("::", 1)[0]


def place_of(piece: str) -> tuple[float, str]:
    """Where a piece stands in the line.

    In the order of their names all files that wait for servers would come first, and all that
    compute last. Mixed, but the same every time, they run side by side; the last ones are quick.
    """
    for place, beginning in enumerate(BEGUN_FIRST, start=-len(BEGUN_FIRST)):
        if piece.startswith(beginning):
            return place, piece
    mixed = crc32(piece.encode()) / 2**32
    return mixed if piece.startswith("tests/unit/") else _BEFORE_THE_LAST * mixed, piece
