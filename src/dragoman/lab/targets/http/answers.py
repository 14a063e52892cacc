"""What an HTTP answer means: an output, a failure, or a request to come back later."""

from __future__ import annotations

import msgspec

from dragoman.lab.failures import TargetError
from dragoman.lab.model import JsonValue
from dragoman.lab.targets.http.json_path import JsonPath
from dragoman.lab.targets.http.settings import HttpTargetSettings
from dragoman.lab.targets.outputs import MAIN_COLUMN, Output
from dragoman.outbound import HttpAnswer, require_success, shown_answer


class AnswerReading:
    """How the answers of one target are read."""

    def __init__(self, settings: HttpTargetSettings) -> None:
        outputs = settings.output
        paths = {MAIN_COLUMN: outputs} if isinstance(outputs, str) else outputs
        self._paths = {name: JsonPath(path) for name, path in paths.items()}
        self._main = MAIN_COLUMN if MAIN_COLUMN in paths else next(iter(paths))
        self._tokens = None if settings.tokens is None else JsonPath(settings.tokens)
        self._cost = None if settings.cost is None else JsonPath(settings.cost)

    def output(self, answer: HttpAnswer, latency_ms: float, now_ms: int) -> Output:
        """The output in an answer; raises `TargetError` or `RateLimited` when there is none."""
        require_success(answer, now_ms)
        try:
            found: JsonValue = msgspec.json.decode(answer.content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TargetError(f"The answer is not JSON ({error}): {shown_answer(answer)}") from None
        try:
            return Output(
                {name: path.value_in(found) for name, path in self._paths.items()},
                self._main,
                tokens=None if self._tokens is None else _whole(self._tokens, found),
                cost=None if self._cost is None else _number(self._cost, found),
                latency_ms=latency_ms,
            )
        except LookupError as error:
            raise TargetError(f"In the answer, {error.args[0]}: {shown_answer(answer)}") from None


def _whole(path: JsonPath, answer: JsonValue) -> int:
    return int(_number(path, answer))


def _number(path: JsonPath, answer: JsonValue) -> float:
    value = path.value_in(answer)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise LookupError(f"{path.text} is not a number of at least 0")
    return value
