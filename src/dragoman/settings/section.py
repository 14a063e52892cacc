"""What every section of the settings is made of: a frozen model and a few kinds of values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

YEAR_SECONDS = 365 * 24 * 3600
"""The longest time a setting may have; a longer one is a mistake in the units."""


class Section(BaseModel):
    """A group of settings that is read once and never changes while the program runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


Seconds = Annotated[float, Field(gt=0, le=YEAR_SECONDS, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=YEAR_SECONDS, allow_inf_nan=False)]
"""A time that may be zero, where zero means not waiting at all."""

Milliseconds = Annotated[int, Field(gt=0, le=YEAR_SECONDS * 1000)]
MillisecondsOrZero = Annotated[int, Field(ge=0, le=YEAR_SECONDS * 1000)]
Bytes = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
PercentOrZero = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
