"""The parts of a comparison that need no store: differences of texts, words, pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.lab.comparison import histograms
from dragoman.lab.comparison.diffs import Differ, word_diff
from dragoman.lab.comparison.markdown import escaped
from dragoman.lab.comparison.numbers import chance, figure, signed


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_pieces_of_a_diff_are_both_texts(before: str, after: str) -> None:
    pieces = word_diff(before, after)
    assert pieces is not None
    assert "".join(text for kind, text in pieces if kind != "added") == before
    assert "".join(text for kind, text in pieces if kind != "removed") == after


def test_a_diff_is_by_words_and_by_characters_where_there_are_no_spaces() -> None:
    assert word_diff("the red house", "the blue house") == (
        ("same", "the "),
        ("removed", "red"),
        ("added", "blue"),
        ("same", " house"),
    )
    assert word_diff("我爱猫", "我爱狗") == (("same", "我爱"), ("removed", "猫"), ("added", "狗"))
    assert word_diff("รักแมว", "รักหมา") is not None


def test_texts_that_are_too_long_are_not_compared() -> None:
    assert word_diff("a " * 1_000, "b " * 1_000) is None
    differ = Differ(most=2_000)
    long = "a b " * 10
    assert differ.diff(long, long) is not None
    assert differ.diff(long, long) is None
    assert differ.diff("a", "b") == (("removed", "a"), ("added", "b"))


@given(st.text(max_size=80))
def test_a_picture_of_any_name_is_valid_xml(name: str) -> None:
    plot = histograms(name, {name: [(0.0, 1.0, 3)], "none": []})
    assert ET.fromstring(plot.svg).tag.endswith("svg")
    assert plot._repr_svg_() == plot.svg


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "none"), (0.0, "0"), (12.3456, "12.35"), (1234567.0, "1,234,567")],
)
def test_figures_are_short(value: float | None, shown: str) -> None:
    assert figure(value) == shown


def test_differences_have_a_sign_and_small_chances_are_not_zero() -> None:
    assert (signed(1.5), signed(-0.25), signed(0.0), signed(None)) == ("+1.5", "-0.25", "0", "none")
    assert (chance(0.00001), chance(0.04), chance(None)) == ("< 0.001", "0.04", "none")


def test_names_do_not_break_a_markdown_table() -> None:
    assert escaped("a|b\n<script>") == "a\\|b \\<script\\>"
