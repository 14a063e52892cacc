"""Python functions as targets: found, checked, called, and given up when they hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dragoman.errors import DragomanError, Forbidden, InvalidMessage, SchemaMismatch
from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output, PastTurn, check_target, open_target

HERE = "tests.unit.lab.targets.functions"


def python(name: str) -> TargetSpec:
    return TargetSpec("python", {"function": name})


def call(
    target: Callable[..., Any] | str, turn: Mapping[str, Any], history: tuple[PastTurn, ...] = ()
) -> Output:
    context = Context() if isinstance(target, str) else Context(functions={"mine": target})
    name = target if isinstance(target, str) else "mine"

    async def main() -> Output:
        opened = open_target(python(name), context)
        try:
            return await opened.call(turn, history)
        finally:
            await opened.close()

    return asyncio.run(main())


def check(name: str, columns: tuple[str, ...] = ("text",), **context: Any) -> None:
    check_target(python(name), columns, Context(**context))


# --- finding ----------------------------------------------------------------------------------


def test_functions_are_found_by_name_or_handed_over() -> None:
    assert call(f"{HERE}:shout", {"text": "Hi"}).answer == "HI"
    assert call(f"{HERE}:whisper", {"text": "Hi"}).answer == "hi"
    assert call(lambda text: text * 2, {"text": "Hi"}).answer == "HiHi"
    assert call(partial(lambda a, text: a + text, "so "), {"text": "Hi"}).answer == "so Hi"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("shout", "module:function"),
        (f"{HERE}:os.system", "module:function"),
        ("no_such_module:f", "cannot be imported"),
        (f"{HERE}:gone", "has no `gone`"),
        (f"{HERE}:not_a_function", "is not a function"),
        (f"{HERE}:by_position", "remove the `/`"),
        ("builtins:dict", "wrap it in a def"),
    ],
)
def test_a_name_that_leads_nowhere_is_explained(name: str, says: str) -> None:
    with pytest.raises(InvalidMessage, match=says):
        check(name)


def test_a_module_that_exits_when_it_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_script_that_exits.py").write_text("raise SystemExit('usage: ...')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidMessage, match="cannot be imported: usage"):
        check("a_script_that_exits:main")


def test_settings_that_do_not_fit_are_named() -> None:
    with pytest.raises(InvalidMessage) as refused:
        check_target(TargetSpec("python", {"function": 3}), (), Context())
    assert refused.value.details == {"field": "target.function"}
    with pytest.raises(InvalidMessage) as refused:
        check_target(TargetSpec("python", {}), (), Context())
    assert refused.value.details == {"field": "target.function"}
    with pytest.raises(InvalidMessage, match="takes function") as refused:
        check_target(TargetSpec("python", {"function": "a:b", "fnuction": 1}), (), Context())
    assert refused.value.details == {"field": "target.fnuction"}


@pytest.mark.parametrize(
    "allow", [(f"{HERE}:shout",), (f"{HERE}.shout",), (f"{HERE}.*",), ("tests.*",)]
)
def test_a_server_calls_what_its_settings_allow(allow: tuple[str, ...]) -> None:
    check(f"{HERE}:shout", python_allow=allow)


@pytest.mark.parametrize("allow", [(), ("other.*",), (f"{HERE}:whisper",), ("tests",)])
def test_a_server_calls_nothing_else(allow: tuple[str, ...]) -> None:
    with pytest.raises(Forbidden, match="python_allow"):
        check(f"{HERE}:shout", python_allow=allow)


def test_a_pattern_offers_what_is_written_there_not_what_is_imported_there() -> None:
    with pytest.raises(Forbidden):
        check(f"{HERE}:getcwd", (), python_allow=(f"{HERE}.*",))
    check(f"{HERE}:getcwd", (), python_allow=(f"{HERE}:getcwd",))


# --- arguments --------------------------------------------------------------------------------


def test_arguments_are_bound_by_the_names_of_columns() -> None:
    assert call(f"{HERE}:whisper", {"times": 2, "text": "A", "more": 0}).answer == "aa"
    assert call(f"{HERE}:everything", {"a": 1, "b": 2}).columns == {"a": 1, "b": 2}


def test_history_is_given_to_who_asks_for_it() -> None:
    past = PastTurn({"text": "a"}, Output({"output": "b"}))
    assert call(f"{HERE}:converse", {"text": "c"}, (past,)).answer == "1:c"


def test_a_parameter_without_a_column_is_refused_with_a_remedy() -> None:
    with pytest.raises(
        SchemaMismatch, match=r'takes `text`.*it has source.*mapping = { "text"'
    ) as refused:
        check(f"{HERE}:converse", ("source",))
    assert refused.value.details["column"] == "text"
    check(f"{HERE}:whisper", ("text",))


def test_a_turn_without_a_column_fails_for_good() -> None:
    with pytest.raises(TargetError, match="takes `text`") as failed:
        call(f"{HERE}:shout", {"source": "a"})
    assert not failed.value.retryable


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["text", 3, 2.5, True, None, ["a", {"b": None}]])
def test_any_json_may_be_the_answer(answer: Any) -> None:
    assert call(lambda: answer, {}).columns == {"output": answer}


class Sentence(str):
    """Text of another library, such as a node of a parsed page."""


class Size(int):
    """A whole number of another library."""


def test_numbers_and_text_of_other_libraries_are_stored_as_plain_ones() -> None:
    answer = {Sentence("a"): Sentence("b"), "mean": np.float64(0.5), "parts": [Size(3)]}
    columns = call(lambda: answer, {}).columns
    assert msgspec.json.decode(msgspec.json.encode(columns)) == {
        "a": "b",
        "mean": 0.5,
        "parts": [3],
    }
    assert call(lambda: np.str_("said"), {}).answer == "said"


def test_an_object_is_several_columns() -> None:
    assert call(lambda: {"a": 1, "output": 2}, {}).main == "output"
    assert call(lambda: {"a": 1, "b": 2}, {}).main == "a"


def test_tokens_and_cost_are_told_by_an_output() -> None:
    output = call(lambda: Output({"x": "a"}, "x", tokens=7, cost=0.5), {})
    assert (output.tokens, output.cost, output.answer) == (7, 0.5, "a")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (float("nan"), "is nan"),
        ({"a": [1, object()]}, r"it.a\[1\] is a object"),
        ({1: 2}, "keys that are not text"),
        ("\ud800", "half a character"),
        ({"a": 10**5000}, "it.a is 1e5000, a whole number of too many digits"),
        (Output({"a": 1}, "b"), "main column `b` is missing"),
    ],
)
def test_an_answer_that_cannot_be_stored_is_explained(answer: Any, says: str) -> None:
    with pytest.raises(TargetError, match=says) as failed:
        call(lambda: answer, {})
    assert not failed.value.retryable


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TargetError, match="nested too deeply"):
        call(lambda: endless, {})


class NoException(BaseException):
    """As libraries raise to get past every `except Exception`: pytest does, for one."""


@pytest.mark.parametrize("sort", ["sync", "async"])
@pytest.mark.parametrize(
    ("raised", "expected", "retryable"),
    [
        (ValueError("no"), "`mine` raised ValueError: no", True),
        (TimeoutError("late"), "`mine` raised TimeoutError: late", True),
        (StopIteration(), "`mine` raised RuntimeError", True),
        (SystemExit(3), "`mine` raised RuntimeError: SystemExit: 3", True),
        (asyncio.CancelledError(), "`mine` raised RuntimeError: CancelledError", True),
        (KeyboardInterrupt(), "`mine` raised RuntimeError: KeyboardInterrupt", True),
        (GeneratorExit(), "`mine` raised RuntimeError: GeneratorExit", True),
        (NoException("skip"), "`mine` raised RuntimeError: NoException: skip", True),
        (TargetError("never", retryable=False), "never", False),
        (DragomanError("other"), "`mine`: other", True),
    ],
)
def test_what_a_function_raises_is_a_failure_of_the_target(
    sort: str, raised: BaseException, expected: str, retryable: bool
) -> None:
    def fails() -> None:
        raise raised

    async def fails_later() -> None:
        raise raised

    with pytest.raises(TargetError, match=expected) as failed:
        call(fails if sort == "sync" else fails_later, {})
    assert failed.value.retryable is retryable


def test_a_function_may_ask_to_be_called_later() -> None:
    def limited() -> None:
        raise CalledTooOften(retry_after_seconds=2.5)

    with pytest.raises(CalledTooOften) as refused:
        call(limited, {})
    assert refused.value.retry_after_seconds == 2.5


# --- giving up --------------------------------------------------------------------------------


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_functions_that_block_run_side_by_side() -> None:
    together = threading.Barrier(40, timeout=30)

    async def main() -> None:
        target = open_target(python("mine"), Context(functions={"mine": lambda: together.wait()}))
        answers = await asyncio.gather(*(target.call({}, ()) for _ in range(40)))
        assert len({output.answer for output in answers}) == 40
        await target.close()

    run(main)


def test_threads_are_used_again() -> None:
    async def main() -> None:
        target = open_target(
            python("mine"), Context(functions={"mine": lambda: threading.get_ident()})
        )
        threads = {(await target.call({}, ())).answer for _ in range(50)}
        assert len(threads) == 1
        await target.close()

    run(main)


def test_a_thread_that_hangs_is_abandoned_and_its_answer_goes_nowhere() -> None:
    release, left = threading.Event(), threading.Event()

    def hangs() -> str:
        release.wait(30)
        left.set()
        return "too late"

    async def main() -> None:
        target = open_target(python("mine"), Context(functions={"mine": hangs}))
        work = asyncio.create_task(target.call({}, ()))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        release.set()
        await asyncio.to_thread(left.wait, 30)
        await target.close()

    run(main)


def test_a_thread_that_outlives_its_loop_does_no_harm() -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []

    def hangs() -> None:
        threads.append(threading.current_thread())
        release.wait(30)

    async def main() -> None:
        target = open_target(python("mine"), Context(functions={"mine": hangs}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await target.call({}, ())
        await target.close()

    run(main)
    release.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_coroutine_that_will_not_be_cancelled_is_not_waited_for() -> None:
    async def stubborn() -> str:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if over:
                    return "at last"

    over: list[bool] = []

    async def main() -> None:
        target = open_target(python("mine"), Context(functions={"mine": stubborn}))
        work = asyncio.create_task(target.call({}, ()))
        for _ in range(5):
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        over.append(True)
        await target.close()

    run(main)


# --- other kinds ------------------------------------------------------------------------------


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidMessage, match="kind `fleets`; known are python, http, openai, fleet, recorded"
    ) as refused:
        open_target(TargetSpec("fleets"), Context())
    assert refused.value.details == {"field": "target.kind"}


def test_recorded_outputs_are_taken_from_the_dataset() -> None:
    spec = TargetSpec("recorded", {"output": "answer"})
    check_target(spec, ("answer",), Context())
    with pytest.raises(
        SchemaMismatch, match=r"`target.output` uses the column `answer`.*it has a, b"
    ):
        check_target(spec, ("a", "b"), Context())

    async def main() -> None:
        target = open_target(spec, Context())
        assert (await target.call({"answer": "yes"}, ())).columns == {"output": "yes"}
        with pytest.raises(TargetError):
            await target.call({}, ())
        await target.close()

    run(main)
