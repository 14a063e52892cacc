"""A term is found as a whole word, whatever its case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.term_matching import occurs, replaced


@pytest.mark.parametrize(
    ("term", "text", "is_there"),
    [
        ("Dragoman", "the dragoman speaks", True),
        ("art", "a party", False),
        ("art", "art, and more", True),
        ("C++", "we write C++.", True),
        ("C", "we write C++.", True),
        ("e-mail", "Send an E-Mail today", True),
        ("New York", "in new york now", True),
        ("北京", "我在北京大学", True),
        ("é", "café é", True),
        ("é", "café", False),
        ("a.c", "abc", False),
    ],
)
def test_whole_words_are_found(term: str, text: str, is_there: bool) -> None:
    assert occurs(term, text) is is_there


def test_the_longer_of_two_terms_is_replaced_and_nothing_is_replaced_twice() -> None:
    words = {"hello": "hola", "hello world": "hola mundo", "hola": "never"}
    assert replaced("Hello world, hello!", words) == "hola mundo, hola!"
    assert replaced("nothing here", words) == "nothing here"
    assert replaced("text", {}) == "text"


@given(st.text(min_size=1, max_size=8), st.text(max_size=30))
def test_any_term_and_any_text_can_be_asked_about(term: str, text: str) -> None:
    assert isinstance(occurs(term, text), bool)
    assert isinstance(replaced(text, {term: "x"}), str)
