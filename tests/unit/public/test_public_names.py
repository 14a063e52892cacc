"""What a program imports: ``from dragoman import Node, talk, lab``, and every type they mention."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, assert_type

import pytest

import dragoman
from dragoman import Node, auth, lab, sdk, settings, simulation, talk, testing
from dragoman.live import gateway, ledger, protocol
from dragoman.sdk import SyncSession

PUBLIC: tuple[ModuleType, ...] = (dragoman, sdk, lab, testing, simulation)

BEHIND_TESTING: tuple[ModuleType, ...] = (auth, gateway, ledger, protocol, settings)
"""The rooms that a scheduler in memory is made of: `testing` and `simulation`, which is built on
it, speak of their types too."""


def test_node_talk_and_lab_are_those_of_their_rooms() -> None:
    assert Node is sdk.Node
    assert talk is sdk.talk
    assert dragoman.lab is lab


if typing.TYPE_CHECKING:
    # Judged by mypy alone, which would take a name that it sees as Any for anything.
    assert_type(talk("ws://127.0.0.1", src_lang="en", tgt_lang="es"), SyncSession)
    assert_type(lab.run(dataset="rows.jsonl", target="module:function"), lab.RunResult)
    assert_type(Node("ws://127.0.0.1").node_id, sdk.NodeId | None)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_name_that_is_promised_is_there_and_is_shown_for_completion(
    module: ModuleType,
) -> None:
    assert list(module.__all__) == sorted(set(module.__all__), key=_as_ruff_sorts)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    assert not [name for name in ("import_module", "TYPE_CHECKING", "Any") if name in dir(module)]


def test_a_name_that_is_not_there_is_an_attribute_error_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nodes'"):
        dragoman.Nodes  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(dragoman, "_private")


def test_importing_dragoman_alone_imports_nothing_else() -> None:
    """Commands and tools that only ask for the version must not wait for the whole program."""
    program = "import sys; import dragoman; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True
    )
    extra = {
        name
        for name in loaded.stdout.split()
        if name.startswith("dragoman.") or name in ("msgspec", "asyncio", "pydantic", "sqlalchemy")
    }
    # The second is written by the build.
    assert extra - {"dragoman.built_version"} == {"dragoman.version"}


def test_every_type_that_a_public_signature_mentions_can_be_imported_from_a_public_module() -> None:
    exported = {name for module in PUBLIC for name in module.__all__}
    behind_testing = {name for module in BEHIND_TESTING for name in module.__all__}
    missing = sorted(
        {
            f"{mentioned} (of {where})"
            for module in PUBLIC
            for where, mentioned in _mentioned_in(module)
            if mentioned not in exported
            and not (module in (testing, simulation) and mentioned in behind_testing)
        }
    )
    assert missing == []


def _mentioned_in(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Names of Dragoman's own types in the signatures of everything that a module exports."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) and thing.__module__.startswith("dragoman"):
            bases = [kind for kind in thing.__mro__ if kind.__module__.startswith("dragoman")]
            for kind in bases:
                for where, annotations, home in _parts_of(kind):
                    yield from ((f"{name}{where}", found) for found in _ours(annotations, home))
        elif inspect.isfunction(thing):
            yield from ((name, found) for found in _ours(thing.__annotations__, _home(thing)))


def _parts_of(kind: type[Any]) -> Iterator[tuple[str, dict[str, Any], ModuleType]]:
    home = sys.modules[kind.__module__]
    own = vars(kind).get("__annotations__", {})
    yield "", {name: hint for name, hint in own.items() if not name.startswith("_")}, home
    for name, member in vars(kind).items():
        if name.startswith("_") and name != "__init__":
            continue
        function = _function_of(member)
        if function is not None:
            yield f".{name}", function.__annotations__, _home(function)


def _function_of(member: object) -> Callable[..., Any] | None:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isfunction(member) else None


def _home(function: Callable[..., Any]) -> ModuleType:
    return sys.modules[inspect.unwrap(function).__module__]


def _ours(annotations: dict[str, Any], home: ModuleType) -> Iterator[str]:
    for hint in annotations.values():
        if not isinstance(hint, str):
            continue
        for node in ast.walk(ast.parse(hint.removeprefix("*"), mode="eval")):
            if isinstance(node, ast.Name) and _is_ours(node.id, home):
                yield node.id


def _is_ours(name: str, home: ModuleType) -> bool:
    found = vars(home).get(name)
    if found is None or isinstance(
        found, ModuleType | typing.TypeVar | typing.TypeVarTuple | typing.ParamSpec
    ):
        return False
    if isinstance(found, type):
        return found.__module__.startswith("dragoman")
    if typing.get_origin(found) is typing.Annotated:
        return False  # a plain value with limits, which the messages about it tell
    return not (hasattr(typing, name) or hasattr(collections.abc, name))


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order of ``__all__`` that the linter keeps."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


def test_the_source_says_what_editors_read() -> None:
    """Completion and mypy read ``if TYPE_CHECKING`` imports; each lazy name must be among them."""
    for module in (dragoman, lab):
        assert module.__file__ is not None
        tree = ast.parse(Path(module.__file__).read_text())
        seen = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert set(module.__all__) <= seen


def test_what_editors_read_of_lab_run_is_what_it_takes() -> None:
    """Its signature is written twice: for mypy, and by `lab.arun`, which it stands for."""
    taken = inspect.signature(lab.arun).parameters
    assert list(inspect.signature(lab.run).parameters) == list(taken)
    tree = ast.parse(Path(inspect.getfile(inspect.unwrap(lab.run))).read_text())
    (written,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "run"
    )
    assert {arg.arg: ast.unparse(arg.annotation or arg) for arg in written.args.kwonlyargs} == {
        name: parameter.annotation for name, parameter in taken.items()
    }
