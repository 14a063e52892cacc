"""Sample datasets and experiments, installed with the program; README.md says where they are from.

``samples_folder()`` holds en-es.jsonl (120 sentences), en-zh.jsonl (60), and one experiment for
each of two systems on each of them.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["EXPERIMENTS", "samples_folder"]

EXPERIMENTS = (
    "en-es.word-by-word.toml",
    "en-es.phrases-first.toml",
    "en-zh.word-by-word.toml",
    "en-zh.phrases-first.toml",
)
"""The experiments; the first two are on one dataset, to be compared, and so are the last two."""


def samples_folder() -> Path:
    """The folder of the samples."""
    return Path(__file__).parent
