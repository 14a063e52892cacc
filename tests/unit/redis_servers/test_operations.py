"""A script holds its operation and what it reaches, and a call names everything a server needs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("redis")

from dragoman.redis_servers import KeyTag, Operations

SHARED = """\
-- What the operations share.
local KEPT, OTHER = KEYS[1], KEYS[2]
local FAR, NEAR = 'helper', 2

local function helper(value)
  return value + NEAR
end

-- Uses nothing of the rest.
local function lonely()
  return 1
end

local table_of_choices = {
  first = function(value) return helper(value) end,
}
"""
PLAIN = """\
-- plain: uses nothing that is shared; 'helper' is only a word here, and value.lonely a field.
local function operation(value)
  return {'helper', value.lonely}
end
"""
RICH = """\
-- rich: reaches the helper by way of a table.
local function operation(value)
  return table_of_choices.first(value)
end
"""


@pytest.fixture
def operations(tmp_path: Path) -> Operations:
    for name, text in (("shared", SHARED), ("plain", PLAIN), ("rich", RICH)):
        (tmp_path / f"{name}.lua").write_text(text)
    return Operations.read(tmp_path, ("kept", "other"), shared=("shared",))


def test_every_file_that_is_not_shared_is_an_operation(operations: Operations) -> None:
    assert set(operations.scripts) == {"plain", "rich"}
    assert operations.scripts["plain"].keys == ("kept", "other")


def test_an_operation_that_uses_nothing_brings_nothing(operations: Operations) -> None:
    source = operations.scripts["plain"].source
    assert "function helper" not in source
    assert "function lonely" not in source
    assert "redis.call('TIME')" not in source


def test_an_operation_brings_what_it_reaches_in_the_order_of_the_files(
    operations: Operations,
) -> None:
    source = operations.scripts["rich"].source
    assert "function lonely" not in source
    parts = ("NEAR = ", "function helper", "local table_of_choices", "function operation")
    places = [source.index(part) for part in parts]
    assert places == sorted(places)


def test_comments_stay_with_the_files(operations: Operations) -> None:
    assert all("--" not in script.source for script in operations.scripts.values())


def test_a_call_carries_the_tags_keys_the_terms_and_the_blobs(operations: Operations) -> None:
    tag = KeyTag.of(operations, "prefix", "t1", 5_000)
    call = tag.call("plain", ("one", 2), (b"\xff",), time_shift_ms=7, along=("x",))
    assert tag.name == "prefix:{t1}"
    assert call.keys == (b"prefix:{t1}:kept", b"prefix:{t1}:other")
    assert msgspec.msgpack.decode(call.arguments[0]) == [7, 5_000, ["one", 2], ["x"]]
    assert call.arguments[1:] == [b"\xff"]
    assert call.script is operations.scripts["plain"]
