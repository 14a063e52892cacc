"""The ledger's Lua: operations for each kind of tag."""

from __future__ import annotations

from importlib.resources import files

from dragoman.redis_servers import Operations

_LUA = files("dragoman.live.ledger") / "lua"

CELL = Operations.read(
    _LUA / "cell",
    ("board", "seats", "held", "ended", "outputs", "holds", "due", "heirs"),
    shared=("board", "attempts", "freeing", "choice", "granting"),
)
JOB = Operations.read(
    _LUA / "job",
    ("jobs", "specs", "inputs", "outputs", "bindings", "due", "recent"),
    shared=("job",),
)
DIRECTORY = Operations.read(
    _LUA / "directory", ("entries", "members", "counts", "full"), shared=("directory",)
)
