"""What an HTTP answer means: an output, a failure, or a request to come back later."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.lab.failures import RateLimited, TargetError, shortened
from dragoman.lab.model import JsonValue
from dragoman.lab.targets.http.json_path import JsonPath
from dragoman.lab.targets.http.settings import Settings
from dragoman.lab.targets.outputs import MAIN_COLUMN, Output
from dragoman.lab.targets.retry_after import TOO_MANY_REQUESTS, retry_after_seconds

_UNAVAILABLE = 503
_WORTH_ANOTHER_TRY = frozenset({408, 425, 500, 502, 503, 504, 520, 522, 524, 529})
_SHOWN_CHARACTERS = 300


class Answer(msgspec.Struct, frozen=True):
    """An answer as it came in; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Reading:
    """How the answers of one target are read."""

    def __init__(self, settings: Settings) -> None:
        outputs = settings.output
        paths = {MAIN_COLUMN: outputs} if isinstance(outputs, str) else outputs
        self._paths = {name: JsonPath(path) for name, path in paths.items()}
        self._main = MAIN_COLUMN if MAIN_COLUMN in paths else next(iter(paths))
        self._tokens = None if settings.tokens is None else JsonPath(settings.tokens)
        self._cost = None if settings.cost is None else JsonPath(settings.cost)

    def output(self, answer: Answer, latency_ms: float, now_ms: int) -> Output:
        """The output in an answer; raises `TargetError` or `RateLimited` when there is none."""
        _require_success(answer, now_ms)
        try:
            found: JsonValue = msgspec.json.decode(answer.content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TargetError(f"The answer is not JSON ({error}): {_shown(answer)}") from None
        try:
            return Output(
                {name: path.value_in(found) for name, path in self._paths.items()},
                self._main,
                tokens=None if self._tokens is None else _whole(self._tokens, found),
                cost=None if self._cost is None else _number(self._cost, found),
                latency_ms=latency_ms,
            )
        except LookupError as error:
            raise TargetError(f"In the answer, {error.args[0]}: {_shown(answer)}") from None


def _require_success(answer: Answer, now_ms: int) -> None:
    status = answer.status
    if 200 <= status < 300:
        return
    wait_seconds = retry_after_seconds(answer.headers, now_ms)
    if status == TOO_MANY_REQUESTS or (status == _UNAVAILABLE and wait_seconds is not None):
        raise RateLimited(
            f"The target answered {status}: {_shown(answer)}", retry_after_seconds=wait_seconds
        )
    if 300 <= status < 400:
        raise TargetError(
            f"The target answered with a redirect ({status}), which is not followed; "
            "set `target.url` to where it leads.",
            retryable=False,
        )
    raise TargetError(
        f"The target answered {status}: {_shown(answer)}", retryable=status in _WORTH_ANOTHER_TRY
    )


def _whole(path: JsonPath, answer: JsonValue) -> int:
    return int(_number(path, answer))


def _number(path: JsonPath, answer: JsonValue) -> float:
    value = path.value_in(answer)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise LookupError(f"{path.text} is not a number of at least 0")
    return value


def _shown(answer: Answer) -> str:
    text = answer.content[: 4 * _SHOWN_CHARACTERS].decode(errors="replace").strip()
    return shortened(text, _SHOWN_CHARACTERS) or "(empty)"
