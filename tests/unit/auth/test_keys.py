"""A key shows itself only when it is asked to."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.auth import ApiKey


def test_a_key_carries_256_bits_and_is_recognised() -> None:
    key = ApiKey.generate()
    assert key.reveal().startswith("dgm_")
    assert len(key.reveal()) == len("dgm_") + 43
    assert key.is_well_formed()


def test_keys_are_never_the_same() -> None:
    assert len({ApiKey.generate() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("text", ["", "dgm_", "dgm_short", "sk_" + "a" * 44, "dgm_" + "é" * 43])
def test_what_cannot_be_a_key_is_seen_without_looking_it_up(text: str) -> None:
    assert not ApiKey(text).is_well_formed()


def test_no_way_of_printing_a_key_shows_it() -> None:
    key = ApiKey.generate()
    secret = key.reveal()
    shown = [repr(key), str(key), f"{key}", f"{key!r:>60}", f"{[key]}", str({"key": key})]
    assert not any(secret in text for text in shown)
    with pytest.raises(TypeError, match="not pickled") as refusal:
        pickle.dumps(key)
    assert secret not in str(refusal.value)
    with pytest.raises(TypeError):
        copy.copy(key)


@given(st.text(), st.text())
def test_only_the_same_text_has_the_same_digest(one: str, other: str) -> None:
    assert ApiKey(one).matches(ApiKey(other).digest()) == (one == other)
    assert (ApiKey(one) == ApiKey(other)) == (one == other)


def test_even_a_malformed_key_has_a_digest() -> None:
    assert len(ApiKey("\ud800").digest()) == 64
