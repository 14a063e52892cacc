"""What a refused node or session reads: whole words, one full stop, and one thing to do."""

from __future__ import annotations

import pytest

from dragoman.live.protocol import Error
from dragoman.sdk.node.ending import NodeConnectionEnding
from dragoman.sdk.node.ending import final_error as error_of_node
from dragoman.sdk.session.ending import SessionConnectionEnding
from dragoman.sdk.session.ending import final_error as error_of_session

NO_KEY = (
    "A key is needed: send `Authorization: Bearer KEY`, or `?token=KEY` where headers cannot be"
    " set; `dragoman keys create`..."
)


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        (
            NodeConnectionEnding(NO_KEY, 4401),
            "A key is needed; give the node a valid key (`dragoman keys create --role node`"
            " creates one).",
        ),
        (
            NodeConnectionEnding(
                "refused",
                1008,
                Error(
                    "NODE_ID_CONFLICT",
                    "Node n belongs to another key; use that key, or choose another node_id.",
                ),
            ),
            "Node n belongs to another key; use that key, or choose another node_id.",
        ),
        (
            NodeConnectionEnding("The key may not", 4403),
            "The key may not; use a key with role node, made for this node or for any.",
        ),
        (
            NodeConnectionEnding("a long story that was; then...", 4400),
            "a long story that was; correct the node's parameters and start it again.",
        ),
    ],
)
def test_a_refused_node_reads_one_remedy(ending: NodeConnectionEnding, says: str) -> None:
    assert str(error_of_node(ending, "n")) == f"The scheduler refused node n: {says}"


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (NO_KEY, "A key is needed"),
        ("The key is wrong or was revoked; ask an operator.", "The key is wrong or was revoked"),
        ("the key was revoked", "the key was revoked"),
    ],
)
def test_a_session_without_a_valid_key_reads_what_a_python_program_can_do(
    reason: str, says: str
) -> None:
    assert str(error_of_session(SessionConnectionEnding(reason, 4401), was_open=False)) == (
        f"The scheduler ended the session: {says}; give a valid key"
        " (`dragoman keys create --role client` creates one)."
    )
