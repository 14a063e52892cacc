"""The page about the console's socket names every topic and every field."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from dragoman.api.live.console.messages import (
    ConsoleMessage,
    InstanceRow,
    NodeRow,
    PairRow,
    Percentiles,
    Topic,
    Watch,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "console-socket.md"
MESSAGES = get_args(ConsoleMessage)


@pytest.mark.parametrize("struct", [*MESSAGES, Watch, NodeRow, PairRow, InstanceRow, Percentiles])
def test_every_field_is_on_the_page(struct: type[msgspec.Struct]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in struct.__struct_fields__ if f"`{name}`" not in text]
    assert missing == []


def test_every_topic_has_one_message_of_its_name() -> None:
    assert {message.__struct_config__.tag for message in MESSAGES} == set(Topic)
