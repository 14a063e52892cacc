"""Whether the output is the JSON value that was expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import text
from dragoman.lab.evaluators.evaluator import FAIL, PASS, Score, verdict
from dragoman.lab.evaluators.text import TextEvaluator, TextSettings
from dragoman.lab.evaluators.values import same_json, shown
from dragoman.lab.failures import EvaluatorFailure, shortened
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context

_SHOWN_DIFFERENCES = 3


class JsonMatchSettings(TextSettings, frozen=True):
    """What is compared, and what may differ."""

    allow_extra: bool = False
    """Objects of the output may have keys that the reference does not have."""
    ignore_order: bool = False
    """The order of lists does not matter."""
    partial: bool = False
    """Score the share of the reference's values that the output has, not only 1 or 0."""


def check(settings: JsonMatchSettings, columns: Collection[str], context: Context) -> None:
    if settings.ignore_order and (settings.allow_extra or settings.partial):
        raise InvalidMessage(
            "`evaluator.ignore_order` cannot be combined with `allow_extra` or `partial`: without "
            "an order it is not told which entry of a list belongs to which.",
            details={"field": "evaluator.ignore_order"},
        )
    text.check(settings, columns, context)


class JsonMatchEvaluator(TextEvaluator[JsonMatchSettings]):
    """Compares two JSON values; text is read as JSON first."""

    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        try:
            expected = _read(reference)
        except ValueError as error:
            raise EvaluatorFailure(f"The reference is no JSON: {error}.", retryable=False) from None
        try:
            answered = _read(found)
        except ValueError as error:
            return verdict(False, f"the output is no JSON: {shortened(str(error), 200)}")
        try:
            return self._compare(self._plain(expected), self._plain(answered))
        except RecursionError:
            raise EvaluatorFailure("A value is nested too deeply.", retryable=False) from None

    def _plain(self, value: JsonValue) -> JsonValue:
        """The value without the differences to ignore."""
        if isinstance(value, str):
            return self.plain(value)
        if isinstance(value, dict):
            return {key: self._plain(part) for key, part in value.items()}
        if isinstance(value, list):
            parts = [self._plain(part) for part in value]
            return sorted(parts, key=_order) if self.settings.ignore_order else parts
        if isinstance(value, float) and value.is_integer():
            return int(value)  # so that 1 and 1.0 have the same place in an ordered list
        return value

    def _compare(self, expected: JsonValue, found: JsonValue) -> Score:
        differences: list[str] = []
        same = total = 0
        for path, is_same, what in self._pairs(expected, found, "$"):
            total += 1
            same += is_same
            if not is_same:
                differences.append(f"{path} {what}")
        if not differences:
            return verdict(True)
        reason = "; ".join(differences[:_SHOWN_DIFFERENCES])
        if len(differences) > _SHOWN_DIFFERENCES:
            reason += f"; and {len(differences) - _SHOWN_DIFFERENCES} more"
        share = same / total if self.settings.partial else 0.0
        return Score(share, PASS if share == 1 else FAIL, shortened(reason))

    def _pairs(
        self, expected: JsonValue, found: JsonValue, path: str
    ) -> Iterator[tuple[str, bool, str]]:
        """The values of the reference: where each is, whether the output has it, what it has."""
        if isinstance(expected, dict) and isinstance(found, dict):
            if not expected and not found:
                yield path, True, ""
            for key, part in expected.items():
                if key in found:
                    yield from self._pairs(part, found[key], f"{path}.{key}")
                else:
                    yield f"{path}.{key}", False, "is missing"
            if not self.settings.allow_extra:
                for key in found.keys() - expected.keys():
                    yield f"{path}.{key}", False, "is not expected"
        elif isinstance(expected, list) and isinstance(found, list):
            if len(expected) != len(found):
                yield path, False, f"has {len(found)} entries, not {len(expected)}"
            elif not expected:
                yield path, True, ""
            for number, (one, other) in enumerate(zip(expected, found, strict=False)):
                yield from self._pairs(one, other, f"{path}[{number}]")
        else:
            yield path, same_json(expected, found), f"is {shown(found)}, not {shown(expected)}"


def _read(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return value
    try:
        read: JsonValue = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return read


def _order(value: JsonValue) -> bytes:
    return msgspec.json.encode(value, order="sorted")
