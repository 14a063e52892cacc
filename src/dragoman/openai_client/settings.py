"""How a server is described: where it is, which model it runs, what it costs."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a million tokens cost, in the currency of the budget."""

    input: _NotNegative = 0.0
    output: _NotNegative = 0.0


class ModelServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model on an OpenAI-compatible server."""

    url: str
    """The server's address up to the version, such as https://api.openai.com/v1."""
    model: str
    api_key: str | None = None
    """Refused: a key itself would be stored with the experiment. Use `api_key_env`."""
    api_key_env: str | None = None
    """The name of the environment variable that holds the key where the experiment runs."""
    headers: dict[str, str] = {}
    """More headers; in an experiment ``env:NAME`` in a value is the environment variable NAME."""
    price: Price | None = None
    """Without a price the cost is not known."""
    timeout_seconds: _Positive = 120.0

    def unpriced(self, where: str) -> str | None:
        """Why the cost of a call cannot be known, and what to do; None where it can be."""
        if self.price is not None:
            return None
        return (
            f"the model {self.model!r} has no price; give `{where}.price` what a million tokens "
            "cost, such as {input = 0.15, output = 0.6}, or 0 for both if they cost nothing"
        )

    def cost(self, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """What so many tokens cost; None when the price or the tokens are not known."""
        if self.price is None or (input_tokens is None and output_tokens is None):
            return None
        paid = (input_tokens or 0) * self.price.input + (output_tokens or 0) * self.price.output
        return paid / 1_000_000
