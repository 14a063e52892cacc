"""The problems of a dataset file, as many as one pass finds, line by line."""

from __future__ import annotations

import msgspec

from dragoman.errors import DatasetInvalid

MOST_PROBLEMS = 100
"""Reading stops after this many problems; more are most likely the same."""

_PROBLEMS_IN_MESSAGE = 5


class LineProblem(msgspec.Struct, frozen=True):
    """Something wrong at a line; ``column`` names the field when it is known.

    Files without lines count rows. 0 stands for the file as a whole.
    """

    line: int
    message: str
    column: str | None = None

    def told(self, counted: str) -> str:
        """The problem as a clause; `counted` is what the file counts, lines or rows."""
        where = ", ".join(
            part for part in (self.line and f"{counted} {self.line}", self.column) if part
        )
        return f"{where}: {self.message}" if where else self.message[:1].upper() + self.message[1:]


class Unreadable(Exception):
    """Raised when reading cannot go on, because the next record's start is unknown."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.problem = LineProblem(line, message)


class Problems:
    """Collects problems up to a bound."""

    def __init__(self, most: int = MOST_PROBLEMS, *, counted: str = "line") -> None:
        self._most = most
        self._counted = counted
        self._found: list[LineProblem] = []
        self._complete = True

    def add(self, problem: LineProblem) -> None:
        if self.enough():
            self._complete = False
        else:
            self._found.append(problem)

    def __bool__(self) -> bool:
        return bool(self._found)

    def enough(self) -> bool:
        return len(self._found) >= self._most

    def stop_here(self) -> None:
        """Note that the rest of the file was not read."""
        self._complete = False

    def as_error(self) -> DatasetInvalid:
        """All of them in one error; the message shows the first few."""
        shown = "; ".join(
            problem.told(self._counted) for problem in self._found[:_PROBLEMS_IN_MESSAGE]
        )
        hidden = len(self._found) - _PROBLEMS_IN_MESSAGE
        more = f"; and {hidden} more" if hidden > 0 else ""
        end = "" if self._complete else " (the rest of the file was not looked at)"
        return DatasetInvalid(
            f"Nothing was imported. {shown}{more}{end}",
            details={
                "problems": [msgspec.to_builtins(problem) for problem in self._found],
                "complete": self._complete,
            },
        )
