"""What both stages need: where the model is, and what it computes on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.engines.stage import Requirement
from dragoman.extras import NEEDED_MODULES, is_installed
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Device, Service, ServiceStatus

_MULTILINGUAL_WORDS = 51_865
"""A Whisper model of more than one language has so many words, or more."""


class ModelOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which model, and how it is run."""

    model: str
    """A folder, or a name: then it is fetched once from the Hugging Face Hub."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    compute_type: str = "default"
    """Such as int8 or float16; CTranslate2 lists them."""
    languages: list[str] = []
    """The languages that the model knows; without them those that models of its kind know."""
    service_id: str | None = None
    version: str | None = None
    """Of the service: jobs and canaries ask for it as in `whisper@2`."""
    offline: bool = False
    """Whether a model that is not here yet is refused instead of fetched."""


def device_of(asked: str) -> Device:
    """What the model will compute on."""
    if asked != "auto":
        return Device.GPU if asked == "cuda" else Device.CPU
    import ctranslate2

    return Device.GPU if ctranslate2.get_cuda_device_count() > 0 else Device.CPU


def service_of(kind: ServiceType, options: ModelOptions) -> Service:
    """How the scheduler knows the model."""
    name = options.service_id or f"{Path(options.model).name}-{kind}"
    return Service(
        service_id=re.sub(r"[\s{}]", "_", name)[:128],
        type=kind,
        device=device_of(options.device),
        status=ServiceStatus.RUNNING,
        version=options.version,
        model_id=options.model[-256:],
    )


def whisper_languages(model: str) -> list[str]:
    """The languages of a Whisper model, which its name or its files tell."""
    from faster_whisper.tokenizer import _LANGUAGE_CODES

    if re.search(r"\.en\b", Path(model).name):
        return ["en"]
    words = _words_in(Path(model))
    if words is not None and words < _MULTILINGUAL_WORDS:
        return ["en"]
    return list(_LANGUAGE_CODES)


def _words_in(folder: Path) -> int | None:
    """How many words a model has; None where it is not here yet, or cannot be read."""
    try:
        if (listed := folder / "vocabulary.json").is_file():
            return len(json.loads(listed.read_bytes()))
        if (listed := folder / "vocabulary.txt").is_file():
            return listed.read_bytes().count(b"\n")
    except (OSError, ValueError):
        pass  # loading the model will say what is wrong
    return None


def requirements() -> Sequence[Requirement]:
    """The packages of the extra."""
    install = "pip install 'dragoman[whisper]'"
    return [
        Requirement(f"the Python package {module}", is_installed(module), install)
        for module in NEEDED_MODULES["whisper"]
    ]
