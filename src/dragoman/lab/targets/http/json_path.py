"""One value inside an answer: ``$.choices[0].message['content']``.

A path here names one value or none; it does not search. The libraries for JSONPath bring
wildcards, filters and scripts, whose answers are lists, and which experiments could not use.
"""

from __future__ import annotations

import re

from dragoman.lab.model import JsonValue

_STEP = re.compile(
    r"""\.(?P<name>[^\s.\[\]'"*?()]+)        # .name
      | \[(?P<index>-?\d{1,9})\]             # [0]  [-1]
      | \[(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]   # ['any name']
    """,
    re.VERBOSE,
)


class JsonPath:
    """A parsed path; raises ValueError when the text is not a path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = tuple(_steps(text))

    def value_in(self, answer: JsonValue) -> JsonValue:
        """The value at the path; LookupError names the step at which there is none."""
        at = answer
        walked = "$"
        for step in self._steps:
            try:
                at = _part(at, step)
            except LookupError:
                message = f"there is no {self.text}: {walked} has no {step!r}"
                raise LookupError(message) from None
            walked += f"[{step!r}]"
        return at


def _part(whole: JsonValue, step: str | int) -> JsonValue:
    if isinstance(whole, dict) and isinstance(step, str):
        return whole[step]
    if isinstance(whole, list) and isinstance(step, int):
        return whole[step]
    raise LookupError


def _steps(text: str) -> list[str | int]:
    if not text.startswith("$"):
        raise ValueError(f"`{text}` is not a path; paths begin with $, such as $.choices[0].text")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError(
                f"`{text}` is not a path from character {at + 1}; steps are .name, [0] and ['name']"
            )
        if step["index"] is not None:
            steps.append(int(step["index"]))
        else:
            steps.append(next(s for s in step.group("name", "single", "double") if s is not None))
        at = step.end()
    return steps
