"""The reference page of the Python API, made from its signatures and docstrings.

``python -m dragoman.cli.python_reference`` prints it; it is kept as docs/reference/python.md.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from types import ModuleType
from typing import Any, ForwardRef

import msgspec

from dragoman import lab, sdk, testing

_INTRODUCTION = """\
# Python API

<!-- Written by `python -m dragoman.cli.python_reference`; do not edit by hand. -->

What a program may import. `dragoman` itself has the names that most programs need: `Node`, `Job`,
`Answer`, `JobFailed`, `ModelMissing`, `talk`, `SessionClient`, `SessionOptions`, `SyncSession`,
`TranslationResult`, `Missing`, `Result` and `lab`. Everything else is in `dragoman.sdk`,
`dragoman.lab` and `dragoman.testing`. The package has types, so editors and mypy know all of it.

[Write a node](../howto/write-a-node.md), [talk to it](../howto/talk-to-it.md),
[run experiments](../howto/run-experiments.md) and [test your app](../howto/test-your-app.md) show
how these are used.
"""

_MODULES: tuple[tuple[ModuleType, str], ...] = (
    (sdk, "Nodes that do the work, sessions and single jobs that ask for it."),
    (lab, "Experiments: datasets, targets, evaluators, results and comparisons."),
    (testing, "Schedulers and clusters in memory, on a virtual clock, for tests."),
)
_WIRE = "dragoman.live.protocol"
_WIDTH_MAX = 90


def reference() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_INTRODUCTION, *(_module(*told) for told in _MODULES)])


def _module(module: ModuleType, about: str) -> str:
    things = {name: getattr(module, name) for name in module.__all__}
    functions = {name: thing for name, thing in things.items() if inspect.isfunction(thing)}
    classes = {name: thing for name, thing in things.items() if inspect.isclass(thing)}
    wire = {name: kind for name, kind in classes.items() if kind.__module__.startswith(_WIRE)}
    parts = [f"## {module.__name__}\n", f"{about}\n"]
    parts.extend(_function(name, function) for name, function in functions.items())
    parts.extend(_class(name, kind) for name, kind in classes.items() if name not in wire)
    if wire:
        parts.append(f"### Messages and their parts in {module.__name__}\n")
        parts.append("[Wire messages](protocol.md) has their fields.\n")
        rows = [f"| `{name}` | {_first_line(kind)} |" for name, kind in wire.items()]
        parts.append(_table("name | is", rows))
    return "\n".join(parts)


def _function(name: str, function: Any) -> str:
    parts = [f"### {name}\n", *_signature(name, function), f"{_prose(function)}\n"]
    return "\n".join(parts)


def _class(name: str, kind: type[Any]) -> str:
    parts = [f"### {name}\n", f"{_prose(kind)}\n"]
    if issubclass(kind, Enum):
        parts.append("One of " + ", ".join(f"`{one.value}`" for one in kind) + ".\n")
        return "\n".join(parts)
    if "__init__" in vars(kind) and not _is_record(kind) and not _is_protocol(kind):
        parts.extend(_signature(name, kind.__init__))
    rows = [f"| `{field}` | `{_cell(hint)}` | {told} |" for field, hint, told in _fields_of(kind)]
    if rows:
        parts.append(_table("field | type | meaning", rows))
    rows = [
        f"| `{_cell(called)}` | {told} |" for called, told in _methods_of(kind) if told is not None
    ]
    if rows:
        parts.append(_table("member | does", rows))
    return "\n".join(parts)


def _is_record(kind: type[Any]) -> bool:
    return issubclass(kind, msgspec.Struct) or hasattr(kind, "__dataclass_fields__")


def _is_protocol(kind: type[Any]) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _signature(name: str, function: Any) -> Iterator[str]:
    """How it is called, on one line; a long one with a table of its parameters."""
    taken = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    short = _called(name, function)
    if len(short) <= _WIDTH_MAX:
        yield f"`{short}`\n"
        return
    yield f"`{_called(name, function, with_types=False)}`\n"
    rows = [
        f"| `{one.name}` | `{_cell(_hint(one.annotation))}` | {_default(one)} |" for one in taken
    ]
    yield _table("parameter | type | unless given", rows)


def _called(name: str, function: Any, *, with_types: bool = True) -> str:
    signature = inspect.signature(function)
    taken = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    if not with_types:
        taken = [one.replace(annotation=one.empty, default=one.empty) for one in taken]
    returned = _hint(signature.return_annotation) if with_types else ""
    shown = signature.replace(parameters=_bare(taken), return_annotation=signature.empty)
    arrow = f" -> {returned}" if returned not in ("", "None") else ""
    is_async = inspect.iscoroutinefunction(function)
    return f"{'await ' if is_async else ''}{name}{_unquoted(str(shown))}{arrow}"


def _bare(taken: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [
        one.replace(default=_Shown(one.default)) if one.default is not one.empty else one
        for one in taken
    ]


class _Shown:
    """A default as the page shows it: without the address that a repr may hold."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        if isinstance(self._value, Enum):
            return repr(self._value.value)
        if isinstance(self._value, PurePath):
            return repr(str(self._value))
        if callable(self._value):
            return str(getattr(self._value, "__name__", "..."))
        return re.sub(r"<.*>", "...", repr(self._value))


def _default(one: inspect.Parameter) -> str:
    if one.default is not one.empty:
        return f"`{_cell(repr(_Shown(one.default)))}`"
    return "" if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) else "**required**"


def _hint(annotation: object) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _unquoted(signature: str) -> str:
    return re.sub(r": '([^']*)'", r": \1", signature)


def _fields_of(kind: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Its public fields with their types, and what the source says of each."""
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("dragoman"):
            continue
        told = _told_of_fields(owner)
        for field, hint in vars(owner).get("__annotations__", {}).items():
            if not field.startswith("_"):
                yield field, _hint(hint), told.get(field, "")


def _told_of_fields(kind: type[Any]) -> dict[str, str]:
    """The strings that stand below the fields of a class."""
    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, ValueError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[field.target.id] = _cell(str(below.value.value))
    return found


def _methods_of(kind: type[Any]) -> Iterator[tuple[str, str | None]]:
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("dragoman"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property):
                yield name, _first_line(member)
            elif isinstance(member, classmethod | staticmethod):
                yield _called(f"{kind.__name__}.{name}", member.__func__), _first_line(member)
            elif inspect.isfunction(member):
                yield _called(name, member), _first_line(member)


def _first_line(thing: object) -> str | None:
    # Its own alone: what it inherits from Python's classes differs between versions.
    text = inspect.cleandoc(thing.__doc__ or "")
    return _cell(text.split("\n\n", 1)[0]) if text else None


def _prose(thing: object) -> str:
    """The docstring's paragraphs; examples are left to the how-tos, where tests run them."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    told = [one for one in paragraphs if not one.startswith(" ") and not one.endswith("::")]
    return "\n\n".join(_words(one) for one in told)


def _words(paragraph: str) -> str:
    if re.match(r"[-*] ", paragraph):
        return paragraph.replace("``", "`")
    return " ".join(paragraph.split()).replace("``", "`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def _table(header: str, rows: list[str]) -> str:
    rule = " | ".join("---" for _ in header.split(" | "))
    return "\n".join([f"| {header} |", f"| {rule} |", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
