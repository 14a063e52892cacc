"""Settings that have a name and a default, but are not built yet.

A file may set them to their default, so that a file of all defaults loads. Any other value is
refused with the reason: a setting that is accepted and does nothing would mislead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.settings.wording import as_toml


@dataclass(frozen=True)
class NotBuilt:
    """A setting for a feature that Dragoman does not have yet."""

    default: Any
    what: str
    """What a value other than the default would ask for."""

    def accepts(self, value: Any) -> bool:
        """Whether a file's value is the default."""
        same_kind = isinstance(value, bool) is isinstance(self.default, bool)
        return same_kind and bool(value == self.default)

    def accepts_text(self, text: str) -> bool:
        """Whether a variable's text stands for the default."""
        try:
            return text == self.default or self.accepts(json.loads(text or "[]"))
        except json.JSONDecodeError:
            return False

    def refusal(self, name: str, value: Any) -> str:
        """Why the value is refused, as the end of a sentence that begins with its source."""
        return (
            f"{name} = {as_toml(value)} asks for {self.what}, but that is not built yet; "
            f"leave the key out, or keep its default, {as_toml(self.default)}."
        )


_SEGMENTATION = "scheduler.web_task_segmentation."
_LIVE_SAMPLE = "lab.live_sample."
_DETECTION = "voice activity detection"
_SAMPLES = "experiments on live traffic"

NOT_BUILT: Mapping[str, NotBuilt] = {
    _SEGMENTATION + "vad": NotBuilt("off", _DETECTION),
    _SEGMENTATION + "min_speech_ms": NotBuilt(120, _DETECTION),
    _SEGMENTATION + "pre_roll_ms": NotBuilt(200, _DETECTION),
    "scheduler.selection.prefer_local": NotBuilt(
        True, "a rule on which instance's nodes come first"
    ),
    "scheduler.canary.routes": NotBuilt([], "canary routes"),
    "lab.queue_url": NotBuilt("", "workers outside the server"),
    "lab.retention_days": NotBuilt(0, "pruning of ended experiments"),
    "lab.tenant_weights": NotBuilt({}, "shares between tenants"),
    _LIVE_SAMPLE + "tenants": NotBuilt([], _SAMPLES),
    _LIVE_SAMPLE + "share": NotBuilt(0.01, _SAMPLES),
    _LIVE_SAMPLE + "pairs": NotBuilt([], _SAMPLES),
    _LIVE_SAMPLE + "evaluators": NotBuilt([], _SAMPLES),
}
"""Every such setting by its dotted name; none of them is part of `Settings`."""

EXPERIMENT_KEYS_NOT_BUILT: Mapping[str, NotBuilt] = {
    "run.weight": NotBuilt(1, "shares between experiments"),
}
"""Keys of an experiment file, by the same rule."""

SECTIONS_NOT_BUILT = {name.rpartition(".")[0] for name in NOT_BUILT}
