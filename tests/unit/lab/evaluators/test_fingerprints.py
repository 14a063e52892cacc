"""What a score depends on: the same for runs that compare, and told in words where it differs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.lab.evaluators import Fingerprint, differences, fingerprints
from dragoman.lab.evaluators.fingerprints import library_version
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context


def of(kind: str, *, context: Context | None = None, **settings: Any) -> Fingerprint:
    spec = EvaluatorSpec(kind, "any name", settings={"reference": "reference", **settings})
    return fingerprints([spec], context or Context())["any name"]


def test_the_same_settings_have_the_same_fingerprint_and_its_parts_can_be_read() -> None:
    found = of("chrf", word_order=2)
    assert found == of("chrf", word_order=2, char_order=6)
    assert found.parts["kind"] == "chrf"
    settings: Any = found.parts["settings"]
    assert (settings["word_order"], settings["whitespace"]) == (2, False)
    assert found.parts["libraries"] == {"sacrebleu": library_version("sacrebleu")}
    assert msgspec.json.decode(msgspec.json.encode(found), type=Fingerprint) == found
    assert differences(found, of("chrf", word_order=2)) == []


def test_differences_are_named() -> None:
    assert differences(of("chrf"), of("chrf", word_order=2)) == [
        "settings.word_order is 0 in one and 2 in the other"
    ]
    assert differences(of("wer"), of("wer", ignore_case=True, threshold=0.5)) == [
        "settings.ignore_case is false in one and true in the other",
        "settings.threshold is not set in one and 0.5 in the other",
    ]
    assert any(line.startswith("kind is wer in one") for line in differences(of("wer"), of("ter")))


def test_a_language_counts_by_what_it_changes() -> None:
    assert of("bleu", language="zh-TW") == of("bleu", tokenizer="zh")
    assert of("bleu", language="es") == of("bleu")
    assert differences(of("bleu", language="ja"), of("bleu")) == [
        f"libraries.ipadic is {library_version('ipadic')} in one and not set in the other",
        f"libraries.mecab-python3 is {library_version('mecab-python3')} in one and not set in the "
        "other",
        "settings.tokenizer is ja-mecab in one and 13a in the other",
    ]


def test_another_version_of_a_library_is_another_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = of("bleu")
    room = importlib.import_module("dragoman.lab.evaluators.kinds")
    monkeypatch.setattr(room, "library_version", lambda name: "1.0.0")
    assert differences(of("bleu"), now) == [
        f"libraries.sacrebleu is 1.0.0 in one and {library_version('sacrebleu')} in the other"
    ]


def test_the_name_of_a_score_is_no_part_of_it() -> None:
    one, other = (
        EvaluatorSpec("exact", name, settings={"reference": "reference"}) for name in ("a", "b")
    )
    found = fingerprints([one, other], Context())
    assert found["a"] == found["b"]


def test_a_function_counts_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)

    def written(body: str) -> Fingerprint:
        (tmp_path / "my_scores.py").write_text(f"def mine(output):\n    {body}\n")
        sys.modules.pop("my_scores", None)
        importlib.invalidate_caches()
        spec = EvaluatorSpec("python", "p", settings={"function": "my_scores:mine"})
        return fingerprints([spec], Context())["p"]

    first = written("return 1.0")
    assert first.parts["source"] == "def mine(output):\n    return 1.0\n"
    assert written("return 1.0") == first
    changed = differences(first, written("return 2.00"))
    assert "source_sha256 differs" in changed
    assert any(line.startswith("source ") for line in changed)
    sys.modules.pop("my_scores", None)


def test_a_file_that_changes_after_its_import_changes_no_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_other_scores.py").write_text("def mine(output):\n    return 1.0\n")
    spec = EvaluatorSpec("python", "p", settings={"function": "my_other_scores:mine"})
    first = fingerprints([spec], Context())
    (tmp_path / "my_other_scores.py").write_text("def mine(output):\n    return 2.00\n")
    assert fingerprints([spec], Context()) == first
    sys.modules.pop("my_other_scores", None)


def test_a_function_without_a_source_counts_by_its_code() -> None:
    def made(text: str) -> Callable[..., Any]:
        space: dict[str, Any] = {}
        exec(text, space)
        function: Callable[..., Any] = space["mine"]
        return function

    def found(text: str) -> Fingerprint:
        spec = EvaluatorSpec("python", "p", settings={"function": "mine"})
        return fingerprints([spec], Context(functions={"mine": made(text)}))["p"]

    plain = "def mine(output):\n    return [x for x in output] and 1"
    assert found(plain) == found(plain)
    assert differences(found(plain), found(plain.replace("1", "2"))) == ["code_sha256 differs"]


def test_a_composite_counts_what_it_combines() -> None:
    def combined(**settings: Any) -> Fingerprint:
        chrf = EvaluatorSpec("chrf", "chrf", settings={"reference": "r", **settings})
        whole = EvaluatorSpec("composite", "all", settings={"weights": {"chrf": 1.0}})
        return fingerprints([whole, chrf], Context())["all"]

    assert combined() == combined()
    assert differences(combined(), combined(word_order=2)) == ["combines.chrf differs"]
