"""A room is entered by its door, and a name has one meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "src"

HALLS = frozenset({"dragoman", "dragoman.live", "dragoman.lab"})
"""Packages that only hold rooms; every other package directly inside one of them is a room."""


class Import(NamedTuple):
    """One imported name: ``from module import name``; name is empty for ``import module``."""

    importer: str
    module: str
    name: str
    line: int


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted((SOURCE / "dragoman").rglob("*.py"))}


@cache
def room_of(module: str) -> str | None:
    """The room a module belongs to; None for halls and for single files beside the rooms."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        package = ".".join(parts[:depth])
        if package not in HALLS and (SOURCE.joinpath(*parts[:depth]) / "__init__.py").exists():
            return package
    return None


def imports_of(importer: str, path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            package = importer.split(".")
            if path.name != "__init__.py":
                package = package[:-1]
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(importer, module, alias.name, node.lineno)


@cache
def exports_of(room: str) -> set[str] | None:
    """The names in a room's ``__all__``, or None when it has none."""
    init = SOURCE.joinpath(*room.split(".")) / "__init__.py"
    for node in ast.parse(init.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [target.id for target in targets if isinstance(target, ast.Name)]
            if named == ["__all__"] and node.value is not None:
                return set(ast.literal_eval(node.value))
    return None


def rooms() -> list[str]:
    return sorted({room for room in map(room_of, modules()) if room is not None})


def trespasses() -> Iterator[str]:
    known = modules()
    for importer, path in known.items():
        for found in imports_of(importer, path):
            room = room_of(found.module)
            if room is None and f"{found.module}.{found.name}" in known:
                # `from dragoman.live import ledger` imports a room, by its door.
                continue
            if room is None or room == room_of(importer):
                continue
            where = f"{found.importer}, line {found.line}"
            if found.module != room:
                yield f"{where} imports {found.module}: use what {room} exports"
            elif found.name and found.name not in (exports_of(room) or set()):
                yield f"{where} imports {found.name}, which {room} does not export in __all__"


def test_there_are_rooms_to_check() -> None:
    assert "dragoman.observability" in rooms()


def test_every_room_says_what_it_exports() -> None:
    silent = [room for room in rooms() if exports_of(room) is None]

    assert silent == [], "these rooms have no __all__"


def test_no_module_outside_a_room_imports_its_inner_modules() -> None:
    found = list(trespasses())

    assert found == [], "\n" + "\n".join(found)


NAMES_OF_TWO_CLASSES = {
    "Job": "what a node's function gets, and what the scheduler works on",
    "Missing": "a result that a session has not, and a score that a comparison has not",
    "ModelNotAvailable": "the message of a node, and the error that a client gets",
    "RateLimited": "the error of a client, and what a target's function raises",
    "Stats": "of an experiment, and of the live plane",
    "TargetError": "the code of a row, and what a target's function raises",
}
"""Names that users know from two places, each by its package."""


def test_no_two_public_classes_have_one_name() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    doubled = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: doubled[name] for name in doubled.keys() - NAMES_OF_TWO_CLASSES} == {}
    assert NAMES_OF_TWO_CLASSES.keys() <= doubled.keys()
