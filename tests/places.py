"""What goes to one worker as a whole when several share the tests, and what is begun first."""

from __future__ import annotations

from zlib import crc32

BEGUN_FIRST = (
    "tests/documents/",
    "tests/integration/packaging/",
    "tests/integration/cluster_chaos/",
)
"""What takes a worker minutes; begun last, one of them would keep the others waiting."""

APART = ("tests/documents/test_documents.py::test_a_reader_who_follows_the_page_",)
"""How tests begin that take long and share nothing with the others of their file."""


def piece_of(node_id: str) -> str:
    """The piece of work that a test belongs to: its file, whose servers are started once."""
    return node_id if node_id.startswith(APART) else node_id.split("::", 1)[0]


def place_of(piece: str) -> tuple[float, str]:
    """Where a piece stands in the line, from 0 to 1; the last ones are quick.

    In the order of their names all files that wait for servers would come first, and all that
    compute last. Mixed, but the same every time, they run side by side.
    """
    if piece.startswith(BEGUN_FIRST):
        return 0.0, piece
    mixed = crc32(piece.encode()) / 2**32
    return mixed if piece.startswith("tests/unit/") else 0.9 * mixed, piece
