"""A quality gate in a test suite: the build fails when the translator gets worse.

pytest test_translation.py
"""

from collections.abc import Callable
from pathlib import Path

from dragoman import lab

WORDS = {"good": "buenos", "morning": "días", "hello": "hola", "friend": "amigo"}
SENTENCES = [
    {"english": "good morning", "spanish": "buenos días"},
    {"english": "hello friend", "spanish": "hola amigo"},
    {"english": "good friend", "spanish": "buen amigo"},
    {"english": "hello", "spanish": "hola"},
]


def translate(english: str) -> str:
    """Stands for the model that you ship."""
    return " ".join(WORDS.get(word, word) for word in english.split())


def test_three_of_four_sentences_are_translated_exactly(tmp_path: Path) -> None:
    result = lab.run(
        dataset=SENTENCES,
        target=translate,
        evaluators=[lab.exact(reference="spanish")],
        data_dir=tmp_path,
    )

    mean = result.summary.scores["exact"].mean
    wrong = result.rows({"field": "score.exact", "op": "<", "value": 1})
    assert mean is not None
    assert mean >= 0.75, [row.input for row in wrong]


def test_the_translator_is_not_worse_than_last_time(
    held_to_last: Callable[..., lab.RunResult],
) -> None:
    """`held_to_last` is in conftest.py; it keeps every run, and compares with the one before."""
    held_to_last(
        "wer",
        dataset=SENTENCES,
        target=translate,
        evaluators=[lab.wer(reference="spanish")],
    )
