"""Just enough of PromQL to tell whether an expression parses, and which metrics it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d+)?(?![\w.]))
      | (?P<duration>\[(?:\d+(?:ms|[smhdwy])|\$__rate_interval)\])
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
      | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},])
    )""",
    re.VERBOSE,
)

_AGGREGATIONS = frozenset({"sum", "min", "max", "avg", "count", "topk", "bottomk"})
_FUNCTIONS = frozenset(
    {
        *("rate", "increase", "changes", "histogram_quantile"),
        *("min_over_time", "max_over_time", "vector", "abs"),
    }
)
_OPERATORS = ("or", "and", "unless", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "^")
_MATCHES = ("=", "!=", "=~", "!~")


class NotPromQL(Exception):
    """The expression does not parse."""


@dataclass
class Query:
    """What an expression asks for."""

    metrics: set[str] = field(default_factory=set)
    labels: set[tuple[str, str]] = field(default_factory=set)
    """Each metric with a label that it is filtered by."""


def parse(expression: str) -> Query:
    """Read a whole expression; raises `NotPromQL` when it cannot be one."""
    reader = _Reader(expression)
    reader.expression()
    reader.expect_end()
    return reader.query


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self.query = Query()

    def expression(self) -> None:
        self._operand()
        while self._next_is(*_OPERATORS):
            self._take()
            self._operand()

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise NotPromQL(f"{self._peek()!r} is left over in {self._text!r}")

    def _operand(self) -> None:
        kind, token = self._take()
        if token == "(":
            self.expression()
            self._expect(")")
        elif token == "-":
            self._operand()
        elif kind == "name" and token in _AGGREGATIONS:
            if self._next_is("by", "without"):
                self._take()
                self._names()
            self._arguments()
        elif kind == "name" and token in _FUNCTIONS:
            self._arguments()
        elif kind == "name":
            self._selector(token)
        elif kind != "number":
            raise NotPromQL(f"{token!r} cannot stand there in {self._text!r}")

    def _arguments(self) -> None:
        self._expect("(")
        self.expression()
        while self._next_is(","):
            self._take()
            self.expression()
        self._expect(")")

    def _names(self) -> None:
        self._expect("(")
        self._kind("name")
        while self._next_is(","):
            self._take()
            self._kind("name")
        self._expect(")")

    def _selector(self, metric: str) -> None:
        self.query.metrics.add(metric)
        if self._next_is("{"):
            self._take()
            while not self._next_is("}"):
                self.query.labels.add((metric, self._kind("name")))
                if self._take()[1] not in _MATCHES:
                    raise NotPromQL(f"a label is not compared in {self._text!r}")
                self._kind("string")
                if self._next_is(","):
                    self._take()
            self._expect("}")
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "duration":
            self._take()

    def _next_is(self, *wanted: str) -> bool:
        return self._peek() in wanted

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise NotPromQL(f"{self._text!r} ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, wanted: str) -> None:
        found = self._take()[1]
        if found != wanted:
            raise NotPromQL(f"{found!r} stands where {wanted!r} should in {self._text!r}")

    def _kind(self, wanted: str) -> str:
        kind, token = self._take()
        if kind != wanted:
            raise NotPromQL(f"{token!r} is no {wanted} in {self._text!r}")
        return token


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise NotPromQL(f"{text[at : at + 10]!r} is no part of PromQL, in {text!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found
