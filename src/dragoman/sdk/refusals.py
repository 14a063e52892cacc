"""What a scheduler said when it refused, and what can be done about it, as one sentence."""

from __future__ import annotations

_CUT = "..."
"""A close reason that ends so was too long for its frame."""


def with_remedy(says: str, remedy: str) -> str:
    """The words of a refusal, with a remedy where they name none.

    A message of Dragoman says what happened and then, after a semicolon, what to do. Of one that
    was cut the remedy is what is missing, or half of it is.
    """
    says = says.strip()
    fault, separator, _ = says.partition("; ")
    if separator and not says.endswith(_CUT):
        return f"{says.rstrip('.')}."
    return f"{fault if fault.endswith(_CUT) else fault.rstrip('.')}; {remedy}."


def without_advice(says: str) -> str:
    """What happened alone, without what the scheduler tells those who speak its protocol."""
    return says.partition("; ")[0].partition(": ")[0]
