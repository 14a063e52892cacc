"""Functions of users: found by name, called with arguments bound by name, sync or async."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.plugins.context import Context
from dragoman.lab.plugins.threads import Threads, bearable

_NAME = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<function>\w+)")
_WILDCARDS = re.compile(r"[*?\[]")
_BOUND = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


class PythonFunction:
    """A function together with its parameters."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            raise InvalidMessage(f"`{name}` has no readable signature; wrap it in a def.") from None
        if any(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in parameters):
            raise InvalidMessage(
                f"`{name}` has parameters that cannot be given by name; remove the `/`."
            )
        self.wanted = tuple(p.name for p in parameters if p.kind in _BOUND)
        self.required = tuple(
            p.name for p in parameters if p.kind in _BOUND and p.default is p.empty
        )
        self._wants_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        self._is_async = _is_async(function)

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values the function takes; `InvalidMessage` when one it needs is not there."""
        if missing := self.missing(values):
            raise InvalidMessage(
                f"`{self.name}` takes `{missing[0]}`, but there is no such column; "
                f"there are {', '.join(values) or 'none'}"
            )
        if self._wants_all:
            return dict(values)
        return {name: values[name] for name in self.wanted if name in values}

    def missing(self, names: Iterable[str]) -> list[str]:
        """The required parameters that are not among these names."""
        known = set(names)
        return [name for name in self.required if name not in known]

    async def call(self, arguments: Mapping[str, Any], threads: Threads) -> Any:
        """What the function returns or raises. A cancelled call is given up at once."""
        if self._is_async:
            return await _given_up_when_cancelled(self.function(**arguments))
        value = await threads.run(partial(self.function, **arguments))
        if inspect.iscoroutine(value):
            return await _given_up_when_cancelled(value)
        return value


def find_function(name: str, context: Context, where: str) -> PythonFunction:
    """The function called ``module:function``, or one that the program passed in."""
    if name in context.functions:
        return PythonFunction(name, context.functions[name])
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise _unusable(
            where,
            f"`{name}` is not of the form module:function; a function that a program handed over "
            "can be called by that program only",
        )
    if context.python_allow is not None and not _matches(name, context.python_allow):
        raise _not_allowed(where, name)
    function = _imported(parts["module"], parts["function"], where, context.modules)
    if context.python_allow is not None and not _is_own(name, function, context.python_allow):
        raise _not_allowed(where, name)
    return PythonFunction(name, function)


@lru_cache(maxsize=1_000)
def identity_of(function: Callable[..., Any]) -> str:
    """The hash of a function's name and of the text of its module; of its own text without one.

    What it imports from elsewhere is not part of it. `InvalidMessage` for a function that keeps
    values of its own, which no text shows: a closure, a method, an object.
    """
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if not inspect.isfunction(function) or function.__closure__:
        raise InvalidMessage(
            f"The answers of `{name.strip(':') or type(function).__name__}` cannot be cached: it "
            "keeps values of its own, which no text shows; use a plain function, or leave out "
            "`cache`.",
            details={"field": "cache"},
        )
    try:
        file = inspect.getsourcefile(function)
        text = Path(file).read_text() if file and Path(file).is_file() else None
        text = inspect.getsource(function) if text is None else text
    except (OSError, TypeError, UnicodeDecodeError):
        raise InvalidMessage(
            f"The answers of `{name}` cannot be cached: its source is not there; leave out "
            "`cache`.",
            details={"field": "cache"},
        ) from None
    return sha256(f"{name}\n{text}".encode(errors="replace")).hexdigest()


def _imported(module: str, function: str, where: str, folder: str | None) -> Callable[..., Any]:
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(import_module(module), function, None)
    except (Exception, SystemExit) as error:  # importing runs the module's own code
        at = "" if folder is None else f" (looked for in {folder} too)"
        raise _unusable(where, f"`{module}` cannot be imported{at}: {error}") from error
    _check_folder(module, where, folder)
    if found is None:
        raise _unusable(where, f"the module `{module}` has no `{function}`")
    if not callable(found):
        raise _unusable(where, f"`{module}:{function}` is not a function")
    called: Callable[..., Any] = found
    return called


def _check_folder(module: str, where: str, folder: str | None) -> None:
    """Refuse a module of the folder whose name was already imported from elsewhere."""
    if folder is None:
        return
    meant = PathFinder.find_spec(module.partition(".")[0], [folder])
    loaded = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)
    if meant is not None and meant.origin and loaded and not _same_file(meant.origin, loaded):
        raise _unusable(
            where,
            f"`{module}` is {meant.origin}, but this program has imported {loaded} by that name; "
            "run it in a program of its own",
        )


def _same_file(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _is_own(name: str, function: Callable[..., Any], allow: Iterable[str]) -> bool:
    """Whether the function may be called, also by the name of where it was written.

    A pattern such as ``tools.*`` means what is written there, not what is imported there: a
    module that says ``from os import system`` does not offer ``system`` to callers.
    """
    if name in allow:
        return True
    written = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    return _matches(written, allow)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    dotted = name.replace(":", ".")
    return any(
        fnmatchcase(dotted, pattern.replace(":", "."))
        if _WILDCARDS.search(pattern)
        else dotted == pattern.replace(":", ".")
        for pattern in patterns
    )


def _not_allowed(where: str, name: str) -> Forbidden:
    return Forbidden(
        f"`{where}` names `{name}`, which this server does not allow; "
        "add it, or a pattern such as `mytools.*`, to lab.python_allow; or run the "
        "experiment without the server, with another --data-dir.",
        details={"field": where},
    )


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    )


_given_up: set[asyncio.Task[Any]] = set()
"""Calls that were cancelled and have not ended yet; held, because the loop itself does not."""


async def _given_up_when_cancelled(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a user's coroutine, which may take its time to notice that it was cancelled."""
    task = asyncio.create_task(_without_exit(call))
    ended = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda _: None if ended.done() else ended.set_result(None))
    try:
        await ended
    except asyncio.CancelledError:
        task.cancel()
        _given_up.add(task)
        task.add_done_callback(_forget)
        raise
    if task.cancelled():  # it cancelled itself
        raise RuntimeError("CancelledError")
    return task.result()


async def _without_exit(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a user's coroutine; `exit()` ends it, and not the event loop with all the others."""
    try:
        return await call
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise bearable(error) from error


def _forget(task: asyncio.Task[Any]) -> None:
    _given_up.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, or asyncio would warn about an abandoned call
