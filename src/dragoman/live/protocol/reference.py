"""Writes the reference page of the wire from the messages themselves.

``python -m dragoman.live.protocol.reference > docs/reference/protocol.md``
"""

from __future__ import annotations

import ast
import inspect as source
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import StrEnum
from types import ModuleType, UnionType
from typing import TypeVar, get_args

import msgspec
from msgspec import inspect

from dragoman.live.protocol import (
    client_messages,
    features,
    languages,
    node_messages,
    parts,
    vocabulary,
)
from dragoman.live.protocol.problems import MessageProblem

T = TypeVar("T")

_PROBLEMS = ", ".join(f"`{problem}`" for problem in MessageProblem)
_INTRODUCTION = f"""\
# Messages

<!-- Written by `python -m dragoman.live.protocol.reference`; do not edit by hand. -->

Nodes connect to `/ws/node`, clients to `/ws/session`. A frame is one object with a `type`.
There are two sub-protocols: `dragoman.json.v1` (text frames; bytes are base64) and
`dragoman.msgpack.v1` (binary frames; bytes are raw). A socket that offers none speaks JSON.

An optional field may be absent or null; a sender leaves it out while it has its default. Receivers
ignore unknown fields. Language tags are BCP-47: the scheduler compares them without regard to case
and returns them as they were sent. It answers a message that it cannot use with an `error` with the
code `INVALID_MESSAGE`. Its `details.problem` is one of {_PROBLEMS}, with the
`type` and the `field` where they are known. The connection stays open.

Others listen to a session at `/ws/listen/{{session_id}}`, with the `listen_token` of its
`session_init_ack` where a key would stand. The query has `tgt_lang` (one that the session
translates to; its first, unless given), `audio` (`true`: with speech) and `last_delivery_seq` (what
is still kept after it comes first). A listener gets `listen_ack`, then each `translation_result`
and `missing_result` of its language, and `listen_end` when the session is over. It need not send
anything. In a cluster, an instance that does not have the session answers with an `error`
`SESSION_ELSEWHERE`, whose `details.url` is the address of the one that has it. Refused listeners
are closed with 4400 (a language that the session is not translated to; `details.served` has those
that are), 4401 (the token of another session), 4429 (too many listeners, or one that reads too
slowly) or 1008 (no such session here).
"""

_DIRECTIONS = (
    ("Node to scheduler", node_messages.NodeToScheduler),
    ("Scheduler to node", node_messages.SchedulerToNode),
    ("Client to scheduler", client_messages.ClientToScheduler),
    ("Scheduler to client", client_messages.SchedulerToClient),
    ("Scheduler to listener", client_messages.OnlyToListener),
)


def page() -> str:
    """The whole page, as Markdown."""
    sections = [_INTRODUCTION]
    for title, union in _DIRECTIONS:
        sections.append(f"## {title}\n")
        sections.extend(_struct_section(struct) for struct in _members(union))
    sections.append("## Parts\n")
    sections.extend(_struct_section(part) for part in _defined_in(parts, parts.Part))
    sections.append("## Words\n")
    sections.append(_words_table())
    sections.append("## What features need\n")
    sections.append(_features_table())
    return "\n".join(sections)


def _members(union: UnionType) -> tuple[type[msgspec.Struct], ...]:
    return get_args(union)


def _defined_in(module: ModuleType, base: type[T]) -> Iterator[type[T]]:
    """The module's own classes that build on ``base``, in the order in which they are written."""
    for thing in vars(module).values():
        if isinstance(thing, type) and issubclass(thing, base) and thing is not base:
            yield thing


def _struct_section(struct: type[msgspec.Struct]) -> str:
    title = struct.__struct_config__.tag or struct.__name__
    lines = [f"### {title}\n", f"{source.getdoc(struct)}\n"]
    notes = _field_notes(struct)
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    if not info.fields:
        return "\n".join([*lines, "It has no fields.\n"])
    lines += ["| field | type | | |", "| --- | --- | --- | --- |"]
    for field in info.fields:
        needed = "required" if field.required else _default(field)
        note = notes.get(field.name, "")
        lines.append(f"| `{field.encode_name}` | {_type_name(field.type)} | {needed} | {note} |")
    return "\n".join(lines) + "\n"


def _field_notes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The sentences written under the fields of a class, and of those it builds on."""
    notes: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if kind.__module__.startswith("dragoman."):
            notes |= _own_field_notes(kind)
    return notes


def _own_field_notes(struct: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(source.getsource(struct))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(note))),
            ):
                notes[name] = " ".join(note.replace("``", "`").split())
    return notes


def _default(field: inspect.Field) -> str:
    default = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    if default is None:
        return "optional"
    return f"default `{msgspec.json.encode(default).decode()}`"


def _type_name(type_info: inspect.Type) -> str:
    """A type in words, with the limits it has."""
    match type_info:
        case inspect.Metadata(type=inner):
            return _type_name(inner)
        case inspect.UnionType(types=types):
            return " or ".join(
                _type_name(part) for part in types if not isinstance(part, inspect.NoneType)
            )
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case inspect.EnumType(cls=cls):
            return f"[{cls.__name__}](#words)"
        case inspect.VarTupleType(item_type=item):
            return f"list of {_type_name(item)}"
        case inspect.DictType():
            return "object"
        case inspect.IntType(ge=low, le=high) | inspect.FloatType(ge=low, le=high):
            name = "integer" if isinstance(type_info, inspect.IntType) else "number"
            return name + _limits(low, high)
        case inspect.StrType(pattern=pattern) if pattern in languages.PATTERN_MEANINGS:
            return "language tag"
        case inspect.StrType(max_length=longest):
            return "text" + (f" (at most {longest} characters)" if longest else "")
        case inspect.BoolType():
            return "true or false"
        case inspect.BytesType():
            return "bytes"
    raise TypeError(f"the reference has no word for {type_info}")


def _limits(low: float | None, high: float | None) -> str:
    """Bounds that only keep numbers exact or finite are not worth a reader's time."""
    if low is None or low < 0:
        return ""
    return f" ({low:g} or more)" if high is None or high > 1e9 else f" ({low:g} to {high:g})"


def _words_table() -> str:
    lines = ["| word | one of | |", "| --- | --- | --- |"]
    for words in _defined_in(vocabulary, StrEnum):
        lines.append(f"| {words.__name__} | {_listed(words)} | {source.getdoc(words)} |")
    return "\n".join(lines) + "\n"


def _features_table() -> str:
    lines = ["| feature | needs | services in all |", "| --- | --- | --- |"]
    for feature, needs in features.NEEDS.items():
        services = sorted(features.required_types(parts.Pipeline(), [feature]))
        lines.append(f"| `{feature}` | {_listed(needs)} | {_listed(services)} |")
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


if __name__ == "__main__":
    sys.stdout.write(page())
